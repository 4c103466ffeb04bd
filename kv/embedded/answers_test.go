package embedded

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/session"
	"github.com/pingcap/tidb/pkg/store/copr"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fastddl/kv/pebblekv"
)

// begun reports whether a page may be read.
func begun(p *page) bool {
	select {
	case <-p.begun:
		return true
	default:
		return false
	}
}

func TestAnswersInFlightAreBounded(t *testing.T) {
	a := &answers{limit: 100, page: 30}
	one, other := &stream{answers: a}, &stream{answers: a}
	first, second, third := one.queue(nil), one.queue(nil), one.queue(nil)
	require.True(t, begun(first) && begun(second) && begun(third))
	fourth, fifth := one.queue(nil), other.queue(nil)
	require.False(t, begun(fourth) || begun(fifth), "there is no room for a page")

	first.end(25)
	require.False(t, begun(fourth) || begun(fifth))
	second.end(5)
	require.True(t, begun(fourth), "the second was smaller than expected")
	require.False(t, begun(fifth))
	third.end(30)
	fourth.end(30)
	require.EqualValues(t, 90, a.inFlight)
	one.took(25)
	require.True(t, begun(fifth), "one was taken")
	fifth.end(0) // its request failed
	require.EqualValues(t, 65, a.inFlight)
	one.end()
	require.Zero(t, a.inFlight)
	require.Empty(t, a.waiting)
}

// TestStreamsThatAreWaitedForGoOn: regardless of what is in flight, such a stream reads a page at a time, the first of those
// that wait.
func TestStreamsThatAreWaitedForGoOn(t *testing.T) {
	for _, c := range []struct {
		ordered, desc bool
		first         int // of the pages that wait
	}{{false, false, 0}, {true, false, 1}, {true, true, 2}} {
		a := &answers{limit: 100, page: 30}
		idle := &stream{answers: a}
		idle.queue(nil).end(1000)
		s := &stream{answers: a, ordered: c.ordered, desc: c.desc}
		pages := []*page{s.queue([]byte("m")), s.queue([]byte("a")), s.queue([]byte("z"))}
		for _, p := range pages {
			require.False(t, begun(p))
		}
		s.take()
		for i, p := range pages {
			require.Equal(t, i == c.first, begun(p), "%+v, page %d", c, i)
		}
		pages[c.first].end(500)
		next := 0
		for _, p := range pages {
			if begun(p) {
				next++
			}
		}
		if c.ordered { // the page that is waited for may be another
			require.Equal(t, 2, next, "%+v", c)
		} else {
			require.Equal(t, 1, next, "%+v: the page is there", c)
		}
	}
}

// TestPagesBehindASlowOneWait: while the first page of an ordered stream is read, the SQL layer has no use for later ones.
func TestPagesBehindASlowOneWait(t *testing.T) {
	a := &answers{limit: 40, page: 30}
	s := &stream{answers: a, ordered: true}
	slow := s.queue([]byte("a"))
	require.True(t, begun(slow), "there is room")
	s.take()
	later := s.queue([]byte("m"))
	require.False(t, begun(later))
	slow.end(40)
	require.True(t, begun(later), "it may be the one that is waited for")
}

func TestWaitingForRoomEnds(t *testing.T) {
	a := &answers{limit: 100, page: 30}
	full := &stream{answers: a}
	full.queue(nil).end(1000)
	s := &stream{answers: a}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.begin(ctx, nil)
	require.ErrorIs(t, err, context.Canceled, "with its context")

	failed := make(chan error)
	go func() {
		_, err := s.begin(t.Context(), nil)
		failed <- err
	}()
	require.Eventually(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.waiting) == 1
	}, time.Minute, time.Millisecond)
	s.end()
	err = <-failed
	require.ErrorIs(t, err, errStreamEnded, "with its stream")
	require.ErrorIs(t, err, context.Canceled, "statements that are killed get the number of that")
	require.EqualValues(t, 1000, a.inFlight)
}

// TestJoinsGoOnAtTheLimit: the streams of a statement share the memory for answers, here none, with those of statements
// whose clients do not read on. Each stream gets its pages.
func TestJoinsGoOnAtTheLimit(t *testing.T) {
	s, err := Open("db", Options{Pebble: pebblekv.Options{FS: vfs.NewMem()}, AnswerMemory: 1})
	require.NoError(t, err)
	d, err := session.BootstrapSession(s.Storage())
	require.NoError(t, err)
	sql := &sqlStore{Store: s, t: t, domain: d}
	defer sql.close()
	se := sql.session()
	defer se.Close()
	const rows, tables = 600, 5
	var join, sum []string
	for i := range tables {
		name := fmt.Sprintf("test.t%d", i)
		mustQuery(t, se, "create table "+name+" (a int primary key, b int, c varchar(500), key b (b))")
		var values []string
		for r := range rows {
			values = append(values, fmt.Sprintf("(%d, %d, repeat('%d', 300))", r, (r*7)%rows, i))
		}
		mustQuery(t, se, "insert into "+name+" values "+strings.Join(values, ","))
		mustQuery(t, se, "split table "+name+" by (100), (200), (300), (400), (500)")
		if i > 0 {
			join = append(join, fmt.Sprintf("%s use index (b) on t0.b = t%d.b", name, i))
		}
		sum = append(sum, fmt.Sprintf("sum(length(t%d.c))", i))
	}
	from := " from test.t0 use index (b) join " + strings.Join(join, " join ")
	idle := sql.session()
	defer idle.Close()
	sets, err := idle.Execute(t.Context(), "select * from test.t0")
	require.NoError(t, err)
	require.NoError(t, sets[0].Next(t.Context(), sets[0].NewChunk(nil)))

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var group errgroup.Group
	for _, hint := range []string{
		"merge_join(t0, t1, t2, t3, t4)", "hash_join(t0, t1, t2, t3, t4)", "inl_join(t1, t2, t3, t4)", "inl_hash_join(t1, t2, t3, t4)",
	} {
		group.Go(func() error {
			session := sql.session()
			defer session.Close()
			statement := "select /*+ " + hint + " */ count(*), " + strings.Join(sum, " + ") + from
			ended := make(chan error, 1)
			go func() {
				got, err := query(session, statement)
				if want := fmt.Sprint([][]string{{fmt.Sprint(rows), fmt.Sprint(rows * tables * 300)}}); err == nil && fmt.Sprint(got) != want {
					err = fmt.Errorf("%s: %v, not %s", hint, got, want)
				}
				ended <- err
			}()
			select {
			case err := <-ended:
				return err
			case <-ctx.Done():
				return fmt.Errorf("%s: it does not end", hint)
			}
		})
	}
	require.NoError(t, group.Wait())
	require.NoError(t, sets[0].Close())
	s.service.answers.mu.Lock()
	defer s.service.answers.mu.Unlock()
	require.Empty(t, s.service.answers.waiting)
}

// pages is a response of TiDB's client that hands out what it is given, and an error then.
type pages struct {
	tidbkv.Response
	copr.CopInfo
	left [][]byte
	err  error
}

func (p *pages) Next(context.Context) (tidbkv.ResultSubset, error) {
	if len(p.left) == 0 {
		return nil, p.err
	}
	data := p.left[0]
	p.left = p.left[1:]
	return subset{data: data}, nil
}

func (p *pages) Close() error { return nil }

type subset struct {
	tidbkv.ResultSubset
	data []byte
}

func (s subset) GetData() []byte { return s.data }

// pagesClient is a client whose response has pages that were read, as it is sent, and one more than is handed out.
type pagesClient struct {
	tidbkv.Client
	err error
}

func (c pagesClient) Send(ctx context.Context, _ *tidbkv.Request, _ any, _ *tidbkv.ClientSendOption) tidbkv.Response {
	r := requestsOf(ctx)
	for range 3 {
		r.queue(nil).end(10)
	}
	return &pages{left: [][]byte{make([]byte, 10), make([]byte, 10)}, err: c.err}
}

// TestReadingsGiveTheirAnswersBack: however they end, also if TiDB never closes them.
func TestReadingsGiveTheirAnswersBack(t *testing.T) {
	for name, end := range map[string]func(r tidbkv.Response, cancel func()){
		"closed":    func(r tidbkv.Response, _ func()) { _ = r.Close() },
		"cancelled": func(_ tidbkv.Response, cancel func()) { cancel() },
		"read": func(r tidbkv.Response, _ func()) {
			for {
				if result, _ := r.Next(context.Background()); result == nil {
					return
				}
			}
		},
	} {
		for _, err := range []error{nil, context.DeadlineExceeded} {
			a := newAnswers(1 << 20)
			ctx, cancel := context.WithCancel(t.Context())
			r := copClient{Client: pagesClient{err: err}, answers: a}.Send(ctx, &tidbkv.Request{StoreType: tidbkv.TiKV}, nil, nil)
			_, failed := r.Next(ctx)
			require.NoError(t, failed)
			held := func() int64 {
				a.mu.Lock()
				defer a.mu.Unlock()
				return a.inFlight
			}
			require.EqualValues(t, 20, held(), name)
			end(r, cancel)
			require.Eventually(t, func() bool { return held() == 0 }, time.Minute, time.Millisecond, "%s, %v", name, err)
			cancel()
		}
	}
}
