package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// feedInterval is the time between two readings of a job that is followed.
	feedInterval = time.Second
	// heartbeat is how long a stream of events says nothing at most.
	heartbeat = 10 * time.Second
	// maxFollowers bounds those of all jobs.
	maxFollowers = 5000
)

// feeds read jobs for those who follow them: a job once a second for each account.
type feeds struct {
	api *API

	mu        sync.Mutex
	open      map[feedKey]*feed
	readers   map[feedKey]*reader
	followers int
}

// feedKey is a job as the log-ins of an account see it that began in one state. A reader's has no job.
type feedKey struct {
	account, state string
	job            int64
}

// reader reads the jobs that an account follows, one after the other, by one session: else who follows many would leave none for others.
type reader struct {
	// turn is held while session is used.
	turn    chan struct{}
	session Session
	// feeds are those that use it; guarded by the mutex of feeds.
	feeds int
}

// feed is a job as an account sees it.
type feed struct {
	key feedKey
	// account opens the session of reader, by which the job is read.
	account Account
	reader  *reader

	// The rest is guarded by the mutex of feeds.
	followers map[*follower]struct{}
	last      []byte // the newest event but the end, for followers that come later
}

// follower receives the events of a feed. One that is slow gets the newest only.
type follower struct {
	login *login
	// ready has an element when next is there.
	ready chan struct{}
	next  []byte
	// ended says that next is the last.
	ended bool
}

func newFeeds(a *API) *feeds {
	return &feeds{api: a, open: make(map[feedKey]*feed), readers: make(map[feedKey]*reader)}
}

// follow makes a log-in a follower of a job, until leave.
func (f *feeds) follow(x *login, job int64) (*follower, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.followers >= maxFollowers {
		return nil, &httpError{status: http.StatusServiceUnavailable, message: "too many requests follow jobs", retryAfter: 10}
	}
	key := feedKey{x.account.Name(), x.account.State(), job}
	n := &follower{login: x, ready: make(chan struct{}, 1)}
	d := f.open[key]
	if d == nil {
		d = &feed{key: key, account: x.account, followers: make(map[*follower]struct{})}
		of := feedKey{account: key.account, state: key.state}
		if d.reader = f.readers[of]; d.reader == nil {
			d.reader = &reader{turn: make(chan struct{}, 1)}
			f.readers[of] = d.reader
		}
		d.reader.feeds++
		if !f.api.begin(func() { defer f.unread(of, d.reader); f.run(d) }) {
			d.reader.feeds--
			return nil, ErrStopping
		}
		f.open[key] = d
	}
	d.followers[n] = struct{}{}
	f.followers++
	if d.last != nil {
		n.give(d.last, false)
	}
	return n, nil
}

// give replaces what a follower gets next. The caller holds the mutex of feeds.
func (n *follower) give(event []byte, last bool) {
	if n.ended {
		return
	}
	n.next, n.ended = event, last
	select {
	case n.ready <- struct{}{}:
	default:
	}
}

// take returns what a follower gets next; last says that nothing comes behind it.
func (f *feeds) take(n *follower) (event []byte, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	event, n.next = n.next, nil
	return event, n.ended
}

// leave ends a following.
func (f *feeds) leave(n *follower, job int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers--
	if d := f.open[feedKey{n.login.account.Name(), n.login.account.State(), job}]; d != nil {
		delete(d.followers, n)
	}
}

// run reads a job until it has ended, or has no follower.
func (f *feeds) run(d *feed) {
	ctx := f.api.ctx
	ticker := time.NewTicker(feedInterval)
	defer ticker.Stop()
	// After a panic below, followers would wait for a job that is not read any more.
	defer f.end(d, errorEvent(&httpError{status: http.StatusInternalServerError, message: "the job is not read any more"}))
	for {
		if f.abandoned(d) {
			return
		}
		if err := f.step(ctx, d); err != nil {
			if ctx.Err() != nil {
				err = ErrStopping
			}
			f.end(d, errorEvent(err))
			return
		}
		select {
		case <-ctx.Done():
			f.end(d, errorEvent(ErrStopping))
			return
		case <-ticker.C:
		}
	}
}

// abandoned ends a feed without followers, and returns whether it did.
func (f *feeds) abandoned(d *feed) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(d.followers) > 0 {
		return false
	}
	if f.open[d.key] == d {
		delete(f.open, d.key)
	}
	return true
}

// step reads the job once, with the rights that the account has now, and ends the following of log-ins that hold no longer.
func (f *feeds) step(ctx context.Context, d *feed) error {
	ctx, cancel := context.WithTimeout(ctx, statementTimeout)
	defer cancel()
	state, err := d.account.Current(ctx)
	if err != nil {
		return err
	}
	if !f.dismiss(d, state) {
		return nil
	}
	rows, err := d.reader.read(ctx, d.account, d.key.job)
	if err != nil {
		return err
	}
	found := rows.objects()
	if len(found) == 0 {
		return refuse(http.StatusNotFound, "the job is not shown any more: it has left the history, or the account has no right on its table")
	}
	data, err := json.Marshal(found[0])
	if err != nil {
		return fmt.Errorf("encode job %d: %w", d.key.job, err)
	}
	if found[0]["end_time"] != nil {
		f.end(d, event("end", data))
		return nil // the next look finds no followers
	}
	f.publish(d, event("progress", data))
	return nil
}

// read returns the rows of a job.
func (r *reader) read(ctx context.Context, account Account, job int64) (*Result, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.session != nil && r.session.Ended() {
		r.close()
	}
	if r.session == nil {
		opened, err := openInUTC(ctx, account)
		if err != nil {
			return nil, err
		}
		r.session = opened
	}
	rows, err := r.session.RunOn(ctx, Needed{Job: job}, selectJob, job)
	if err != nil {
		r.close() // what it was doing is not known
	}
	return rows, err
}

// close closes the session. The caller holds the turn, or is the last that uses the reader.
func (r *reader) close() {
	if r.session != nil {
		r.session.Close()
		r.session = nil
	}
}

// unread ends a feed's use of a reader.
func (f *feeds) unread(of feedKey, r *reader) {
	f.mu.Lock()
	r.feeds--
	last := r.feeds == 0
	if last && f.readers[of] == r {
		delete(f.readers, of)
	}
	f.mu.Unlock()
	if last {
		r.close()
	}
}

// dismiss ends the following of log-ins that hold no longer, and returns whether any is left.
func (f *feeds) dismiss(d *feed, state string) (left bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := range d.followers {
		if n.login.account.State() == state && f.api.logins.holds(n.login) {
			left = true
			continue
		}
		n.give(errorEvent(ErrLoginEnded), true)
		delete(d.followers, n)
	}
	return left
}

// publish gives an event to all followers, if it says something new.
func (f *feeds) publish(d *feed, event []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if bytes.Equal(event, d.last) {
		return
	}
	d.last = event
	for n := range d.followers {
		n.give(event, false)
	}
}

// end gives the last event to all followers. A feed that was ended has none.
func (f *feeds) end(d *feed, event []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[d.key] == d {
		delete(f.open, d.key)
	}
	for n := range d.followers {
		n.give(event, true)
	}
	clear(d.followers)
}

// event is an event as it is sent.
func event(name string, data []byte) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data)
}

func errorEvent(err error) []byte {
	_, body := describe(err)
	data, err := json.Marshal(body)
	if err != nil {
		data = []byte("{}")
	}
	return event("error", data)
}

// stream sends the events of a job until it has ended, or the client is gone or does not read.
func (c *call) stream(job int64) error {
	n, err := c.api.feeds.follow(c.login, job)
	if err != nil {
		return err
	}
	defer c.api.feeds.leave(n, job)
	header := c.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	c.w.WriteHeader(http.StatusOK)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	control := http.NewResponseController(c.w)
	send := func(data []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // not all have one
		if _, err := c.w.Write(data); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	if !send([]byte(": job " + fmt.Sprint(job) + "\n\n")) {
		return nil
	}
	for {
		select {
		case <-n.ready:
			data, last := c.api.feeds.take(n)
			if len(data) > 0 && !send(data) || last {
				return nil
			}
		case <-beat.C:
			if !send([]byte(": heartbeat\n\n")) {
				return nil
			}
		case <-c.ctx.Done():
			if errors.Is(context.Cause(c.ctx), ErrStopping) {
				send(errorEvent(ErrStopping))
			}
			return nil
		}
	}
}
