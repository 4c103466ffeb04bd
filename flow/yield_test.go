package flow

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTaskYieldsToStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(StatementMeter)
		g := BackgroundTask{Meter: m, MinShare: 0.1, Sleep: time.Sleep}
		require.Zero(t, g.Yield(0), "nothing runs")
		require.Zero(t, m.Executing())

		one, two := m.Begin(), m.Begin()
		require.Equal(t, 2, m.Executing())
		time.Sleep(2 * time.Millisecond)
		require.Zero(t, g.Yield(2), "beside as many it goes on")
		time.AfterFunc(990*time.Microsecond, one)
		require.Equal(t, time.Millisecond, g.Yield(1))
		require.Equal(t, 1, m.Executing())
		two()
		require.Zero(t, new(BackgroundTask).Yield(0))
	})
}

// TestTaskHasItsMinShare: beside statements that never end it has the least share, and
// not what it did not wait for before on top of that.
func TestTaskHasItsMinShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(StatementMeter)
		g := BackgroundTask{Meter: m, MinShare: 0.25, Sleep: time.Sleep}
		g.Yield(0)
		time.Sleep(100 * time.Millisecond)
		defer m.Begin()()
		require.Equal(t, maxYield, g.Yield(0))
		var worked, waited time.Duration
		for range 20 {
			time.Sleep(time.Millisecond)
			worked += time.Millisecond
			waited += g.Yield(0)
		}
		require.Equal(t, 3*worked, waited)
	})
}

// TestTaskKeepsItsThread: the wait that servers use ends too.
func TestTaskKeepsItsThread(t *testing.T) {
	m := new(StatementMeter)
	g := BackgroundTask{Meter: m, MinShare: 0.5}
	g.Yield(0)
	time.Sleep(time.Millisecond)
	defer m.Begin()()
	require.Positive(t, g.Yield(0))
}
