package dist

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that fails with every subtask that it takes is at fault itself: it fails at most once a
// minute in the end, not once for each subtask.
func TestTroubleOfANode(t *testing.T) {
	var trouble Trouble
	const subtasks, hours = 100, 2
	var now time.Time
	failures, end := 0, now.Add(hours*time.Hour)
	for subtask := int64(0); now.Before(end); subtask = (subtask + 1) % subtasks {
		if trouble.Avoids(now, 7, subtask) {
			now = now.Add(time.Second)
			continue
		}
		failures++
		trouble.Failed(now, 7, subtask, 20*time.Millisecond)
		require.False(t, trouble.Avoids(now, 8, subtask), "another job")
	}
	require.InDelta(t, hours*60, failures, 10)

	trouble.Succeeded(7)
	require.False(t, trouble.Avoids(now, 7, 98))
}

// A subtask that cannot be built keeps no node from the others.
func TestTroubleOfAPart(t *testing.T) {
	var trouble Trouble
	var now time.Time
	for range 100 {
		trouble.Failed(now, 7, 3, 5*time.Second)
		require.True(t, trouble.Avoids(now, 7, 3))
		require.False(t, trouble.Avoids(now, 7, 4))
		trouble.Succeeded(7)
		now = now.Add(5 * time.Second)
		require.False(t, trouble.Avoids(now, 7, 3))
	}
}
