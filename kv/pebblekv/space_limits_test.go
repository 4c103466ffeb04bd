package pebblekv

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

func TestLogLimiter(t *testing.T) {
	var l logLimiter
	logged := 0
	for range 1000 {
		if _, ok := l.allow("same"); ok {
			logged++
		}
	}
	require.Equal(t, logBurst, logged)
	_, ok := l.allow("other")
	require.True(t, ok)
	l.kinds["same"].last = time.Now().Add(-logPause)
	held, ok := l.allow("same")
	require.True(t, ok)
	require.Equal(t, 1000-logBurst, held, "the number of those held back is returned")
	for i := range 3 * logKinds {
		l.allow(fmt.Sprint(i))
	}
	require.LessOrEqual(t, len(l.kinds), logKinds)
}

// TestSpaceForBuilds: SpaceForBuilds returns the least free space with which builds go on.
func TestSpaceForBuilds(t *testing.T) {
	s := &Store{space: &spaceMonitor{limits: limitsOf(1<<30, 8<<20)}}
	s.space.reserved.Store(1)
	s.space.state.Store(int32(kv.SpaceLow))
	require.Equal(t, kv.SpaceLow, s.space.stateOf(s.SpaceForBuilds()-1))
	require.Equal(t, kv.SpaceOK, s.space.stateOf(s.SpaceForBuilds()))
}

func TestSpaceLimits(t *testing.T) {
	for _, total := range []uint64{0, 1 << 20, 64 << 20, 1 << 30, 100 << 30, 10 << 40} {
		l := limitsOf(total, 64<<20)
		require.LessOrEqual(t, l.last, l.reserve)
		require.LessOrEqual(t, l.reserve, l.full)
		require.LessOrEqual(t, l.full, l.low)
		require.LessOrEqual(t, backAbove(l.low), kv.KeepFree(total), "index builds stop by themselves before they are stopped")
		require.LessOrEqual(t, l.low+l.reserve, total/4, "most of the disk is for data")
	}
	require.Equal(t, uint64(4*64<<20+32<<20), limitsOf(1<<40, 64<<20).full, "what is in memory can be flushed")
}
