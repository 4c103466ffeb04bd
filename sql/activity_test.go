package sql

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/sql/sqlerr"
)

func TestActivity(t *testing.T) {
	var a activity
	require.Zero(t, a.idle(), "nothing was run yet")
	require.False(t, a.killIdle(time.Nanosecond))
	require.NoError(t, a.begin())
	time.Sleep(2 * time.Millisecond)
	require.Zero(t, a.idle())
	require.False(t, a.killIdle(time.Nanosecond), "a statement runs")
	a.end()
	require.False(t, a.killIdle(time.Hour), "it was idle for less")
	time.Sleep(2 * time.Millisecond)
	require.GreaterOrEqual(t, a.idle(), time.Millisecond)
	require.True(t, a.killIdle(time.Millisecond))
	require.False(t, a.killIdle(time.Millisecond), "once")
	require.EqualValues(t, 1317, sqlerr.Translate(a.begin()).Num)
}

// A session either begins a statement or is killed for its idleness, never both.
func TestNoStatementBeginsAfterTheIdleKill(t *testing.T) {
	for range 200 {
		var a activity
		require.NoError(t, a.begin())
		a.end()
		time.Sleep(time.Microsecond)
		var (
			wg     sync.WaitGroup
			began  error
			killed bool
		)
		wg.Go(func() { began = a.begin() })
		wg.Go(func() { killed = a.killIdle(time.Nanosecond) })
		wg.Wait()
		require.Equal(t, began != nil, killed)
	}
}
