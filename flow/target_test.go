package flow

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// machine is a simple model of a machine with builds and a foreground.
type machine struct {
	rng *rand.Rand
	// foreground is the number of statements that run at a time, statements how many end in an interval, each of which takes statement, and
	// tail times as long in the mean if builds have all of the time; took are those so far. target is the target of 99 of 100.
	foreground        float64
	statements        int
	statement, target time.Duration
	tail              float64
	took              []time.Duration

	c     Controller
	now   time.Time
	share float64
}

// step lets an interval pass.
func (m *machine) step() {
	s := m.signals()
	m.share = m.c.Observe(m.now, s).Share
}

// signals are those of the next interval.
func (m *machine) signals() Signals {
	m.now = m.now.Add(Interval)
	seconds := func(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
	s := Signals{
		Elapsed: Interval, Statements: seconds(m.foreground), Foreground: seconds(m.foreground * Interval.Seconds()), Target: m.target,
	}
	for range m.statements {
		took := time.Duration(float64(m.statement) * (1 + m.tail*m.rng.ExpFloat64()*m.share*m.share))
		s.Latencies.add(took)
		m.took = append(m.took, took)
	}
	return s
}

// run lets time pass and returns the mean share.
func (m *machine) run(d time.Duration) (mean float64) {
	n := 0
	for ; d > 0; d -= Interval {
		m.step()
		mean, n = mean+m.share, n+1
	}
	return mean / float64(n)
}

// p99 returns the 99th percentile of what statements took since the last call.
func (m *machine) p99() time.Duration {
	took := m.took
	m.took = nil
	slices.Sort(took)
	return took[len(took)*99/100]
}

// beside returns a machine with statements that take longer the more builds run.
func beside(t *testing.T, statements int, target time.Duration) *machine {
	m := &machine{
		rng: rand.New(rand.NewPCG(randtest.Seed(t), 0)), now: time.Unix(1_700_000_000, 0),
		foreground: 0.8, statements: statements, statement: 3 * time.Millisecond, tail: 6, target: target,
	}
	m.share = m.c.Begin(m.now, Signals{}).Share
	return m
}

// TestTargetLatency: 99 of 100 statements take less than the target, few or many, and the build has nearly what that allows.
func TestTargetLatency(t *testing.T) {
	for _, statements := range []int{2, 20, 200} {
		m := beside(t, statements, 0)
		m.run(20 * time.Second)
		require.Equal(t, 1.0, m.share, "nothing else holds the build back")
		require.Greater(t, m.p99(), 40*time.Millisecond)

		m = beside(t, statements, 20*time.Millisecond)
		m.run(20 * time.Second) // until it is found
		m.p99()
		mean := m.run(2 * time.Minute)
		require.Less(t, m.p99(), 24*time.Millisecond, "%d statements", statements)
		require.Greater(t, mean, 0.3, "%d statements", statements)
		require.Less(t, mean, 0.8, "%d statements", statements)
	}
}

// TestTargetIsReachedSoon: within two seconds.
func TestTargetIsReachedSoon(t *testing.T) {
	m := beside(t, 50, 10*time.Millisecond)
	m.run(2 * time.Second)
	m.p99()
	m.run(2 * time.Second)
	require.Less(t, m.p99(), 14*time.Millisecond)
}

// TestTargetThatCannotBeReached: the build goes on, with the least share, and has everything again when the foreground ends, or the target
// is given up.
func TestTargetThatCannotBeReached(t *testing.T) {
	m := beside(t, 50, time.Millisecond)
	m.run(5 * time.Second)
	require.InDelta(t, MinShare, m.share, 1e-9)
	require.Equal(t, Decision{Share: MinShare, Reason: TargetLatency, Foreground: true}, m.c.Observe(m.now.Add(Interval), m.signals()))
	m.target = 0
	m.run(time.Second)
	require.Equal(t, 1.0, m.share)

	m = beside(t, 50, time.Millisecond)
	m.run(5 * time.Second)
	m.foreground = 0
	m.step()
	require.Equal(t, 1.0, m.share)
	m.foreground = 0.8
	require.InDelta(t, MinShare, m.c.Begin(m.now.Add(Interval), m.signals()).Share, 1e-9, "the next build begins with what is known")
}

// TestTargetOfALongTimeAgo: a build begins with a half of the time beside a foreground of which nothing is known.
func TestTargetOfALongTimeAgo(t *testing.T) {
	m := beside(t, 50, time.Millisecond)
	m.run(5 * time.Second)
	require.InDelta(t, minInitialShare, m.c.Begin(m.now.Add(time.Hour), m.signals()).Share, 1e-9)
}
