package embedded

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"fastddl/kv/embedded/cop"
)

const (
	// defaultAnswerMemory bounds the answers in flight where no bound is given.
	defaultAnswerMemory = 256 << 20
	// pagesInFlight is the least number of pages that fit into the bound.
	pagesInFlight = 16
)

// errStreamEnded is the error of a request whose answer the SQL layer does not want any more.
var errStreamEnded = fmt.Errorf("embedded: the request's stream has ended: %w", context.Canceled)

// answers bounds the memory of the coprocessor's answers that the SQL layer has not taken yet. A request begins when there
// is room for its page. While the SQL layer waits for a stream, one page of that stream needs no room: what is in flight may
// be what the same statement has read ahead of other tables, and waiting for that would be a deadlock.
type answers struct {
	limit int64 // bytes in flight
	page  int64 // bytes of a page, but for its last row

	mu       sync.Mutex
	inFlight int64 // bytes of all streams
	waiting  []*page
}

// stream is a request of the SQL layer, which a number of requests to regions answer. The mutex of answers guards what
// changes.
type stream struct {
	answers *answers
	ordered bool // the SQL layer takes the pages in the order of their keys,
	desc    bool // from the last

	held   int64   // bytes of its pages that are being read, or were not taken yet
	begun  []*page // that are being read
	ready  int     // pages that were not taken yet
	urgent int     // pages that are being read because the SQL layer waits
	taking bool    // the SQL layer waits for a page
	ended  bool    // the SQL layer takes no more pages
}

// page is one answer that is to be read.
type page struct {
	stream *stream
	at     []byte        // where it begins
	begun  chan struct{} // closed when it may be read
	urgent bool
}

func newAnswers(limit int64) *answers {
	return &answers{limit: limit, page: min(limit/pagesInFlight+1, cop.DefaultPageBytes)}
}

// begin waits until a page that begins at key at may be read. The page has to be ended.
func (s *stream) begin(ctx context.Context, at []byte) (*page, error) {
	a, p := s.answers, s.queue(at)
	select {
	case <-p.begun:
	case <-ctx.Done():
		a.mu.Lock()
		waits := a.forget(p)
		a.admit()
		a.mu.Unlock()
		if waits {
			return nil, ctx.Err()
		}
		<-p.begun // just now
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.ended {
		return nil, errStreamEnded
	}
	return p, nil
}

// queue lets a page wait, or begin at once.
func (s *stream) queue(at []byte) *page {
	p := &page{stream: s, at: at, begun: make(chan struct{})}
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	s.answers.waiting = append(s.answers.waiting, p)
	s.answers.admit()
	return p
}

// forget takes a page out of those that wait, and reports whether it was one. The caller holds mu.
func (a *answers) forget(p *page) bool {
	for i, w := range a.waiting {
		if w == p {
			a.waiting = append(a.waiting[:i], a.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// admit lets pages begin in the order in which they came, as far as there is room, and those that are waited for. The caller
// holds mu.
func (a *answers) admit() {
	for i := 0; i < len(a.waiting); {
		p := a.waiting[i]
		s := p.stream
		switch {
		case s.ended:
		case a.inFlight+a.page <= a.limit:
			a.hold(s, a.page)
		case a.first(p):
			a.hold(s, a.page)
			p.urgent = true
			s.urgent++
		default:
			i++
			continue
		}
		a.waiting = append(a.waiting[:i], a.waiting[i+1:]...)
		s.begun = append(s.begun, p)
		close(p.begun)
	}
}

// first reports whether the SQL layer waits for a stream of which no page is on the way, and would take this page first of
// those that are read or wait to begin. Pages of an ordered stream that were read are not looked at: if the SQL layer did not
// take them in the order of their keys, it would wait for ever.
func (a *answers) first(p *page) bool {
	s := p.stream
	if !s.taking || s.urgent > 0 || !s.ordered && s.ready > 0 {
		return false
	}
	if !s.ordered {
		return true
	}
	before := func(other *page) bool {
		order := bytes.Compare(other.at, p.at)
		return other.stream == s && order != 0 && (order < 0) != s.desc
	}
	return !slices.ContainsFunc(a.waiting, before) && !slices.ContainsFunc(s.begun, before)
}

// hold counts bytes of a stream. The caller holds mu.
func (a *answers) hold(s *stream, n int64) {
	s.held += n
	a.inFlight += n
}

// end says that a page was read and has size bytes: 0 if it could not be read.
func (p *page) end(size int64) {
	s, a := p.stream, p.stream.answers
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.urgent {
		s.urgent--
	}
	s.begun = slices.DeleteFunc(s.begun, func(other *page) bool { return other == p })
	if s.ended {
		return
	}
	a.hold(s, size-a.page)
	if size > 0 {
		s.ready++
	}
	a.admit()
}

// take says that the SQL layer waits for a page.
func (s *stream) take() {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	s.taking = true
	s.answers.admit()
}

// took says that it has a page of size bytes: 0 if there is none, or an empty one.
func (s *stream) took(size int64) {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	s.taking = false
	if size > 0 && !s.ended {
		s.ready--
		s.answers.hold(s, -min(size, s.held))
		s.answers.admit()
	}
}

// end gives back what the stream holds.
func (s *stream) end() {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	s.answers.hold(s, -s.held)
	s.ended = true
	s.answers.admit()
}
