//go:build benchflow

package flow

import (
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// without leaves mechanisms out until the test ends.
func without(t *testing.T, names string) {
	require.NoError(t, leaveOut(names))
	t.Cleanup(func() { require.NoError(t, leaveOut("")) })
}

func TestMechanismsAreLeftOutByName(t *testing.T) {
	without(t, "yield,reserve")
	for name, out := range mechanisms {
		require.Equal(t, name == "yield" || name == "reserve", *out, name)
	}
	require.ErrorContains(t, leaveOut("share,speed"), `"speed"`)
}

// TestPressureLeftOut: of a foreground that is hurt in one way, the pressure of the other way says nothing.
func TestPressureLeftOut(t *testing.T) {
	for _, c := range []struct {
		out          string
		hurt, slower float64
	}{{"processors", 40, 0}, {"commits", 0, 30}} {
		m := newMachine(1)
		m.foreground, m.hurt, m.slower = 0.5, c.hurt, c.slower
		m.run(10 * time.Second)
		require.Less(t, m.share, 0.9, c.out)
		without(t, c.out)
		m.run(10 * time.Second)
		require.Equal(t, 1.0, m.share, c.out)
	}
}

// hurt is a sampler of a foreground that waits for builds.
type hurt struct{ elapsed time.Duration }

func (h hurt) Begin(time.Time) Signals { return h.signals() }

func (h hurt) Sample(time.Time) Signals { return h.signals() }

func (h hurt) signals() Signals {
	return Signals{
		Elapsed: h.elapsed, Processors: 2, Statements: 3 * time.Second, Foreground: ThreadTime{Run: h.elapsed / 2, Wait: 5 * h.elapsed},
		Builds: h.elapsed, Busy: 2 * h.elapsed,
	}
}

// TestShareLeftOut: workers have all of the time, and it is known still which statements use no processor.
func TestShareLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		decided := func() Decision {
			g := NewGovernor(func() bool { return true })
			g.Observe(hurt{Interval}, new(StatementMeter))
			j := g.NewJob(JobOptions{})
			j.Begin()
			defer j.End()
			time.Sleep(time.Second + Interval/2)
			return g.Decision()
		}
		with := decided()
		require.Less(t, with.Share, 0.9)
		without(t, "share")
		require.Equal(t, Decision{Share: 1, Foreground: true, OffCPU: with.OffCPU}, decided())
	})
}

// TestYieldLeftOut: a worker goes on beside any number of statements.
func TestYieldLeftOut(t *testing.T) {
	statements := new(StatementMeter)
	for range 2 * Cores() {
		defer statements.Begin()()
	}
	waited := func() time.Duration {
		g := NewGovernor(func() bool { return true })
		g.statements = statements
		j := g.NewJob(JobOptions{})
		p := j.NewWallPacer(nil)
		for range 2 {
			time.Sleep(time.Millisecond)
			require.NoError(t, p.Pace(t.Context()))
		}
		return j.stats.yieldedFor()
	}
	require.Positive(t, waited())
	without(t, "yield")
	require.Zero(t, waited())
}

func TestReserveLeftOut(t *testing.T) {
	without(t, "reserve")
	cores := runtime.GOMAXPROCS(0)
	release := Reserve(3)
	require.Equal(t, cores, runtime.GOMAXPROCS(0))
	release()
	require.Equal(t, cores, runtime.GOMAXPROCS(0))
}

// TestPriorityLeftOut: threads of the background have nearly the usual priority, and are still told from others.
func TestPriorityLeftOut(t *testing.T) {
	if usual != 20 {
		t.Skip("this process has another priority itself")
	}
	without(t, "priority")
	nice, low := make(chan int), make(chan bool)
	go func() {
		BackgroundThread()
		priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		if err != nil {
			priority = 0
		}
		nice <- 20 - priority
		own := syscall.Gettid()
		found := false
		forEachThread(func(id int, isLow bool, _ ThreadTime) { found = found || id == own && isLow })
		low <- found
	}()
	require.Equal(t, leastNiceness, <-nice)
	require.True(t, <-low)
}
