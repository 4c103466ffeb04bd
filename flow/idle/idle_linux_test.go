package idle

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// TestProcessIsIdle shows how the package is used: the process is one of class idle with all its threads, and says so.
func TestProcessIsIdle(t *testing.T) {
	p := spin(t, 3, -1, &Options{})
	m, err := p.Means()
	require.NoError(t, err)
	t.Log(m)
	require.Equal(t, "idle", m.Policy)
	require.True(t, m.Uniform)
	require.Equal(t, "idle", m.IOClass)
	require.Equal(t, 1000, m.OOMScore)
	require.Empty(t, m.Notes)
	if m.Autogroup {
		require.Equal(t, 19, m.AutogroupNice)
	}
	require.NoError(t, p.Kill())
	require.Error(t, p.Wait())
	require.Equal(t, syscall.SIGKILL, p.signal())
	require.False(t, p.KilledByOOM(), "it was killed by the test")
}

// TestProcessIsNice: a process may begin in the usual class where class idle could not be left.
func TestProcessIsNice(t *testing.T) {
	p := spin(t, 2, -1, &Options{Class: ClassNice})
	m := p.means(t)
	require.Equal(t, "normal", m.Policy)
	require.Equal(t, 10, m.Nice)
	require.True(t, m.Uniform)
}

func TestStartFailsAsTheCommand(t *testing.T) {
	_, err := Start(exec.Command(filepath.Join(t.TempDir(), "absent")), Options{Group: true})
	require.ErrorIs(t, err, os.ErrNotExist)
	groupsInUse.Range(func(dir, _ any) bool {
		t.Errorf("the group %s is left", dir)
		return true
	})
}

// TestIdleProcessGetsLittleBesideBusyOne: on one processor a busy loop of class idle gets less than 5% of the time of a usual
// one. Both are in sessions of their own, so that what else runs slows both down alike.
func TestIdleProcessGetsLittleBesideBusyOne(t *testing.T) {
	randtest.SkipShort(t)
	const most = 0.05
	for name, start := range idleProcesses {
		t.Run(name, func(t *testing.T) {
			cpu := lastCPU(t)
			low, env := start(t, cpu)
			usual := spin(t, 1, cpu, nil, env...)
			ratio := compare(t, low, usual)
			t.Logf("%.2f%% of the usual process", 100*ratio)
			require.Less(t, ratio, most)
			if group := low.means(t).Group; group != "" {
				require.DirExists(t, group)
				require.NoError(t, low.Kill())
				require.Error(t, low.Wait())
				require.NoDirExists(t, group)
			}
		})
	}
}

// compare returns the processor time of a process in units of that of another, while both are busy and the other runs for
// two seconds.
func compare(t *testing.T, low, usual role) float64 {
	t.Helper()
	busy := func(r role, d time.Duration) {
		from := r.cpu(t)
		require.Eventually(t, func() bool { return r.cpu(t)-from >= d }, 5*time.Minute, 10*time.Millisecond)
	}
	busy(usual, 100*time.Millisecond)
	lowFrom, usualFrom := low.cpu(t), usual.cpu(t)
	busy(usual, 2*time.Second)
	return float64(low.cpu(t)-lowFrom) / float64(usual.cpu(t)-usualFrom)
}
