package flow

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// fullBeside lets builds have everything beside statements.
var fullBeside = Decision{Share: 1, Foreground: true}

// TestWithoutATargetThereIsNoShare: workers yield to statements one by one, and have all of the time else.
func TestWithoutATargetThereIsNoShare(t *testing.T) {
	now, s := time.Unix(0, 0), Signals{Elapsed: Interval, Statements: 500 * time.Millisecond, Foreground: 60 * time.Millisecond}
	s.Latencies[latencyBuckets-1] = 1000
	var c Controller
	require.Equal(t, fullBeside, c.Begin(now, s))
	require.Equal(t, fullBeside, c.Observe(now.Add(Interval), s))
	s.Statements = 5 * time.Millisecond
	require.Equal(t, Full, c.Observe(now.Add(2*Interval), s), "a session that logs in and sends its ALTER")
}

// TestStatementsThatSleep: workers need not yield to statements that wait for
// something else than a processor.
func TestStatementsThatSleep(t *testing.T) {
	for _, tc := range []struct {
		name       string
		statements time.Duration
		foreground time.Duration
		asleep     int
	}{
		{"a busy server", 900 * time.Millisecond, 55 * time.Millisecond, 0},
		{"more statements than processors", 6 * time.Second, 570 * time.Millisecond, 0},
		{"two that sleep", 2 * time.Second, time.Millisecond, 2},
		{"two that sleep beside a busy server", 2900 * time.Millisecond, 55 * time.Millisecond, 1},
		{"many that wait for a slow disk", 8 * time.Second, 50 * time.Millisecond, 6},
		{"it is not known", 8 * time.Second, 0, 0},
	} {
		var c Controller
		var d Decision
		for range 10 {
			d = c.Observe(time.Unix(0, 0), Signals{Elapsed: Interval, Statements: tc.statements, Foreground: tc.foreground})
		}
		require.Equal(t, tc.asleep, d.OffCPU, tc.name)
	}
}

// TestMinShareOfProgress: under any signals a build goes on.
func TestMinShareOfProgress(t *testing.T) {
	seed := randtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var c Controller
	now := time.Unix(0, 0)
	upTo := func(d time.Duration) time.Duration {
		return time.Duration(rng.Int64N(int64(d)) >> rng.IntN(40))
	}
	for range 20_000 {
		s := Signals{Elapsed: upTo(time.Minute), Statements: upTo(time.Minute), Foreground: upTo(time.Minute), Target: upTo(time.Minute)}
		for range rng.IntN(300) {
			s.Latencies.add(upTo(time.Minute))
		}
		now = now.Add(s.Elapsed)
		d := Full
		if rng.IntN(50) == 0 {
			d = c.Begin(now, s)
		} else {
			d = c.Observe(now, s)
		}
		require.GreaterOrEqual(t, d.Share, MinShare)
		require.LessOrEqual(t, d.Share, 1.0)
		require.Equal(t, d.Share < 1, d.Reason != "", "%+v", d)
		require.GreaterOrEqual(t, d.OffCPU, 0)
	}
}
