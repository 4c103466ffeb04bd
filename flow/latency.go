package flow

import (
	"math"
	"time"
)

const (
	// leastLatency is the upper bound of the first bucket, and latencySteps how many buckets double it.
	leastLatency   = 16 * time.Microsecond
	latencySteps   = 4
	latencyBuckets = 24*latencySteps + 1
	// latencySpan is the time of one histogram of the last minute.
	latencySpan  = 10 * time.Second
	latencySpans = 6
)

// Latencies are how many statements took how long, in buckets whose bounds differ by a fifth. The zero value has none.
type Latencies [latencyBuckets]int64

func (l *Latencies) add(took time.Duration) {
	i := 0
	if took > leastLatency {
		i = min(latencyBuckets-1, int(math.Ceil(latencySteps*math.Log2(float64(took)/float64(leastLatency)))))
	}
	l[i]++
}

// Since returns those that were added since an earlier state.
func (l Latencies) Since(before Latencies) Latencies {
	for i := range l {
		l[i] -= before[i]
	}
	return l
}

// Count returns how many there are.
func (l Latencies) Count() (all int64) {
	for _, n := range l {
		all += n
	}
	return all
}

// P99 returns the time that 99 of 100 statements did not exceed, at most a fifth more; ok is false if there are none.
func (l Latencies) P99() (p99 time.Duration, ok bool) { return l.Percentile(99) }

// Percentile returns the time that so many of 100 statements did not exceed, at most a fifth more; ok is false if there are none.
func (l Latencies) Percentile(percent int64) (took time.Duration, ok bool) {
	all, sum := l.Count(), int64(0)
	if all == 0 {
		return 0, false
	}
	for i, n := range l {
		if sum += n; sum*100 >= all*percent {
			return time.Duration(float64(leastLatency) * math.Exp2(float64(i)/latencySteps)), true
		}
	}
	return 0, false
}

// latencyMeter has the statements of the last minute, and all.
type latencyMeter struct {
	all   Latencies
	spans [latencySpans]Latencies // by number of span since base
	last  int64
}

func (m *latencyMeter) add(number int64, took time.Duration) {
	m.all.add(took)
	m.span(number).add(took)
}

// span returns that of a number, and clears those between it and the last.
func (m *latencyMeter) span(number int64) *Latencies {
	for n := max(m.last+1, number-latencySpans+1); n <= number; n++ {
		m.spans[n%latencySpans] = Latencies{}
	}
	m.last = max(m.last, number)
	return &m.spans[number%latencySpans]
}

// Latencies returns those of all statements that have ended.
func (m *StatementMeter) Latencies() Latencies {
	if m == nil {
		return Latencies{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latencies.all
}

// LastMinute returns those of the statements that have ended within the last minute, or some seconds less.
func (m *StatementMeter) LastMinute(now time.Time) (sum Latencies) {
	if m == nil {
		return sum
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	m.latencies.span(m.latencySpan(now))
	for _, span := range m.latencies.spans {
		for i, n := range span {
			sum[i] += n
		}
	}
	return sum
}

// latencySpan returns the number of the span that t lies in. The caller holds mu and has advanced.
func (m *StatementMeter) latencySpan(t time.Time) int64 {
	return int64(max(0, t.Sub(m.base)) / latencySpan)
}
