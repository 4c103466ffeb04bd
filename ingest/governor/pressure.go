package governor

import (
	"math"
	"time"
)

const (
	// maxWait is how long foreground threads may wait because of builds, for the
	// time they run.
	maxWait = 0.10
	// leastForeground is the part of the machine's time that a foreground counts
	// with that uses less: builds do not give way to a client that polls.
	leastForeground = 0.02

	// maxCommitRise and commitSlack are what commits may take longer because of
	// builds: a part of what they take else, and a constant.
	maxCommitRise = 0.5
	commitSlack   = 300 * time.Microsecond
	// leastCommits is the number of commits a latency is taken from.
	leastCommits = 5

	// maxSublevels and maxDebt are the load that a store may have; with stalled
	// writers its pressure is stalledPressure at least. From holdPressure on it
	// gets no files.
	maxSublevels    = 10
	maxDebt         = 4 << 30
	stalledPressure = 2
	holdPressure    = 1.5
)

// decay is what is left of a smoothed sum after a time.
func decay(elapsed, over time.Duration) float64 { return math.Exp(-float64(elapsed) / float64(over)) }

// processors smooths what threads did. Its fields are sums in which the past
// counts the less the longer it is ago.
type processors struct{ run, wait, builds, busy, elapsed float64 }

func (p *processors) observe(s Signals) {
	keep := decay(s.Elapsed, smoothing)
	for _, sum := range []struct {
		of  *float64
		add time.Duration
	}{
		{&p.run, s.Foreground.Run}, {&p.wait, s.Foreground.Wait}, {&p.builds, s.Builds}, {&p.busy, s.Busy}, {&p.elapsed, s.Elapsed},
	} {
		*sum.of = *sum.of*keep + float64(sum.add)
	}
}

func (p *processors) pressure(s Signals) float64 {
	if p.builds == 0 {
		return 0
	}
	blame := p.builds / max(p.builds, p.busy)
	run := max(p.run, leastForeground*p.elapsed*float64(s.Processors))
	return blame * p.wait / run / maxWait
}

// commits compares the latency of commits with what it is without builds.
type commits struct {
	count, time float64 // smoothed sums
	// usual is the latency without builds, 0 if it is not known.
	usual float64
}

// begin takes signals of a time in which there was no build.
func (c *commits) begin(s Signals) {
	c.count, c.time = 0, 0
	if s.Commits >= leastCommits {
		c.usual = float64(s.CommitTime) / float64(s.Commits)
	}
}

const (
	// learning is the time in which the usual latency follows what is observed
	// while builds hardly run, fasterLearning if commits are faster than that.
	learning       = 2 * time.Second
	fasterLearning = 5 * time.Second
)

// observe takes the next signals; hardly says that builds hardly run. A latency
// that stays high all the same is the usual one, after a while: giving way does
// not help then.
func (c *commits) observe(s Signals, hardly bool) {
	keep := decay(s.Elapsed, smoothing)
	c.count = c.count*keep + float64(s.Commits)
	c.time = c.time*keep + float64(s.CommitTime)
	if c.count < leastCommits {
		return
	}
	latency := c.time / c.count
	switch {
	case c.usual == 0 || hardly:
		c.learn(latency, decay(s.Elapsed, learning))
	case latency < c.usual:
		c.learn(latency, decay(s.Elapsed, fasterLearning))
	}
}

func (c *commits) learn(latency, keep float64) {
	if c.usual == 0 {
		c.usual = latency
	}
	c.usual = c.usual*keep + latency*(1-keep)
}

func (c *commits) pressure() float64 {
	if c.count < leastCommits || c.usual == 0 {
		return 0
	}
	return max(0, c.time/c.count-c.usual) / (maxCommitRise*c.usual + float64(commitSlack))
}

func storePressure(s Signals) float64 {
	p := max(float64(s.L0Sublevels)/maxSublevels, float64(s.CompactionDebtBytes)/maxDebt)
	if s.WriteStalled {
		p = max(p, stalledPressure)
	}
	return p
}
