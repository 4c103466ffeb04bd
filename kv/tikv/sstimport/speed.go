package sstimport

import (
	"context"
	"sync"
	"time"

	"fastddl/internal/sleep"
)

// speedStep is how often one who waits looks at the speed, which may have changed.
const speedStep = 100 * time.Millisecond

// throttle bounds the bytes per second that one store is sent.
// It is no rate.Limiter: that saves up what was not sent, and refuses more than its burst at a time.
type throttle struct {
	limit func() int64 // bytes per second; 0 is none

	mu   sync.Mutex
	debt float64 // bytes that were let through ahead of time
	last time.Time
}

// wait returns when n more bytes may be sent. The speed holds over any time that is long
// compared with n bytes.
func (t *throttle) wait(ctx context.Context, n int) error {
	for {
		pause := t.take(time.Now(), n)
		if pause == 0 {
			return nil
		}
		if !sleep.For(ctx, min(pause, speedStep)) {
			return ctx.Err()
		}
	}
}

// take lets n bytes through and returns 0, or how long it will be until it does.
func (t *throttle) take(now time.Time, n int) time.Duration {
	limit := float64(t.limit())
	t.mu.Lock()
	defer t.mu.Unlock()
	if limit == 0 {
		t.debt = 0
		return 0
	}
	if !t.last.IsZero() {
		t.debt = max(0, t.debt-limit*now.Sub(t.last).Seconds())
	}
	t.last = now
	if t.debt > 0 {
		return max(time.Duration(t.debt/limit*float64(time.Second)), time.Microsecond)
	}
	t.debt = float64(n)
	return 0
}
