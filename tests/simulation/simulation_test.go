package simulation

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// TestHistories runs random histories until the time is up (FASTDDL_TIME). It shrinks and
// prints the first that breaks something. FASTDDL_SEED repeats one and prints it.
func TestHistories(t *testing.T) {
	if seed, ok := randtest.Fixed(t); ok {
		printSeed(t, seed)
		return
	}
	s := search{t: t, first: rand.Uint64(), failed: make(map[uint64]bool)}
	start := time.Now()
	until := start.Add(randtest.Time(t, 2*time.Second, 30*time.Minute))
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() { s.work(until) })
	}
	workers.Wait()
	n, took := s.next.Load(), time.Since(start)
	t.Logf("seeds from %d: %d histories in %s, %.0f a second", s.first, n, took.Round(time.Second), float64(n)/took.Seconds())
	t.Log(&s.sum)
	for seed := range s.failed {
		printSeed(t, seed)
		randtest.Print(t, seed)
		t.FailNow()
	}
}

// search is one search by several workers.
type search struct {
	t     *testing.T
	first uint64
	next  atomic.Uint64

	mu     sync.Mutex
	sum    totals
	failed map[uint64]bool
}

// work runs one history after the other, until the time is up or one breaks something.
func (s *search) work(until time.Time) {
	var w world
	var events []event
	var mine totals
	var seed uint64
	broken := false
	defer func() {
		if r := recover(); r != nil {
			s.t.Errorf("seed %d: panic: %v\n%s", seed, r, debug.Stack())
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sum.add(&mine)
		if broken {
			s.failed[seed] = true
		}
	}()
	for !broken && time.Now().Before(until) {
		seed = s.first + s.next.Add(1) - 1
		h := randomHistory(seed, events)
		events = h.events
		broken = w.run(h) != nil
		mine.add(&w.totals)
	}
}

// printSeed prints the history of a seed; one that breaks something is made short before.
func printSeed(t *testing.T, seed uint64) {
	t.Helper()
	var w world
	h := randomHistory(seed, nil)
	v := w.run(h)
	if v == nil {
		t.Logf("seed %d breaks nothing\n%s", seed, w.retell(h))
		return
	}
	short := w.shrink(h, v)
	t.Errorf("seed %d, %d of its %d events:\n%s", seed, len(short.events), len(h.events), w.retell(short))
}

// firstHistories is the number of histories that are the same in every run.
const firstHistories = 20_000

// TestFirstHistories runs the histories of the first seeds, so that what they find is found
// every time.
func TestFirstHistories(t *testing.T) {
	var w world
	var events []event
	var sum totals
	for seed := range uint64(firstHistories) {
		h := randomHistory(seed, events)
		events = h.events
		if w.run(h) != nil {
			printSeed(t, seed)
			t.FailNow()
		}
		sum.add(&w.totals)
	}
	t.Log(&sum)
	require.Positive(t, min(sum.repairs, sum.reads, sum.ends[endPublished], sum.ends[endDuplicate], sum.ends[endUndone]))
}

// TestSeedRepeatsItsHistory: a seed repeats the very interleaving, regardless of what ran in
// the same memory before.
func TestSeedRepeatsItsHistory(t *testing.T) {
	var used world
	for seed := range uint64(3000) {
		h := randomHistory(seed, nil)
		v := used.run(h)
		fresh := new(world)
		require.Equal(t, v, fresh.run(h), "seed %d", seed)
		require.Equal(t, fresh.store.clock, used.store.clock, "seed %d", seed)
		require.Equal(t, fresh.totals, used.totals, "seed %d", seed)
	}
}
