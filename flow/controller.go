package flow

import (
	"math"
	"time"
)

const (
	// Interval is how often a controller should be given signals.
	Interval = 100 * time.Millisecond
	// Floor is the least share: however busy the foreground is, builds come to an
	// end. One that uses little of the machine has less of a claim to the rest: with
	// none of it builds keep lightFloor, with busyForeground of it Floor, and in
	// proportion between.
	Floor          = 0.1
	lightFloor     = 0.5
	busyForeground = 0.2

	// cautious is the least share that builds begin with beside a foreground that
	// nothing is known of yet: they leave to it what its statements have had. What was
	// learned is kept for memory.
	cautious = 0.5
	memory   = 10 * time.Minute
	// fresh is for how long after builds the last seconds say nothing about a
	// foreground without them.
	fresh = 10 * time.Second

	// activeTime is what statements take within a second if there is a foreground.
	// A session that only logs in and sends its ALTER is none.
	activeTime = 10 * time.Millisecond
	// smoothing is the time over which signals are averaged.
	smoothing = 300 * time.Millisecond

	// hardly is how many times the floor a share is at which builds hardly run.
	hardly = 1.05

	// calm is the pressure up to which the share rises: by rise in each interval.
	calm = 0.7
	rise = 1.08
	// In an interval with a pressure p above 1 the share falls by p^-gain, at most
	// to the part fall of it.
	gain = 0.5
	fall = 0.5
)

// Controller turns signals into decisions. The zero value is ready to use. It is
// not safe for concurrent use.
type Controller struct {
	share  float64 // 0 before the first decision
	reason Reason

	processors processors
	commits    commits

	// settled is the share that was reached beside a foreground, and when.
	settled   float64
	settledAt time.Time

	observedAt time.Time
}

// Begin begins to govern, when there was nothing to govern before. The signals'
// Commits and CommitTime are those of the last seconds; the other times are not
// looked at.
func (c *Controller) Begin(now time.Time, s Signals) Decision {
	c.processors = processors{}
	if now.Sub(c.observedAt) > fresh {
		c.commits.begin(s)
	}
	c.share, c.reason = 1, ""
	if active(s) {
		c.share, c.reason = max(cautious, 1-s.Statements.Seconds()/float64(max(1, s.Processors))), Processors
		if c.settled > 0 && now.Sub(c.settledAt) < memory {
			c.share = c.settled
		}
		if c.share == 1 {
			c.reason = ""
		}
	}
	return c.decide(s)
}

// Observe takes the next signals.
func (c *Controller) Observe(now time.Time, s Signals) Decision {
	c.observedAt = now
	c.processors.observe(s)
	c.commits.observe(s, c.share <= hardly*Floor)
	if !active(s) {
		c.share, c.reason = 1, ""
		return Full
	}
	pressure, reason := c.pressure(s)
	c.move(pressure, s)
	switch {
	case c.share == 1:
		c.reason = ""
	case pressure > 1 || c.reason == "":
		c.reason = reason
	}
	c.settled, c.settledAt = c.share, now
	return c.decide(s)
}

func (c *Controller) decide(s Signals) Decision {
	d := Decision{Share: c.share, Reason: c.reason, Asleep: c.processors.asleep(s), HoldImports: active(s) && storePressure(s) >= holdPressure}
	if d.HoldImports && d.Reason == "" {
		d.Reason = StoreLoad
	}
	return d
}

// active reports whether there is a foreground.
func active(s Signals) bool { return s.Statements >= activeTime }

// pressure returns the greatest pressure and what it comes from.
func (c *Controller) pressure(s Signals) (pressure float64, reason Reason) {
	pressure, reason = c.processors.pressure(s), Processors
	if p := c.commits.pressure(s) * c.processors.atWork(); p > pressure {
		pressure, reason = p, CommitLatency
	}
	if p := storePressure(s); p > pressure {
		pressure, reason = p, StoreLoad
	}
	return pressure, reason
}

// move moves the share, as far as in the time of the signals.
func (c *Controller) move(pressure float64, s Signals) {
	factor := 1.0
	switch {
	case pressure > 1:
		factor = max(fall, math.Pow(pressure, -gain))
	case pressure < calm:
		factor = rise
	}
	intervals := min(float64(s.Elapsed)/float64(Interval), maxIntervals)
	c.share = min(1, max(c.floor(s), c.share*math.Pow(factor, intervals)))
}

// floor is the least share beside the foreground that is observed.
func (c *Controller) floor(s Signals) float64 {
	unused := max(0, 1-c.processors.used(s)/busyForeground)
	return Floor + unused*(lightFloor-Floor)
}

// maxIntervals bounds what signals that come late may do at once.
const maxIntervals = 3
