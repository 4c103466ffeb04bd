package flow

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// window is the time that Recent looks back.
	window = time.Second
	slots  = 10
	slot   = window / slots
)

// StatementMeter sums the time that statements take. The zero value is ready to use; all
// methods may be called concurrently, and on nil, which measures nothing.
type StatementMeter struct {
	running atomic.Int64 // written with mu held
	// elsewhere is the number of statements of another process, nil of a meter of this one.
	elsewhere *atomic.Int64

	mu sync.Mutex
	// shown has the number, too, for another process; nil if none reads it.
	shown *atomic.Int64
	// base is a little before the meter was used first. Slots are counted from there, by the
	// monotonic clock.
	base    time.Time
	changed time.Time // when running was added up to
	// sums are the statements' times of the last slots, by number of slot since base;
	// newest is the last of them.
	sums   [slots + 1]time.Duration
	newest int64

	latencies latencyMeter
}

// Show keeps the number of statements that run in n, too, which another process may read.
func (m *StatementMeter) Show(n *atomic.Int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shown = n
	n.Store(m.running.Load())
}

// NewMeterElsewhere returns a meter whose Executing is the number that the meter of another process shows in n. It measures nothing
// else.
func NewMeterElsewhere(n *atomic.Int64) *StatementMeter { return &StatementMeter{elsewhere: n} }

// isElsewhere says that the statements are of another process.
func (m *StatementMeter) isElsewhere() bool { return m != nil && m.elsewhere != nil }

// Begin counts a statement that begins, and returns the function that ends it, which
// must be called once.
func (m *StatementMeter) Begin() (end func()) {
	if m == nil {
		return func() {}
	}
	began := time.Now()
	m.change(began, 1)
	return func() {
		now := time.Now()
		m.change(now, -1)
		m.ended(now, now.Sub(began))
	}
}

// ended adds the time of a statement that has ended.
func (m *StatementMeter) ended(now time.Time, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	m.latencies.add(m.latencySpan(now), took)
}

// Executing returns the number of statements that run now.
func (m *StatementMeter) Executing() int {
	if m == nil {
		return 0
	}
	if m.elsewhere != nil {
		return int(m.elsewhere.Load())
	}
	return int(m.running.Load())
}

// Recent returns the time that statements have taken within the last second up to now,
// or a tenth less, summed over those that ran side by side.
func (m *StatementMeter) Recent(now time.Time) time.Duration {
	if m == nil {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	var sum time.Duration
	for _, s := range m.sums {
		sum += s
	}
	return sum
}

func (m *StatementMeter) change(now time.Time, by int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	n := m.running.Add(by)
	if m.shown != nil {
		m.shown.Store(n)
	}
}

// advance adds up to now what runs, slot by slot.
func (m *StatementMeter) advance(now time.Time) {
	if m.base.IsZero() {
		m.base = now.Add(-2 * window) // before all that is looked back to
	}
	at := m.changed
	if earliest := now.Add(-window); at.Before(earliest) {
		at = earliest
	}
	for at.Before(now) {
		number := m.number(at)
		next := m.base.Add(time.Duration(number+1) * slot)
		if next.After(now) {
			next = now
		}
		*m.slot(number) += time.Duration(m.running.Load()) * next.Sub(at)
		at = next
	}
	m.slot(m.number(now))
	if now.After(m.changed) {
		m.changed = now
	}
}

// number returns that of the slot that t lies in.
func (m *StatementMeter) number(t time.Time) int64 { return int64(max(0, t.Sub(m.base)) / slot) }

// slot returns the sum of a slot, and clears those between it and the newest.
func (m *StatementMeter) slot(number int64) *time.Duration {
	for n := max(m.newest+1, number-slots); n <= number; n++ {
		m.sums[n%(slots+1)] = 0
	}
	m.newest = max(m.newest, number)
	return &m.sums[number%(slots+1)]
}
