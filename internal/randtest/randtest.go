package randtest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	seedVariable = "FASTDDL_SEED"
	timeVariable = "FASTDDL_TIME"
)

// Long reports whether tests are to take all the time they want: make test-long.
func Long() bool { return os.Getenv("FASTDDL_LONG") != "" }

// SkipShort skips a test that takes seconds when tests are to be short: make check.
func SkipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: not one of the short tests")
	}
}

// Time returns how long a search goes on: slice, long if Long, or what the environment says.
func Time(t testing.TB, slice, long time.Duration) time.Duration {
	t.Helper()
	if text := os.Getenv(timeVariable); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s: %v", timeVariable, err)
		}
		return d
	}
	if Long() {
		return long
	}
	return slice
}

// Fixed returns the seed that the environment fixes, if it does.
func Fixed(t testing.TB) (seed uint64, ok bool) {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return 0, false
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", seedVariable, err)
	}
	return seed, true
}

// drawn is the seed of a test and how often the test asked for one.
type drawn struct{ seed, asked uint64 }

var (
	mu    sync.Mutex
	tests = make(map[testing.TB]*drawn)
)

// Seed returns the seed of a test: the fixed one, or a random one. The first call prints it;
// each further call of the same test returns another number, which follows from the seed.
func Seed(t testing.TB) uint64 {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	d := tests[t]
	if d == nil {
		seed, ok := Fixed(t)
		if !ok {
			seed = rand.Uint64()
		}
		d = &drawn{seed: seed}
		tests[t] = d
		t.Cleanup(func() {
			mu.Lock()
			defer mu.Unlock()
			delete(tests, t)
		})
		Print(t, seed)
	}
	d.asked++
	if d.asked == 1 {
		return d.seed
	}
	return rand.NewPCG(d.seed, d.asked).Uint64()
}

// Print logs a seed in the form that make test shows behind a failed test.
func Print(t testing.TB, seed uint64) {
	t.Helper()
	t.Logf("%s=%d", seedVariable, seed)
}

// Rand returns a generator of the test's seed.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}
