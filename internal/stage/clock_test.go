package stage_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/stage"
)

func TestClockChargesTheStageItIsIn(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	c := stage.Start(stage.Scan)
	// On a busy machine much of the time may be other processes': the number of rounds is
	// what takes the processor.
	for n, begin := 0, time.Now(); n < 50_000_000 || time.Since(begin) < 30*time.Millisecond; n++ {
	}
	require.Equal(t, stage.Scan, c.Enter(stage.Idle))
	time.Sleep(30 * time.Millisecond)
	costs := c.Stop()

	require.GreaterOrEqual(t, costs[stage.Scan].Wall, 30*time.Millisecond)
	require.GreaterOrEqual(t, costs[stage.Idle].Wall, 30*time.Millisecond)
	require.Zero(t, costs[stage.Encode])
	if runtime.GOOS == "linux" {
		require.Greater(t, costs[stage.Scan].CPU, 2*costs[stage.Idle].CPU)
		require.Greater(t, stage.ProcessCPU(), costs[stage.Scan].CPU)
	}

	var sum stage.Costs
	sum.Add(costs)
	sum.Add(costs)
	require.Equal(t, 2*costs[stage.Scan].Wall, sum[stage.Scan].Wall)
}
