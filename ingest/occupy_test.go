package ingest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/config"
)

// What others have taken of the disk quota is not for jobs, and half of it always is.
func TestOthersOccupyTheDiskQuota(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.DiskQuota, "100000000")
	r := NewResources(g, 2)
	s := join(t, r, ShareOptions{})
	defer s.Leave()
	require.True(t, r.Occupy(50_000_000))
	require.False(t, r.Occupy(1))
	require.False(t, s.tryAcquireRuns(25_000_001))
	require.True(t, s.tryAcquireRuns(25_000_000))
	require.True(t, r.Occupy(-50_000_000))
	require.True(t, s.tryAcquireRuns(25_000_000))
	require.False(t, s.tryAcquireRuns(1))
	s.releaseRuns(50_000_000)
}
