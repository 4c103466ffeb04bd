package usage_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/benchmarks/usage"
)

// start runs a shell script as a process of its own.
func start(t *testing.T, script string) (pid int, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command("sh", "-c", script)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return cmd.Process.Pid, cmd
}

const busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"

// TestCPUOfChildren: a child counts while it runs and after it has ended.
func TestCPUOfChildren(t *testing.T) {
	pid, _ := start(t, "("+busy+"); sleep 60 & wait")
	require.Eventually(t, func() bool {
		cpu, err := usage.CPU(pid)
		require.NoError(t, err)
		return cpu >= 50*time.Millisecond
	}, 30*time.Second, 20*time.Millisecond)
}

func TestCPUNeverGoesBack(t *testing.T) {
	pid, cmd := start(t, "for n in 1 2 3 4 5 6; do ("+busy+"); done; sleep 60")
	var last time.Duration
	for range 100 {
		cpu, err := usage.CPU(pid)
		require.NoError(t, err)
		require.GreaterOrEqual(t, cpu, last-10*time.Millisecond, "one tick may be between two looks")
		last = cpu
		time.Sleep(5 * time.Millisecond)
	}
	require.NoError(t, cmd.Process.Kill())
}

func TestMeasureFindsThePeak(t *testing.T) {
	const size = 64 << 20
	u, err := usage.Measure(os.Getpid(), func() error {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i)
		}
		time.Sleep(200 * time.Millisecond)
		require.NotZero(t, b[len(b)-1])
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, u.PeakMemory, uint64(size))
}

func TestMeasureOfAProcessThatIsGone(t *testing.T) {
	pid, cmd := start(t, "exit 0")
	require.NoError(t, cmd.Wait())
	_, err := usage.Measure(pid, func() error { return nil })
	require.Error(t, err)
}

func TestWaitIdle(t *testing.T) {
	pid, _ := start(t, "exec sleep 60")
	begin := time.Now()
	require.NoError(t, usage.WaitIdle(t.Context(), pid, 20*time.Second))
	require.Less(t, time.Since(begin), 10*time.Second)

	pid, _ = start(t, "while :; do :; done")
	begin = time.Now()
	require.NoError(t, usage.WaitIdle(t.Context(), pid, 1200*time.Millisecond))
	require.GreaterOrEqual(t, time.Since(begin), 1200*time.Millisecond, "the limit")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, usage.WaitIdle(ctx, pid, time.Minute), context.Canceled)
}
