package idle

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// TestProcessIsIdle shows how the package is used: the process is one of class idle with all its threads, and says so.
func TestProcessIsIdle(t *testing.T) {
	p := spin(t, 3, -1, &Options{})
	m, err := MeansOf(p.Pid())
	require.NoError(t, err)
	t.Log(m)
	require.Equal(t, "idle", m.Policy)
	require.True(t, m.Uniform)
	require.Equal(t, "idle", m.IOClass)
	own, err := MeansOf(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, min(1000, own.OOMScore+500), m.OOMScore)
	require.Empty(t, p.means.Notes)
	if m.Autogroup {
		require.Equal(t, 19, m.AutogroupNice)
	}
	now, peak, err := p.Memory()
	require.NoError(t, err)
	require.Positive(t, now)
	require.GreaterOrEqual(t, peak, now)
	require.Less(t, peak, int64(1<<30))
	require.NoError(t, p.Kill())
	require.Error(t, p.Wait())
	require.Equal(t, syscall.SIGKILL, p.signal())
	require.False(t, p.KilledByOOM(), "it was killed by the test")
	_, last, err := p.Memory()
	require.Error(t, err)
	require.GreaterOrEqual(t, last, peak)
}

// TestProcessIsNice: a process may begin in the usual class where class idle could not be left.
func TestProcessIsNice(t *testing.T) {
	p := spin(t, 2, -1, &Options{Class: ClassNice})
	require.Equal(t, "normal", p.means.Policy)
	require.Equal(t, 10, p.means.Nice)
	require.True(t, p.means.Uniform)
}

// TestRequestIsChecked: an unreadable request is an error, not a process of the usual class.
func TestRequestIsChecked(t *testing.T) {
	for _, text := range []string{"{", `{"class":"fast"}`} {
		t.Setenv(requestVariable, text)
		_, err := receive()
		require.ErrorContains(t, err, requestVariable)
	}
	t.Setenv(requestVariable, `{"class":"nice","notes":["a"]}`)
	r, err := receive()
	require.NoError(t, err)
	require.Equal(t, request{Class: ClassNice, Notes: []string{"a"}}, r)
	require.NotContains(t, strings.Join(os.Environ(), "\n"), requestVariable, "processes that it starts have no request")
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
			if group := low.means.Group; group != "" {
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
