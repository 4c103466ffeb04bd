package idle

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fastddl/internal/randtest"
)

// TestKeeperHoldsLeastShare: beside eight busy processes on the same processor an idle process starves. With a keeper it
// gets a tenth of the processor, by each of the knobs.
func TestKeeperHoldsLeastShare(t *testing.T) {
	randtest.SkipShort(t)
	for name, start := range idleProcesses {
		t.Run(name, func(t *testing.T) {
			cpu := lastCPU(t)
			p, env := start(t, cpu)
			k := NewKeeper(p.Pid(), nil)
			last, err := k.Observe(time.Now())
			require.NoError(t, err)
			if last.Top == 0 {
				t.Skip("the kernel does not let a class be raised")
			}
			for range 8 {
				spin(t, 1, cpu, nil, env...)
			}
			without := p.share(t, 2*time.Second)
			observe := func(done func() bool) {
				require.Eventually(t, func() bool {
					last, err = k.Observe(time.Now())
					return err != nil || done()
				}, 2*time.Minute, KeeperInterval, "%s", &last)
				require.NoError(t, err)
			}
			began := time.Now()
			observe(func() bool { return last.Level > 0 && (last.Share >= LeastShare || last.Starved) })
			took := time.Since(began)
			var with float64
			from, at := p.cpu(t), time.Now()
			observe(func() bool {
				if time.Since(at) < 3*time.Second {
					return false
				}
				with = float64(p.cpu(t)-from) / float64(time.Since(at))
				from, at = p.cpu(t), time.Now()
				return with > LeastShare/2 || last.Starved // what else runs on the machine changes
			})
			t.Logf("without %.2f%%, with %.2f%% after %s: %s", 100*without, 100*with, took, last)
			require.Greater(t, with, without)
			if last.Starved {
				require.Equal(t, last.Top, last.Level)
			}
		})
	}
}

// share returns the part of a processor that a role gets in some time.
func (r role) share(t *testing.T, d time.Duration) float64 {
	t.Helper()
	from, at := r.cpu(t), time.Now()
	time.Sleep(d)
	return float64(r.cpu(t)-from) / float64(time.Since(at))
}

// TestKeeperEndsWithTheProcess: its context is not needed for that.
func TestKeeperEndsWithTheProcess(t *testing.T) {
	p := spin(t, 1, -1, &Options{})
	notified := make(chan Progress, 100)
	done := make(chan error, 1)
	go func() { done <- NewKeeper(p.Pid(), func(p Progress) { notified <- p }).Run(context.Background()) }()
	require.NoError(t, p.Kill())
	require.Error(t, p.Wait())
	require.NoError(t, <-done)

	p = spin(t, 1, -1, &Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, NewKeeper(p.Pid(), nil).Run(ctx))
}

// TestSessionsAreSet: the levels up to the usual nice value need no privilege.
func TestSessionsAreSet(t *testing.T) {
	p := spin(t, 1, -1, &Options{})
	if !p.means(t).Autogroup {
		t.Skip("the kernel does not divide processors by session")
	}
	knob := autogroupKnob{kernel, p.Pid()}
	for level, nice := range map[int]int{0: 19, 1: 15, 6: 0} {
		require.Eventually(t, func() bool {
			err := knob.set(level)
			require.True(t, err == nil || errors.Is(err, unix.EAGAIN), "%v", err)
			return err == nil
		}, time.Minute, 50*time.Millisecond)
		got, err := knob.level()
		require.NoError(t, err)
		require.Equal(t, level, got)
		m, err := p.Means()
		require.NoError(t, err)
		require.Equal(t, nice, m.AutogroupNice)
	}
}

// TestThreadsAreSetAndProbed: all threads have the level, and a probe leaves none.
func TestThreadsAreSetAndProbed(t *testing.T) {
	p := spin(t, 3, -1, &Options{})
	knob := threadsKnob{kernel, p.Pid()}
	level := func() int {
		level, err := knob.level()
		require.NoError(t, err)
		return level
	}
	require.Zero(t, level())
	if err := knob.probe(0); errors.Is(err, os.ErrPermission) {
		t.Skip("the kernel does not let a class be raised")
	}
	for _, to := range []int{0, 1, 5, maxLevel - 1, maxLevel, 3, 0} {
		require.NoError(t, knob.set(to))
		require.Equal(t, to, level())
		if to < maxLevel {
			require.NoError(t, knob.probe(to))
			require.Equal(t, to, level())
		}
		m, err := p.Means()
		require.NoError(t, err)
		require.True(t, m.Uniform)
		require.Equal(t, to == 0, m.Policy == policyIdle)
	}
}

// TestKeeperKeepsAClassThatCannotBeRaised: where the kernel refuses to raise a process, the keeper does not lower it, and
// says that it starves. An account without privileges starts the process.
func TestKeeperKeepsAClassThatCannotBeRaised(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the account of the test process has to be changed")
	}
	for class, level := range map[Class]int{ClassIdle: 0, ClassNice: 4} {
		p := spin(t, 1, -1, &Options{Class: class})
		// Without CAP_SYS_NICE in this thread the kernel refuses what it does for others too.
		k := NewKeeper(p.Pid(), nil)
		withoutPrivileges(t, func() { require.NoError(t, k.begin(threadsKnob{kernel, p.Pid()})) })
		require.Equal(t, level, k.ladder.level)
		for range 20 {
			require.Equal(t, level, k.ladder.Observe(ShareSample{Elapsed: KeeperInterval}).Level)
		}
		var last Progress
		for range 20 {
			last = k.ladder.Observe(ShareSample{Elapsed: KeeperInterval, Wait: KeeperInterval})
		}
		require.Equal(t, level, last.Level)
		require.True(t, last.Starved)
	}
}

// withoutPrivileges runs a function on a thread without capabilities.
func withoutPrivileges(t *testing.T, fn func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		// The thread ends with the goroutine.
		runtime.LockOSThread()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			done <- err
			return
		}
		defer close(done)
		fn()
	}()
	require.NoError(t, <-done)
}

// TestWaitIsSeenWhileItLasts: the kernel counts a wait when it has ended.
func TestWaitIsSeenWhileItLasts(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name          string
		before, after threadTimes
		want          time.Duration
	}{
		{"it sleeps", threadTimes{run: ms}, threadTimes{run: ms}, 0},
		{"it starves", threadTimes{ms, ms, true}, threadTimes{ms, ms, true}, 500 * ms},
		{"it ran and waited", threadTimes{ms, ms, true}, threadTimes{10 * ms, 301 * ms, true}, 300 * ms},
		{"a wait that began long before", threadTimes{ms, ms, true}, threadTimes{10 * ms, 3000 * ms, false}, 500 * ms},
		{"it has just woken up", threadTimes{ms, ms, false}, threadTimes{ms, ms, true}, 0},
		{"it is new", threadTimes{}, threadTimes{ms, 2 * ms, true}, 2 * ms},
	} {
		require.Equal(t, test.want, waited(test.before, test.after, 500*ms), test.name)
	}
}
