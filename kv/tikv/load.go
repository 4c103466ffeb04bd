package tikv

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tikv/client-go/v2/metrics"

	"fastddl/kv"
)

const (
	// loadSpan is how far the signals look back, and loadStep how often a sample is
	// kept for it.
	loadSpan, loadStep = 5 * time.Second, time.Second
	// loadPercentile is the one that is shown.
	loadPercentile = 0.99
)

// commits are the commits of this process so far, as client-go counts them, without those
// of TiDB's internal work.
type commits struct {
	at      time.Time
	count   uint64
	seconds float64
	buckets []bucket // cumulative
}

type bucket struct {
	limit float64 // seconds
	count uint64
}

// loadMeter separates the commits of the last seconds from those before. It is sampled at
// each call of LoadSignals.
type loadMeter struct {
	mu      sync.Mutex
	samples []commits // oldest first; all but the first within loadSpan
}

// written is what a metric writes. The library's type for it is a dependency that this
// module does not name.
func written[T any](write func(*T) error) (*T, error) {
	m := new(T)
	return m, write(m)
}

// countCommits reads client-go's histogram.
func countCommits() commits {
	c := commits{at: time.Now()}
	metric, ok := metrics.TxnCmdHistogramWithCommitGeneral.(prometheus.Metric)
	if !ok {
		return c
	}
	m, err := written(metric.Write)
	if err != nil || m.GetHistogram() == nil {
		return c
	}
	c.count, c.seconds = m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum()
	for _, b := range m.GetHistogram().GetBucket() {
		c.buckets = append(c.buckets, bucket{b.GetUpperBound(), b.GetCumulativeCount()})
	}
	return c
}

// sample returns the state of now and the one that it is to be compared with.
func (l *loadMeter) sample() (now, before commits) {
	now = countCommits()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.samples); n == 0 || now.at.Sub(l.samples[n-1].at) >= loadStep {
		l.samples = append(l.samples, now)
	}
	for len(l.samples) > 1 && now.at.Sub(l.samples[1].at) >= loadSpan {
		l.samples = l.samples[1:]
	}
	return now, l.samples[0]
}

// LoadSignals implements kv.Store. The signals of a cluster are the latency of this
// server's commits, and that a store refuses imports.
func (s *Store) LoadSignals() kv.LoadSignals {
	if s.enter(context.Background()) != nil {
		return kv.LoadSignals{}
	}
	defer s.exit()
	signals := s.load.signals()
	signals.WriteStalled = s.opts.Importer != nil && s.opts.Importer.Busy()
	return signals
}

func (l *loadMeter) signals() kv.LoadSignals {
	now, before := l.sample()
	n, elapsed := now.count-before.count, now.at.Sub(before.at)
	if n == 0 || elapsed <= 0 {
		return kv.LoadSignals{}
	}
	mean := time.Duration((now.seconds - before.seconds) / float64(n) * float64(time.Second))
	signals := kv.LoadSignals{CommitsPerSecond: float64(n) / elapsed.Seconds(), CommitP99: mean} // of commits longer than all buckets
	for i, b := range now.buckets {
		of := b.count
		if i < len(before.buckets) {
			of -= before.buckets[i].count
		}
		if float64(of) >= loadPercentile*float64(n) {
			signals.CommitP99 = max(mean, time.Duration(b.limit*float64(time.Second)))
			break
		}
	}
	return signals
}
