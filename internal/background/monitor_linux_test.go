package background

import (
	"bytes"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMonitorIsTheThreadThatWakesUpMost: the runtime does not say which of its
// threads is the monitor.
func TestMonitorIsTheThreadThatWakesUpMost(t *testing.T) {
	// turns are how often the threads were given a processor.
	turns := func() (names []string, n map[string]int) {
		tasks, err := os.Open("/proc/self/task")
		require.NoError(t, err)
		defer tasks.Close()
		names, err = tasks.Readdirnames(-1)
		require.NoError(t, err)
		n = make(map[string]int)
		for _, name := range names {
			data, err := os.ReadFile("/proc/self/task/" + name + "/schedstat")
			if err != nil {
				continue // it has ended
			}
			n[name], err = strconv.Atoi(string(bytes.Fields(data)[2]))
			require.NoError(t, err)
		}
		return names, n
	}
	_, before := turns()
	for start := time.Now(); time.Since(start) < 300*time.Millisecond; {
		// The monitor sleeps while nothing runs.
	}
	names, after := turns()
	for _, name := range names {
		if name != names[monitor] {
			require.Less(t, after[name]-before[name], after[names[monitor]]-before[names[monitor]])
		}
	}
}
