//go:build benchflow

package flow

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
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
	require.ErrorContains(t, leaveOut("yield,speed"), `"speed"`)
}

// TestYieldLeftOut: a worker goes on beside any number of statements.
func TestYieldLeftOut(t *testing.T) {
	var n atomic.Int64
	n.Store(int64(2 * Cores()))
	statements := NewMeterElsewhere(&n)
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
		forEachThread(func(id int, isLow bool, _ time.Duration) { found = found || id == own && isLow })
		low <- found
	}()
	require.Equal(t, leastNiceness, <-nice)
	require.True(t, <-low)
}
