package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl/job"
)

// A session is idle from the end of its statement on, although TiDB counts from its beginning.
func TestSessionsAreIdleFromTheEndOfTheirStatements(t *testing.T) {
	start := time.Now()
	s := make(idleSpells)
	look := func(at, idle time.Duration) time.Duration {
		b := blocker{Blocker: job.Blocker{ConnID: 1, Idle: idle * time.Second}}
		s.correct(&b, start.Add(at*time.Second))
		return b.Idle.Round(time.Second)
	}
	require.Equal(t, 30*time.Second, look(0, 30), "idle before it was looked at")
	require.Equal(t, 31*time.Second, look(1, 31))
	require.Zero(t, look(2, 0), "a statement that began then")
	require.Zero(t, look(13, 0))
	require.Zero(t, look(14, 12), "it has just ended")
	require.Equal(t, 3*time.Second, look(17, 15))
	require.Equal(t, time.Second, look(20, 1), "a statement that was not seen")
	require.Equal(t, 5*time.Second, look(24, 5))
}
