package flow

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// p99 returns the 99th percentile of what statements took since the last call.
func (m *machine) p99() time.Duration {
	took := m.took
	m.took = nil
	slices.Sort(took)
	return took[len(took)*99/100]
}

// beside returns a machine with a foreground of which the threads never wait, and statements that take longer the more builds run.
func beside(t *testing.T, statements int, target time.Duration) *machine {
	m := newMachine(randtest.Seed(t))
	m.self, m.hurt, m.slower = 0, 0, 0
	m.foreground, m.statements, m.statement, m.tail, m.target = 0.4, statements, 3*time.Millisecond, 6, target
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
		_, _, mean := m.run(2 * time.Minute)
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
	m.foreground = 0.4
	require.InDelta(t, MinShare, m.c.Begin(m.now.Add(Interval), m.signals()).Share, 1e-9, "the next build begins with what is known")
}

// TestTargetOfALongTimeAgo: a build begins with a half of the time beside a foreground of which nothing is known.
func TestTargetOfALongTimeAgo(t *testing.T) {
	m := beside(t, 50, time.Millisecond)
	m.run(5 * time.Second)
	require.InDelta(t, minInitialShare, m.c.Begin(m.now.Add(time.Hour), m.signals()).Share, 1e-9)
}
