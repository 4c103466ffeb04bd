package flow

import (
	"math"
	"time"
)

const (
	// maxSlowdown is how much longer the foreground may need for what it does because
	// its threads wait for processors that builds have: a part of what it needs else.
	// Workers yield to statements before that; see BackgroundTask.
	maxSlowdown = 0.5
	// minForeground is the part of the machine's time that a foreground counts
	// with that uses less: builds do not yield to a client that polls.
	minForeground = 0.02

	// minOnCPU is the part of its time that a statement at least runs, or could run,
	// unless it waits for something else.
	minOnCPU = 0.25

	// maxCommitSlowdown is how much longer statements may take because commits do: a
	// part of what they take else. Workers do not yield to commits.
	maxCommitSlowdown = 0.25
	// baselineFloor is the least part of statements' time that counts as being without
	// what commits take longer: the two are not of the same moment.
	baselineFloor = 0.1
	// minSamples is the number of commits a latency is taken from.
	minSamples = 5
	// fullWeight is the part of what processors do from which on all of a slowdown that
	// is not about processors alone is attributed to builds.
	fullWeight = 0.5
)

// decay returns what is left of a smoothed sum after a time.
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
	attributed := p.buildsPart() * p.wait
	run := max(p.run, minForeground*p.elapsed*float64(s.Processors))
	return attributed / (run + p.wait - attributed) / maxSlowdown
}

// offCPU returns how many of the statements wait for something else than a processor.
// Those of a busy server run for at least a part of their time, minOnCPU.
func (p *processors) offCPU(s Signals) int {
	if p.busy == 0 {
		return 0 // it is not known
	}
	running := (p.run + p.wait) / p.elapsed
	return max(0, int(math.Round(s.Statements.Seconds()-running/minOnCPU)))
}

// used returns the part of the machine that the foreground uses, all of it if that is
// not known.
func (p *processors) used(s Signals) float64 {
	if p.busy == 0 || p.elapsed == 0 || s.Processors == 0 {
		return 1
	}
	return p.run / (p.elapsed * float64(s.Processors))
}

// buildsPart returns the part of what all processors do that builds do.
func (p *processors) buildsPart() float64 {
	if p.builds == 0 {
		return 0
	}
	return p.builds / max(p.builds, p.busy)
}

// weight returns how much of what is not about processors alone is attributed to builds,
// 0 to 1: little if they hardly run.
func (p *processors) weight() float64 {
	if p.busy == 0 {
		return 1 // it is not known
	}
	return min(1, p.buildsPart()/fullWeight)
}

// commits compares the latency of commits with what it is without builds.
type commits struct {
	count, time, elapsed float64 // smoothed sums
	// baseline is the latency without builds in nanoseconds, 0 if it is not known.
	baseline float64
}

// begin takes signals of a time in which there was no build.
func (c *commits) begin(s Signals) {
	c.count, c.time, c.elapsed = 0, 0, 0
	if s.Commits >= minSamples {
		c.baseline = float64(s.CommitTime) / float64(s.Commits)
	}
}

// baselineTime is the time constant with which the baseline follows what is observed, if
// builds hardly run or commits are faster than the baseline.
const baselineTime = 5 * time.Second

// observe takes the next signals; idle says that builds hardly run. A latency
// that stays high all the same becomes the baseline after a while: yielding does
// not help then.
func (c *commits) observe(s Signals, idle bool) {
	keep := decay(s.Elapsed, smoothing)
	c.count = c.count*keep + float64(s.Commits)
	c.time = c.time*keep + float64(s.CommitTime)
	c.elapsed = c.elapsed*keep + float64(s.Elapsed)
	if c.count < minSamples {
		return
	}
	latency := c.time / c.count
	if c.baseline == 0 {
		c.baseline = latency
	}
	if idle || latency < c.baseline {
		c.baseline += (latency - c.baseline) * (1 - decay(s.Elapsed, baselineTime))
	}
}

// pressure is of what commits add to the statements: twice the baseline is
// little among the twenty statements of a transaction.
func (c *commits) pressure(s Signals) float64 {
	if c.count < minSamples || c.baseline == 0 || c.elapsed == 0 || s.Statements == 0 {
		return 0
	}
	statements := s.Statements.Seconds()
	longer := max(0, c.time-c.count*c.baseline) / c.elapsed
	return longer / max(statements-longer, baselineFloor*statements) / maxCommitSlowdown
}
