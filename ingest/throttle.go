package ingest

import (
	"context"
	"sync"
	"time"

	"fastddl/config"
	"fastddl/event"
	"fastddl/internal/sleep"
)

const (
	// throttleReport is how often waiting is reported and judged.
	throttleReport = time.Second
	// throttleShown is for how long after the last wait a job is shown as
	// throttled.
	throttleShown = 500 * time.Millisecond
	// throttleCalm is for how long after it was found to wait most of the time a
	// job leaves its cores to others.
	throttleCalm = 2 * time.Second
	// ownSpeed names a job's own ceiling.
	ownSpeed = "max_write_speed"
)

// throttle is what a share knows of its writes.
type throttle struct {
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
	calm     *time.Timer
}

func newThrottle() *throttle {
	return &throttle{turn: make(chan struct{}, 1), reported: time.Now()}
}

// Wait implements lightning.Limiter: it blocks until n more bytes may be
// written, by the job's own ceiling and by its part of the node's speed.
func (s *Share) Wait(ctx context.Context, n int) error {
	return s.wait(ctx, n, func(int) {})
}

// wait is Wait that tells passed of the bytes as they may be written.
func (s *Share) wait(ctx context.Context, n int, passed func(n int)) error {
	for n > 0 {
		if s.opts.Settings.Get().WriteSpeed == 0 && s.r.writes.limit() == 0 {
			passed(n)
			return ctx.Err()
		}
		start := time.Now()
		s.throttle.begin()
		written, err := s.waitSlice(ctx, n)
		elapsed := s.throttle.end(time.Since(start))
		if err != nil {
			return err
		}
		n -= written
		passed(written)
		s.report(elapsed)
	}
	return nil
}

// waitSlice waits for some of n bytes, and returns how many.
func (s *Share) waitSlice(ctx context.Context, n int) (int, error) {
	select {
	case s.throttle.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-s.throttle.turn }()
	n, err := s.waitOwn(ctx, n)
	if err != nil {
		return 0, err
	}
	return s.r.writes.pass(ctx, &s.throttle.place, s.weight(), n)
}

// waitOwn waits for the job's own ceiling.
func (s *Share) waitOwn(ctx context.Context, n int) (int, error) {
	for {
		speed := s.opts.Settings.Get().WriteSpeed
		if speed == 0 {
			return n, nil
		}
		delay := s.throttle.pace.until(time.Now(), speed)
		if delay <= 0 {
			n = min(n, sliceBytes(speed))
			s.throttle.pace.write(n)
			return n, nil
		}
		if !sleep.For(ctx, min(delay, writeSlice)) {
			return 0, ctx.Err()
		}
	}
}

func (t *throttle) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting++
	t.writers = max(t.writers, t.waiting)
}

// end says that a write has waited so long. When it is time for a report it
// returns the time that has passed since the last one.
func (t *throttle) end(waited time.Duration) (elapsed time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting--
	t.waitedAt = time.Now()
	t.waited += waited
	if since := time.Since(t.reported); since >= throttleReport {
		return since
	}
	return 0
}

// active says that the job's writes wait.
func (t *throttle) active(now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting > 0 || now.Sub(t.waitedAt) < throttleShown
}

// report tells of the waiting since the last report, if any time has passed. If
// all those who write together were at work for less than half of it, one core is
// more than the job needs, and the others are left to other jobs for a while.
func (s *Share) report(elapsed time.Duration) {
	if elapsed == 0 {
		return
	}
	t := s.throttle
	t.mu.Lock()
	waited, worked := t.waited, time.Duration(t.writers)*elapsed-t.waited
	t.waited, t.writers, t.reported = 0, t.waiting, time.Now()
	t.mu.Unlock()
	if waited < writeSlice {
		return
	}
	_, reason := s.writeSpeed()
	s.opts.Bus.Emit(event.Throttled{Job: event.Job{ID: s.opts.JobID}, Reason: reason, For: waited})
	if worked <= elapsed/2 {
		s.yieldCores()
	}
}

// yieldCores leaves the job's cores to others for a while.
func (s *Share) yieldCores() {
	s.throttle.mu.Lock()
	if s.throttle.calm == nil {
		s.throttle.calm = time.AfterFunc(throttleCalm, func() { s.setThrottled(false) })
	} else {
		s.throttle.calm.Reset(throttleCalm)
	}
	s.throttle.mu.Unlock()
	s.setThrottled(true)
}

func (s *Share) setThrottled(throttled bool) {
	s.r.mu.Lock()
	same := s.throttled == throttled
	s.throttled = throttled
	s.r.mu.Unlock()
	if !same {
		s.r.rebalance()
	}
}

// stop ends what the throttle has begun.
func (t *throttle) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calm != nil {
		t.calm.Stop()
	}
}

// writeSpeed is what the job may write now in bytes per second, 0 without a
// limit, and the name of the limit: its own, or its part of the node's, which
// it divides with those that write now.
func (s *Share) writeSpeed() (speed int64, limit string) {
	own, node := s.opts.Settings.Get().WriteSpeed, s.r.writes.limit()
	if node == 0 {
		return own, ownSpeed
	}
	now := time.Now()
	weight := int64(0)
	s.r.mu.Lock()
	for _, other := range s.r.shares {
		if other == s || other.throttle.active(now) {
			weight += other.weight()
		}
	}
	s.r.mu.Unlock()
	part := max(1, node/max(1, weight)*s.weight())
	if own > 0 && own < part {
		return own, ownSpeed
	}
	return part, config.ReorgMaxWriteSpeed
}
