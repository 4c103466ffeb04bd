package flow

import (
	"math"
	"time"
)

const (
	// maxSlowdown is how much longer the foreground may need for what it does because
	// its threads wait for processors that builds have: a part of what it needs else.
	// Workers put themselves aside for statements before it comes to that; see
	// foreground.Guest.
	maxSlowdown = 0.5
	// leastForeground is the part of the machine's time that a foreground counts
	// with that uses less: builds do not give way to a client that polls.
	leastForeground = 0.02

	// wakeful is the part of its time that a statement runs at least, or could run,
	// which does not wait for something else.
	wakeful = 0.25

	// maxCommitSlowdown is how much longer statements may take because commits do: a
	// part of what they take else. Workers do not put themselves aside for those.
	maxCommitSlowdown = 0.25
	// leastUsual is the least part of statements' time that is believed to be without
	// what commits take longer: the two are not of the same moment.
	leastUsual = 0.1
	// leastCommits is the number of commits a latency is taken from.
	leastCommits = 5
	// fullBlame is the part of what processors do from which on builds are to blame
	// for all of it, as far as that is known.
	fullBlame = 0.5

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
	blamed := p.blame() * p.wait
	run := max(p.run, leastForeground*p.elapsed*float64(s.Processors))
	return blamed / (run + p.wait - blamed) / maxSlowdown
}

// asleep is how many of the statements wait for something else than a processor.
// Those of a busy server run for at least a part of their time, wakeful.
func (p *processors) asleep(s Signals) int {
	if p.busy == 0 {
		return 0 // it is not known
	}
	running := (p.run + p.wait) / p.elapsed
	return max(0, int(math.Round(s.Statements.Seconds()-running/wakeful)))
}

// used is the part of the machine that the foreground uses, all of it if that is
// not known.
func (p *processors) used(s Signals) float64 {
	if p.busy == 0 || p.elapsed == 0 || s.Processors == 0 {
		return 1
	}
	return p.run / (p.elapsed * float64(s.Processors))
}

// blame is the part of what all processors do that builds do.
func (p *processors) blame() float64 {
	if p.builds == 0 {
		return 0
	}
	return p.builds / max(p.builds, p.busy)
}

// atWork is how much builds are to blame for what is not about processors alone, 0
// to 1: little if they hardly run.
func (p *processors) atWork() float64 {
	if p.busy == 0 {
		return 1 // it is not known
	}
	return min(1, p.blame()/fullBlame)
}

// commits compares the latency of commits with what it is without builds.
type commits struct {
	count, time, elapsed float64 // smoothed sums
	// usual is the latency without builds, 0 if it is not known.
	usual float64
}

// begin takes signals of a time in which there was no build.
func (c *commits) begin(s Signals) {
	c.count, c.time, c.elapsed = 0, 0, 0
	if s.Commits >= leastCommits {
		c.usual = float64(s.CommitTime) / float64(s.Commits)
	}
}

const (
	// learning is the time in which the usual latency follows what is observed, if
	// builds hardly run or commits are faster than usual.
	learning = 5 * time.Second
)

// observe takes the next signals; hardly says that builds hardly run. A latency
// that stays high all the same is the usual one, after a while: giving way does
// not help then.
func (c *commits) observe(s Signals, hardly bool) {
	keep := decay(s.Elapsed, smoothing)
	c.count = c.count*keep + float64(s.Commits)
	c.time = c.time*keep + float64(s.CommitTime)
	c.elapsed = c.elapsed*keep + float64(s.Elapsed)
	if c.count < leastCommits {
		return
	}
	latency := c.time / c.count
	if c.usual == 0 {
		c.usual = latency
	}
	if hardly || latency < c.usual {
		c.usual += (latency - c.usual) * (1 - decay(s.Elapsed, learning))
	}
}

// pressure is of what commits make of the statements: twice a usual latency is
// little among the twenty statements of a transaction.
func (c *commits) pressure(s Signals) float64 {
	if c.count < leastCommits || c.usual == 0 || c.elapsed == 0 || s.Statements == 0 {
		return 0
	}
	statements := s.Statements.Seconds()
	longer := max(0, c.time-c.count*c.usual) / c.elapsed
	return longer / max(statements-longer, leastUsual*statements) / maxCommitSlowdown
}

func storePressure(s Signals) float64 {
	p := max(float64(s.L0Sublevels)/maxSublevels, float64(s.CompactionDebtBytes)/maxDebt)
	if s.WriteStalled {
		p = max(p, stalledPressure)
	}
	return p
}
