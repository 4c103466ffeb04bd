package ingest

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"fastddl/config"
	"fastddl/event"
)

// throttle holds a job to the write speed that the system variable allows. It
// implements lightning.Limiter.
type throttle struct {
	globals *config.Globals
	bus     *event.Bus
	job     event.Job

	limiter *rate.Limiter

	mu       sync.Mutex
	waited   time.Duration // since the last event
	reported time.Time
}

const (
	// throttleSlice is the longest a single wait is meant to be, so that a new
	// limit is obeyed soon.
	throttleSlice = 50 * time.Millisecond
	// throttleReport is how often waiting is reported.
	throttleReport = time.Second
)

func newThrottle(globals *config.Globals, bus *event.Bus, jobID int64) *throttle {
	return &throttle{
		globals: globals, bus: bus, job: event.Job{ID: jobID},
		limiter: rate.NewLimiter(rate.Inf, 1), reported: time.Now(),
	}
}

// Wait blocks until n more bytes may be written.
func (t *throttle) Wait(ctx context.Context, n int) error {
	for n > 0 {
		limit := t.globals.Int(config.ReorgMaxWriteSpeed)
		if limit == 0 {
			return ctx.Err()
		}
		slice := max(1, int(limit*int64(throttleSlice)/int64(time.Second)))
		if t.limiter.Limit() != rate.Limit(limit) {
			t.limiter.SetLimit(rate.Limit(limit))
			t.limiter.SetBurst(slice)
		}
		take := min(n, slice)
		r := t.limiter.ReserveN(time.Now(), take)
		if !r.OK() {
			continue // the limit was lowered meanwhile
		}
		delay := r.Delay()
		if err := pause(ctx, delay); err != nil {
			r.Cancel()
			return err
		}
		n -= take
		t.report(delay)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (t *throttle) report(waited time.Duration) {
	t.mu.Lock()
	t.waited += waited
	total, due := t.waited, time.Since(t.reported) >= throttleReport
	if due {
		t.waited, t.reported = 0, time.Now()
	}
	t.mu.Unlock()
	if due && total >= throttleSlice {
		t.bus.Emit(event.Throttled{Job: t.job, Reason: config.ReorgMaxWriteSpeed, For: total})
	}
}
