package sbtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Options say what load to run.
type Options struct {
	// Dial opens a session; needed.
	Dial func(ctx context.Context) (Session, error)
	// Threads is the number of sessions; at least 1.
	Threads int
	// PerSecond is the number of transactions that arrive; 0 runs a closed loop,
	// in which each thread begins the next transaction when the last has ended.
	PerSecond float64
	// MaxPerSecond bounds the transactions of a closed loop, over all threads; 0 is
	// no bound.
	MaxPerSecond float64
	// Rows is the size of the table.
	Rows int
	// Seed makes the timetable and the transactions.
	Seed uint64
}

// Validate lists every problem of the options at once.
func (o *Options) Validate() error {
	var errs []error
	if o.Dial == nil {
		errs = append(errs, errors.New("Dial is missing"))
	}
	if o.Threads < 1 {
		errs = append(errs, fmt.Errorf("Threads is %d: at least one is needed", o.Threads))
	}
	if o.PerSecond < 0 {
		errs = append(errs, fmt.Errorf("PerSecond is %v: negative", o.PerSecond))
	}
	if o.MaxPerSecond < 0 || o.MaxPerSecond > 0 && o.PerSecond > 0 {
		errs = append(errs, fmt.Errorf("MaxPerSecond is %v: negative, or of a load that has a rate", o.MaxPerSecond))
	}
	if o.Rows < 1 {
		errs = append(errs, fmt.Errorf("Rows is %d: at least one is needed", o.Rows))
	}
	return errors.Join(errs...)
}

// Driver is a load that runs.
type Driver struct {
	opts  Options
	table timetable     // of an open load
	bound *rate.Limiter // of a closed one; nil without
	start time.Time

	// quit ends the arrivals, of which the last is before end; cancel ends also
	// what has arrived.
	quit    chan struct{}
	end     atomic.Int64
	cancel  context.CancelFunc
	threads sync.WaitGroup
	next    atomic.Int64 // the transaction to be taken next
	ended   atomic.Int64

	mu     sync.Mutex
	record Record
}

// redialPause keeps a thread whose connection was lost from spinning.
const redialPause = 50 * time.Millisecond

// Start opens the sessions and starts the load, which runs until Stop is called
// or ctx ends; Stop must be called in any case.
func Start(ctx context.Context, opts Options) (*Driver, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	sessions, err := dialAll(ctx, opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	d := &Driver{opts: opts, quit: make(chan struct{}), cancel: cancel, start: time.Now()}
	if opts.PerSecond > 0 {
		d.table = newTimetable(opts.PerSecond, opts.Seed)
	}
	if opts.MaxPerSecond > 0 {
		d.bound = rate.NewLimiter(rate.Limit(opts.MaxPerSecond), 1)
	}
	for i, s := range sessions {
		t := &thread{driver: d, session: s, rng: rand.New(rand.NewPCG(opts.Seed, uint64(i)))}
		d.threads.Go(func() { t.run(ctx) })
	}
	return d, nil
}

func dialAll(ctx context.Context, opts Options) ([]Session, error) {
	var sessions []Session
	for range opts.Threads {
		s, err := opts.Dial(ctx)
		if err != nil {
			for _, s := range sessions {
				_ = s.Close() // the first error is what counts
			}
			return nil, fmt.Errorf("open a session of the load: %w", err)
		}
		sessions = append(sessions, s)
	}
	return sessions, nil
}

// Elapsed is the time since the start, as intervals of the record are given.
func (d *Driver) Elapsed() time.Duration { return time.Since(d.start) }

// Backlog is the number of transactions that have arrived and have not ended.
func (d *Driver) Backlog() int64 {
	if d.opts.PerSecond == 0 {
		return 0
	}
	return max(0, d.table.due(d.Elapsed())-d.ended.Load())
}

// Stop ends the arrivals, waits up to grace for what has arrived, cuts off the
// rest and returns what happened.
func (d *Driver) Stop(grace time.Duration) *Record {
	d.end.Store(int64(d.Elapsed()))
	close(d.quit)
	timer := time.AfterFunc(grace, d.cancel)
	d.threads.Wait()
	timer.Stop()
	d.cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	return &d.record
}

// thread runs transactions on one session.
type thread struct {
	driver  *Driver
	session Session // nil after its connection was lost
	rng     *rand.Rand
}

func (t *thread) run(ctx context.Context) {
	defer func() {
		if t.session != nil {
			_ = t.session.Close() // nothing depends on it any more
		}
	}()
	for {
		arrived, ok := t.driver.arrival(ctx)
		if !ok {
			return
		}
		s := t.serve(ctx, arrived)
		if t.driver.opts.PerSecond == 0 && s.Outcome == Unfinished {
			return // no client waited for it
		}
		t.driver.ended.Add(1)
		t.driver.add(s)
	}
}

// arrival waits for the next transaction to arrive and returns when it did. A
// transaction that arrived before Stop was called is still handed out, also
// when there is no time left for it: it counts as unfinished.
func (d *Driver) arrival(ctx context.Context) (time.Duration, bool) {
	if d.opts.PerSecond == 0 {
		if d.bound != nil && d.bound.Wait(ctx) != nil {
			return 0, false
		}
		select {
		case <-d.quit:
			return 0, false
		case <-ctx.Done():
			return 0, false
		default:
			return d.Elapsed(), true
		}
	}
	at := d.table.at(d.next.Add(1) - 1)
	wait := at - d.Elapsed()
	if wait <= 0 {
		if end := d.end.Load(); end != 0 {
			return at, at < time.Duration(end)
		}
		return at, ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return at, true
	case <-d.quit:
	case <-ctx.Done():
	}
	return 0, false
}

// serve runs the transaction that arrived then, again after each conflict.
func (t *thread) serve(ctx context.Context, arrived time.Duration) Sample {
	s := Sample{Arrived: arrived}
	for {
		err := t.attempt(ctx)
		s.Ended = t.driver.Elapsed()
		switch {
		case err == nil:
			return s
		case ctx.Err() != nil:
			s.Outcome = Unfinished
			return s
		case t.session != nil && t.session.Retryable(err):
			s.Retries++
		default:
			s.Outcome = Failed
			t.driver.fail(err)
			t.hangUp()
			return s
		}
	}
}

func (t *thread) attempt(ctx context.Context) error {
	if t.session == nil {
		s, err := t.driver.opts.Dial(ctx)
		if err != nil {
			return err
		}
		t.session = s
	}
	return transaction(ctx, t.session, t.rng, t.driver.opts.Rows)
}

// hangUp drops a session of which the state is not known after an error.
func (t *thread) hangUp() {
	if t.session != nil {
		_ = t.session.Close() // it may be broken
		t.session = nil
	}
	time.Sleep(redialPause)
}

func (d *Driver) add(s Sample) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.record.samples = append(d.record.samples, s)
}

// maxKeptErrors bounds the errors that are kept for the report.
const maxKeptErrors = 3

func (d *Driver) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.record.errs) < maxKeptErrors {
		d.record.errs = append(d.record.errs, err)
	}
}
