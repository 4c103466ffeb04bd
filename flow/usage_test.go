package flow

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// spin works until stop is set.
func spin(stop *atomic.Bool) {
	for n := 0; !stop.Load(); n++ {
		_ = n * n
	}
}

func TestUsageTellsForegroundFromBackground(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads are accounted for on Linux only")
	}
	var m usageMeter
	require.Zero(t, m.sample(), "nothing to compare with")
	const least = time.Millisecond // on a busy machine low priority gets little
	for _, low := range []bool{false, true} {
		var stop atomic.Bool
		done := make(chan struct{})
		m.sample()
		go func() {
			defer close(done)
			if low {
				BackgroundThread()
			}
			spin(&stop)
		}()
		// Threads of a test before may still be about to end.
		require.Eventually(t, func() bool { return low || m.sample().Background.Run == 0 }, 5*time.Minute, 20*time.Millisecond)
		var ran usage
		require.Eventually(t, func() bool {
			u := m.sample()
			ran.Foreground.Run += u.Foreground.Run
			ran.Background.Run += u.Background.Run
			ran.Busy += u.Busy
			run := ran.Foreground.Run
			if low {
				run = ran.Background.Run
			}
			return run > least && ran.Busy > 0
		}, 5*time.Minute, 20*time.Millisecond, "low priority: %v", low)
		stop.Store(true)
		<-done
		if !low {
			require.Less(t, ran.Background.Run, least)
		}
	}
}
