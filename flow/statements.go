package flow

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Window is the time that Recent looks back.
	Window = time.Second
	slots  = 10
	slot   = Window / slots
)

// Meter sums the time that statements take. The zero value is ready to use; all
// methods may be called concurrently, and on nil, which measures nothing.
type Meter struct {
	running atomic.Int64 // written with mu held

	mu sync.Mutex
	// base is a little before the meter was used first. Slots are counted from there, by a clock that
	// nobody sets.
	base    time.Time
	changed time.Time // when running was added up to
	// sums are the statements' times of the last slots, by number of slot since base;
	// newest is the last of them.
	sums   [slots + 1]time.Duration
	newest int64
}

// Begin says that a statement begins, and returns the function that says that it
// has ended, which must be called once.
func (m *Meter) Begin() (end func()) {
	if m == nil {
		return func() {}
	}
	m.change(time.Now(), 1)
	return func() { m.change(time.Now(), -1) }
}

// Executing is the number of statements that run now.
func (m *Meter) Executing() int {
	if m == nil {
		return 0
	}
	return int(m.running.Load())
}

// Recent is the time that statements have taken within the last second up to now,
// or a tenth less, summed over those that ran side by side.
func (m *Meter) Recent(now time.Time) time.Duration {
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

func (m *Meter) change(now time.Time, by int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	m.running.Add(by)
}

// advance adds up to now what runs, slot by slot.
func (m *Meter) advance(now time.Time) {
	if m.base.IsZero() {
		m.base = now.Add(-2 * Window) // before whatever is looked back to
	}
	at := m.changed
	if earliest := now.Add(-Window); at.Before(earliest) {
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

// number is that of the slot that t lies in.
func (m *Meter) number(t time.Time) int64 { return int64(max(0, t.Sub(m.base)) / slot) }

// slot returns the sum of a slot, and clears those between it and the newest.
func (m *Meter) slot(number int64) *time.Duration {
	for n := max(m.newest+1, number-slots); n <= number; n++ {
		m.sums[n%(slots+1)] = 0
	}
	m.newest = max(m.newest, number)
	return &m.sums[number%(slots+1)]
}
