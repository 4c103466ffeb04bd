package usage_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/benchmarks/usage"
)

// start runs a shell script, with all that it starts until the test's end.
func start(t *testing.T, script string) (pid int, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		_ = cmd.Wait()
	})
	return cmd.Process.Pid, cmd
}

const busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"

// TestCPUOfChildren: a child counts while it runs and after it has ended.
func TestCPUOfChildren(t *testing.T) {
	for name, script := range map[string]string{
		"runs":  "(" + busy + "; " + busy + "; while :; do :; done) & wait",
		"ended": "(" + busy + "); sleep 600",
	} {
		t.Run(name, func(t *testing.T) {
			pid, _ := start(t, script)
			require.Eventually(t, func() bool {
				cpu, err := usage.CPU(pid)
				require.NoError(t, err)
				// A shell by itself takes less; sleep shows that the child has ended.
				return cpu >= 100*time.Millisecond && (name == "runs" || isAsleep(t, pid))
			}, 5*time.Minute, 20*time.Millisecond)
		})
	}
}

// isAsleep reports whether the process' only child is sleep.
func isAsleep(t *testing.T, pid int) bool {
	t.Helper()
	child, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	require.NoError(t, err)
	name, err := os.ReadFile("/proc/" + strings.TrimSpace(string(child)) + "/comm")
	return err == nil && strings.TrimSpace(string(name)) == "sleep"
}

func TestCPUNeverGoesBack(t *testing.T) {
	pid, _ := start(t, "for n in 1 2 3 4 5 6; do ("+busy+"); done; sleep 600")
	var last time.Duration
	for range 100 {
		cpu, err := usage.CPU(pid)
		require.NoError(t, err)
		require.GreaterOrEqual(t, cpu, last-10*time.Millisecond, "one tick may be between two looks")
		last = cpu
		time.Sleep(5 * time.Millisecond)
	}
}

func TestMeasureFindsThePeak(t *testing.T) {
	const size = 64 << 20
	u, err := usage.Measure(os.Getpid(), func() error {
		b := make([]byte, size)
		for i := range b {
			b[i] = byte(i)
		}
		time.Sleep(2 * time.Second) // many looks long
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
	pid, _ := start(t, "exec sleep 600")
	begin := time.Now()
	require.NoError(t, usage.WaitIdle(t.Context(), pid, 5*time.Minute))
	require.Less(t, time.Since(begin), 5*time.Minute)

	// Several, of which some get the processor also on a machine in use.
	pid, _ = start(t, "for n in 1 2 3 4; do (while :; do :; done) & done; wait")
	begin = time.Now()
	require.NoError(t, usage.WaitIdle(t.Context(), pid, 900*time.Millisecond))
	require.GreaterOrEqual(t, time.Since(begin), 900*time.Millisecond, "the limit")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, usage.WaitIdle(ctx, pid, time.Minute), context.Canceled)
}
