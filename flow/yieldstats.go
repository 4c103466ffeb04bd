package flow

import (
	"sync"
	"time"
)

const (
	// reportThreshold is the part of its workers' time from which on a job is shown to
	// yield.
	reportThreshold = 0.05
	// yieldWindow is the time that part is taken of.
	yieldWindow = time.Second
)

// yieldStats sums for how long a job's workers have yielded to the foreground, and
// reports it from time to time.
type yieldStats struct {
	onReport func(reason Reason, waited time.Duration)

	mu       sync.Mutex
	reason   Reason
	waited   time.Duration // since reported
	reported time.Time

	// window is when the current yieldWindow began; current is for how long workers have
	// yielded to statements in it, before in the one before.
	window          time.Time
	before, current time.Duration
}

func (y *yieldStats) add(reason Reason, waited time.Duration) {
	if waited == 0 {
		return
	}
	now := time.Now()
	y.mu.Lock()
	if y.reported.IsZero() {
		y.reported = now
	}
	y.reason, y.waited = reason, y.waited+waited
	if reason == Statements {
		y.turn(now)
		y.current += waited
	}
	due := now.Sub(y.reported) >= ReportInterval
	y.mu.Unlock()
	if due {
		y.report()
	}
}

// turn begins the next window when it is due.
func (y *yieldStats) turn(now time.Time) {
	switch past := now.Sub(y.window); {
	case past < yieldWindow:
		return
	case past < 2*yieldWindow:
		y.before = y.current
	default:
		y.before = 0
	}
	y.window, y.current = now, 0
}

func (y *yieldStats) report() {
	y.mu.Lock()
	reason, waited := y.reason, y.waited
	y.waited, y.reported = 0, time.Now()
	y.mu.Unlock()
	if waited > 0 {
		y.onReport(reason, waited)
	}
}

// yieldedFor returns for how long workers have yielded to statements within a window of
// late, summed over the workers.
func (y *yieldStats) yieldedFor() time.Duration {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.turn(time.Now())
	return max(y.before, y.current)
}
