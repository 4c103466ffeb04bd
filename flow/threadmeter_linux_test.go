package flow

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// spin works until stop is set.
func spin(stop *atomic.Bool) {
	for n := 0; !stop.Load(); n++ {
		_ = n * n
	}
}

// TestThreadsOfLowPriorityAreNotCounted: what is measured is the foreground.
func TestThreadsOfLowPriorityAreNotCounted(t *testing.T) {
	var m threadMeter
	require.Zero(t, m.sample(), "nothing to compare with")
	for _, low := range []bool{false, true} {
		var stop atomic.Bool
		var thread atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread()
			if low {
				BackgroundThread()
			}
			thread.Store(int64(unix.Gettid()))
			spin(&stop)
		}()
		require.Eventually(t, func() bool {
			m.sample()
			_, counted := m.threads[int(thread.Load())]
			return thread.Load() != 0 && counted != low
		}, 5*time.Minute, 20*time.Millisecond, "low priority: %v", low)
		if !low {
			require.Eventually(t, func() bool { return m.sample() > time.Millisecond }, 5*time.Minute, 20*time.Millisecond)
		}
		stop.Store(true)
		<-done
	}
}
