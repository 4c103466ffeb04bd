package pebblekv

import (
	"math/bits"
	"sync"
	"time"

	"fastddl/kv"
)

const (
	loadSlots     = 6 // seconds that the signals look back, with the current one
	loadBuckets   = 64 * subBuckets
	subBuckets    = 4
	metricsMaxAge = 100 * time.Millisecond
)

// loadMeter counts commit latencies of the last seconds in a ring of one
// histogram per second. Buckets are a quarter of a power of two wide.
type loadMeter struct {
	now func() time.Time

	mu    sync.Mutex
	slots [loadSlots]loadSlot

	// The engine's own figures cost a walk over its levels, and are kept for a
	// moment.
	engineAt time.Time
	engine   kv.LoadSignals
}

type loadSlot struct {
	second  int64
	count   int
	buckets [loadBuckets]int32
}

func newLoadMeter() *loadMeter { return &loadMeter{now: time.Now} }

// observe counts one commit.
func (m *loadMeter) observe(latency time.Duration) {
	second := m.now().Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	slot := &m.slots[second%loadSlots]
	if slot.second != second {
		*slot = loadSlot{second: second}
	}
	slot.count++
	slot.buckets[bucketOf(latency)]++
}

// bucketOf maps a latency to its bucket: the position of the highest bit and
// the two bits below it.
func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < subBuckets {
		return int(us)
	}
	high := bits.Len64(us) - 1
	return high*subBuckets + int(us>>(high-2))&(subBuckets-1)
}

// bucketLimit is the longest latency in a bucket.
func bucketLimit(bucket int) time.Duration {
	if bucket < subBuckets {
		return time.Duration(bucket) * time.Microsecond
	}
	high, sub := bucket/subBuckets, bucket%subBuckets
	return time.Duration((uint64(subBuckets+sub+1)<<(high-2))-1) * time.Microsecond
}

// commits returns the rate of commits, and the 99th percentile of their latency.
func (m *loadMeter) commits() (p99 time.Duration, perSecond float64) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum [loadBuckets]int32
	total := 0
	for i := range m.slots {
		slot := &m.slots[i]
		if age := now.Unix() - slot.second; age < 0 || age >= loadSlots { // below 0 the clock was set back
			continue
		}
		total += slot.count
		for b, n := range slot.buckets {
			sum[b] += n
		}
	}
	if total == 0 {
		return 0, 0
	}
	elapsed := float64(loadSlots-1) + float64(now.Nanosecond())/1e9
	rest := total / 100
	for b := loadBuckets - 1; b >= 0; b-- {
		if rest -= int(sum[b]); rest < 0 {
			return bucketLimit(b), float64(total) / elapsed
		}
	}
	return 0, float64(total) / elapsed
}

// LoadSignals implements kv.Store.
func (s *Store) LoadSignals() kv.LoadSignals {
	if s.gate.enter() != nil {
		return kv.LoadSignals{}
	}
	defer s.gate.exit()
	signals := s.engineSignals()
	signals.CommitP99, signals.CommitsPerSecond = s.load.commits()
	signals.WriteStalled = s.health.stalled()
	return signals
}

func (s *Store) engineSignals() kv.LoadSignals {
	m := s.load
	now := m.now()
	m.mu.Lock()
	engine, fresh := m.engine, now.Sub(m.engineAt) < metricsMaxAge
	m.mu.Unlock()
	if fresh {
		return engine
	}
	metrics := s.db.Metrics()
	engine = kv.LoadSignals{
		L0Sublevels:         int(metrics.Levels[0].Sublevels),
		CompactionDebtBytes: metrics.Compact.EstimatedDebt,
	}
	m.mu.Lock()
	m.engine, m.engineAt = engine, now
	m.mu.Unlock()
	return engine
}
