package flow

import (
	"math"
	"time"
)

const (
	// The 99th percentile is taken of enoughStatements and at least shortestBatch, of fewStatements after
	// longBatch, or of any after longestBatch. What is observed after a change counts for the next.
	enoughStatements = 200
	shortestBatch    = 300 * time.Millisecond
	fewStatements    = 100
	longBatch        = 2 * time.Second
	longestBatch     = 10 * time.Second
	// Above the target the share falls by the ratio to it to the power of -fallExponent, but at most to the part maxFall of it. Below
	// lowWater of the target it rises by targetRise in each interval: a step too far is felt by statements for a whole batch.
	lowWater, highWater = 0.7, 1.0
	fallExponent        = 0.5
	maxFall             = 0.5
	targetRise          = 1.02
)

// target finds the share of builds beside which 99 of 100 statements take no longer than a target.
type target struct {
	ceiling float64 // 0 before there is a target
	batch   Latencies
	elapsed time.Duration
}

// begin returns the greatest share to begin with. fresh says that nothing is known of a foreground that is there.
func (t *target) begin(s Signals, fresh bool) float64 {
	t.batch, t.elapsed = Latencies{}, 0
	if s.Target > 0 && fresh {
		t.ceiling = minInitialShare
	}
	if s.Target <= 0 || t.ceiling == 0 {
		return 1
	}
	return t.ceiling
}

// observe takes the next signals and returns the greatest share; 1 without a target.
func (t *target) observe(s Signals) float64 {
	if s.Target <= 0 {
		*t = target{}
		return 1
	}
	if t.ceiling == 0 {
		t.ceiling = 1
	}
	var n int64
	for i := range t.batch {
		t.batch[i] += s.Latencies[i]
		n += t.batch[i]
	}
	t.elapsed += s.Elapsed
	if full := n >= enoughStatements && t.elapsed >= shortestBatch || n >= fewStatements && t.elapsed >= longBatch || t.elapsed >= longestBatch; !full {
		return t.ceiling
	}
	p99, _ := t.batch.P99()
	// The slowest of few statements say little of the slowest of many: the fewer, the more is kept free.
	margin := 1 + 2/math.Sqrt(float64(max(1, n)))
	pressure, factor := float64(p99)*margin/float64(s.Target), 1.0
	switch {
	case pressure > highWater:
		factor = max(maxFall, math.Pow(pressure, -fallExponent))
	case pressure < lowWater:
		factor = math.Pow(targetRise, float64(min(t.elapsed, longBatch))/float64(Interval))
	}
	t.ceiling = min(1, max(MinShare, t.ceiling*factor))
	t.batch, t.elapsed = Latencies{}, 0
	return t.ceiling
}
