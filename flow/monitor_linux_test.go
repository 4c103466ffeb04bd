package flow

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMonitorIsTheThreadThatWakesUpMost: the runtime does not say which of its
// threads is the monitor.
func TestMonitorIsTheThreadThatWakesUpMost(t *testing.T) {
	// sleeps is how often each thread went to sleep by itself.
	sleeps := func() (names []string, n map[string]int) {
		tasks, err := os.Open("/proc/self/task")
		require.NoError(t, err)
		defer tasks.Close()
		names, err = tasks.Readdirnames(-1)
		require.NoError(t, err)
		n = make(map[string]int)
		for _, name := range names {
			data, err := os.ReadFile("/proc/self/task/" + name + "/status")
			if err != nil {
				continue // it has ended
			}
			_, count, found := strings.Cut(string(data), "\nvoluntary_ctxt_switches:")
			require.True(t, found)
			n[name], err = strconv.Atoi(strings.Fields(count)[0])
			require.NoError(t, err)
		}
		return names, n
	}
	_, before := sleeps()
	names, after := sleeps()
	// ahead reports whether the monitor has woken up more often than any other thread.
	ahead := func() bool {
		own := after[names[monitor]] - before[names[monitor]]
		for _, name := range names {
			if name != names[monitor] && after[name]-before[name] >= own {
				return false
			}
		}
		return own >= 50
	}
	// The monitor sleeps while nothing runs. On a busy machine it takes a while until it is
	// ahead; a thread that is not the monitor falls behind it.
	for deadline := time.Now().Add(5 * time.Minute); !ahead() && time.Now().Before(deadline); names, after = sleeps() {
		for start := time.Now(); time.Since(start) < 300*time.Millisecond; {
		}
	}
	require.True(t, ahead())
}
