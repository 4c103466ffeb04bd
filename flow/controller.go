package flow

import (
	"math"
	"time"
)

const (
	// Interval is how often a controller should be given signals.
	Interval = 100 * time.Millisecond
	// MinShare is the least share: however busy the foreground is, builds end.
	MinShare = 0.1

	// minInitialShare is the share that builds begin with beside a foreground of which nothing is known, if there is a target. One that was
	// found before is used instead until staleAfter.
	minInitialShare = 0.5
	staleAfter      = 10 * time.Minute

	// activeTime is what statements take within a second if there is a foreground.
	// A session that only logs in and sends its ALTER is none.
	activeTime = 10 * time.Millisecond
	// smoothing is the time constant with which the time of threads is averaged.
	smoothing = 300 * time.Millisecond
	// minOnCPU is the part of its time that a statement at least runs, or could run,
	// unless it waits for something else.
	minOnCPU = 0.25
)

// Controller turns signals into decisions. The zero value is ready to use. It is
// not safe for concurrent use.
type Controller struct {
	target target
	// threads is the time of foreground threads, and elapsed that in which they had it: sums in which the past counts the less the longer
	// it is ago.
	threads, elapsed float64

	observedAt time.Time
}

// Begin returns the first decision after a time without builds. The signals' times but for Statements are not used.
func (c *Controller) Begin(now time.Time, s Signals) Decision {
	c.threads, c.elapsed = 0, 0
	return c.decide(s, c.target.begin(s, active(s) && now.Sub(c.observedAt) > staleAfter))
}

// Observe returns the next decision.
func (c *Controller) Observe(now time.Time, s Signals) Decision {
	c.observedAt = now
	keep := math.Exp(-float64(s.Elapsed) / float64(smoothing))
	c.threads = c.threads*keep + float64(s.Foreground)
	c.elapsed = c.elapsed*keep + float64(s.Elapsed)
	return c.decide(s, c.target.observe(s))
}

func (c *Controller) decide(s Signals, share float64) Decision {
	if !active(s) {
		return Full
	}
	d := Decision{Share: share, Foreground: true, OffCPU: c.offCPU(s)}
	if share < 1 {
		d.Reason = TargetLatency
	}
	return d
}

// active reports whether there is a foreground.
func active(s Signals) bool { return s.Statements >= activeTime }

// offCPU returns how many of the statements wait for something else than a processor.
// Those of a busy server run for at least a part of their time, minOnCPU.
func (c *Controller) offCPU(s Signals) int {
	if c.threads == 0 {
		return 0 // it is not known
	}
	return max(0, int(math.Round(s.Statements.Seconds()-c.threads/c.elapsed/minOnCPU)))
}
