package flow

import (
	"context"
	"sync"
	"time"

	"fastddl/internal/sleep"
)

const (
	// ThrottledFor is for how long after the last wait a job counts as throttled.
	ThrottledFor = 500 * time.Millisecond
	// IdleFor is for how long after it was found to wait most of the time a job
	// leaves its cores to others.
	IdleFor = 2 * time.Second
)

// WriteLimits are what one job may write.
type WriteLimits struct {
	// BytesPerSecond is the job's own ceiling; 0 is none.
	BytesPerSecond int64
	// Weight is by what the node's speed is divided between jobs, above 0.
	Weight int64
}

// ThrottleOptions connect a throttle with its job.
type ThrottleOptions struct {
	// Limits returns the limits in force.
	Limits func() WriteLimits
	// Waited is called once in ReportInterval with how long writes have waited, summed.
	Waited func(waited time.Duration)
	// Idle is called with true when writes wait so much that one core is enough for the job,
	// and with false IdleFor after that was so last.
	Idle func(idle bool)
}

// Throttle holds a job's writes to its own ceiling and to its part of the node's speed.
// All methods may be called concurrently.
type Throttle struct {
	queue *WriteQueue
	opts  ThrottleOptions

	// turn is held by the write that waits, so that the job has one at a time,
	// however many workers it has. pace is that of the job's own ceiling, place its
	// place in the node's queue; both belong to the holder.
	turn  chan struct{}
	pace  pace
	place queuePlace

	mu       sync.Mutex
	waiting  int
	waitedAt time.Time
	waited   time.Duration // since the last report, of all writes together
	writers  int           // the most that waited at one time since then
	reported time.Time
	idle     *time.Timer
}

// NewThrottle returns the throttle of a job, which Stop ends.
func (q *WriteQueue) NewThrottle(opts ThrottleOptions) *Throttle {
	return &Throttle{queue: q, opts: opts, turn: make(chan struct{}, 1), reported: time.Now()}
}

// Wait blocks until n more bytes may be written, and calls passed with those that may
// as soon as they may.
func (t *Throttle) Wait(ctx context.Context, n int, passed func(n int)) error {
	for n > 0 {
		if t.opts.Limits().BytesPerSecond == 0 && t.queue.limit() == 0 {
			passed(n)
			return ctx.Err()
		}
		start := time.Now()
		t.begin()
		written, err := t.waitSlice(ctx, n)
		elapsed := t.end(time.Since(start))
		if err != nil {
			return err
		}
		n -= written
		passed(written)
		t.report(elapsed)
	}
	return nil
}

// waitSlice waits for some of n bytes, and returns how many.
func (t *Throttle) waitSlice(ctx context.Context, n int) (int, error) {
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-t.turn }()
	n, err := t.waitOwn(ctx, n)
	if err != nil {
		return 0, err
	}
	return t.queue.pass(ctx, &t.place, t.opts.Limits().Weight, n)
}

// waitOwn waits for the job's own ceiling.
func (t *Throttle) waitOwn(ctx context.Context, n int) (int, error) {
	for {
		speed := t.opts.Limits().BytesPerSecond
		if speed == 0 {
			return n, nil
		}
		now := time.Now()
		delay := t.pace.until(now, speed)
		if delay <= 0 {
			n = min(n, sliceBytes(speed))
			t.pace.write(now, n)
			return n, nil
		}
		if !sleep.For(ctx, min(delay, WriteSlice)) {
			return 0, ctx.Err()
		}
	}
}

func (t *Throttle) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting++
	t.writers = max(t.writers, t.waiting)
}

// end says that a write has waited so long. When it is time for a report it
// returns the time that has passed since the last one.
func (t *Throttle) end(waited time.Duration) (elapsed time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting--
	t.waitedAt = time.Now()
	t.waited += waited
	if since := time.Since(t.reported); since >= ReportInterval {
		return since
	}
	return 0
}

// Active reports whether the job's writes wait, or have within ThrottledFor.
func (t *Throttle) Active(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting > 0 || now.Sub(t.waitedAt) < ThrottledFor
}

// report reports the waiting since the last report, if any time has passed. If
// all those who write together were at work for less than half of it, one core is
// more than the job needs, and the others are left to other jobs for a while.
func (t *Throttle) report(elapsed time.Duration) {
	if elapsed == 0 {
		return
	}
	t.mu.Lock()
	waited, worked := t.waited, time.Duration(t.writers)*elapsed-t.waited
	t.waited, t.writers, t.reported = 0, t.waiting, time.Now()
	t.mu.Unlock()
	if waited < WriteSlice {
		return
	}
	t.opts.Waited(waited)
	if worked <= elapsed/2 {
		t.leaveCores()
	}
}

// leaveCores leaves the job's cores to others for a while.
func (t *Throttle) leaveCores() {
	t.mu.Lock()
	if t.idle == nil {
		t.idle = time.AfterFunc(IdleFor, func() { t.opts.Idle(false) })
	} else {
		t.idle.Reset(IdleFor)
	}
	t.mu.Unlock()
	t.opts.Idle(true)
}

// Stop ends what the throttle has begun.
func (t *Throttle) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle != nil {
		t.idle.Stop()
	}
}
