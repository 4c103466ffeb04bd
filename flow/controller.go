package flow

import (
	"math"
	"time"
)

const (
	// Interval is how often a controller should be given signals.
	Interval = 100 * time.Millisecond
	// MinShare is the least share: however busy the foreground is, builds end. A
	// foreground that uses little of the machine has less of a claim to the rest: with
	// none of it builds keep minShareLight, with the part busyForeground of it MinShare,
	// and in proportion between.
	MinShare       = 0.1
	minShareLight  = 0.5
	busyForeground = 0.2

	// minInitialShare is the least share that builds begin with beside a foreground of
	// which nothing is known yet: they leave to it what its statements have had. A share
	// that was reached before is used instead until staleAfter.
	minInitialShare = 0.5
	staleAfter      = 10 * time.Minute
	// baselineQuiet is for how long after builds the last seconds say nothing about a
	// foreground without them.
	baselineQuiet = 10 * time.Second

	// activeTime is what statements take within a second if there is a foreground.
	// A session that only logs in and sends its ALTER is none.
	activeTime = 10 * time.Millisecond
	// smoothing is the time constant with which signals are averaged.
	smoothing = 300 * time.Millisecond

	// idleFactor is how many times the least share a share is at which builds hardly run.
	idleFactor = 1.05

	// Below the pressure lowWater the share rises by riseFactor in each interval, above
	// highWater it falls by pressure^-fallExponent, but at most to the part maxFall of it.
	lowWater     = 0.7
	highWater    = 1.0
	riseFactor   = 1.08
	fallExponent = 0.5
	maxFall      = 0.5
)

// Controller turns signals into decisions. The zero value is ready to use. It is
// not safe for concurrent use.
type Controller struct {
	share  float64 // 0 before the first decision
	reason Reason

	processors processors
	commits    commits
	target     target
	// ceiling is the greatest share by the target, as of the last signals.
	ceiling float64

	// settled is the share that was reached beside a foreground, and when.
	settled   float64
	settledAt time.Time

	observedAt time.Time
}

// Begin returns the first decision after a time without builds. The signals'
// Commits and CommitTime are those of the last seconds; the other times are not
// used.
func (c *Controller) Begin(now time.Time, s Signals) Decision {
	c.processors = processors{}
	c.ceiling = c.target.begin(s, active(s) && now.Sub(c.observedAt) > staleAfter)
	if now.Sub(c.observedAt) > baselineQuiet {
		c.commits.begin(s)
	}
	c.share, c.reason = 1, ""
	if active(s) {
		c.share, c.reason = max(minInitialShare, 1-s.Statements.Seconds()/float64(max(1, s.Processors))), Processors
		if c.settled > 0 && now.Sub(c.settledAt) < staleAfter {
			c.share = c.settled
		}
		if c.share == 1 {
			c.reason = ""
		}
	}
	return c.decide(s)
}

// Observe returns the next decision.
func (c *Controller) Observe(now time.Time, s Signals) Decision {
	c.observedAt = now
	c.processors.observe(s)
	c.commits.observe(s, c.share <= idleFactor*MinShare)
	c.ceiling = c.target.observe(s)
	if !active(s) {
		c.share, c.reason = 1, ""
		return Full
	}
	pressure, reason := c.pressure(s)
	c.move(pressure, s)
	switch {
	case c.share == 1:
		c.reason = ""
	case pressure > highWater || c.reason == "":
		c.reason = reason
	}
	c.settled, c.settledAt = c.share, now
	return c.decide(s)
}

func (c *Controller) decide(s Signals) Decision {
	d := Decision{Share: c.share, Reason: c.reason, Foreground: active(s), OffCPU: c.processors.offCPU(s)}
	if d.Foreground && c.ceiling < d.Share {
		d.Share, d.Reason = c.ceiling, TargetLatency
	}
	return d
}

// active reports whether there is a foreground.
func active(s Signals) bool { return s.Statements >= activeTime }

// pressure returns the greatest pressure and what it comes from.
func (c *Controller) pressure(s Signals) (pressure float64, reason Reason) {
	reason = Processors
	if !leaveOutProcessors {
		pressure = c.processors.pressure(s)
	}
	if p := c.commits.pressure(s) * c.processors.weight(); p > pressure && !leaveOutCommits {
		pressure, reason = p, CommitLatency
	}
	return pressure, reason
}

// move moves the share, as far as in the time of the signals.
func (c *Controller) move(pressure float64, s Signals) {
	factor := 1.0
	switch {
	case pressure > highWater:
		factor = max(maxFall, math.Pow(pressure, -fallExponent))
	case pressure < lowWater:
		factor = riseFactor
	}
	intervals := min(float64(s.Elapsed)/float64(Interval), maxIntervals)
	c.share = min(1, max(c.minShare(s), c.share*math.Pow(factor, intervals)))
}

// minShare returns the least share beside the foreground that is observed.
func (c *Controller) minShare(s Signals) float64 {
	unused := max(0, 1-c.processors.used(s)/busyForeground)
	return MinShare + unused*(minShareLight-MinShare)
}

// maxIntervals bounds what signals that come late may do at once.
const maxIntervals = 3
