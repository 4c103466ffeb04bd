package ingest

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/kv"
)

// What others have taken of the disk quota is not for jobs, and half of it always is.
func TestOthersOccupyTheDiskQuota(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.DiskQuota, "100000000")
	r := NewResources(g, 2)
	s := join(t, r, ShareOptions{})
	defer s.Leave()
	require.Equal(t, Granted, r.Occupy(50_000_000, nil))
	require.Equal(t, OverQuota, r.Occupy(1, nil))
	require.False(t, s.tryAcquireRuns(25_000_001))
	require.True(t, s.tryAcquireRuns(25_000_000))
	require.Equal(t, Granted, r.Occupy(-50_000_000, nil))
	require.True(t, s.tryAcquireRuns(25_000_000))
	require.False(t, s.tryAcquireRuns(1))
	s.releaseRuns(50_000_000)
}

// Others take at most half of the room on the disk, of which the part that is kept free is none.
func TestOthersOccupyHalfOfTheRoom(t *testing.T) {
	r := NewResources(config.NewGlobals(), 2)
	const total = 100 << 30
	disk := func(room uint64) *vfs.DiskUsage {
		return &vfs.DiskUsage{TotalBytes: total, AvailBytes: kv.KeepFree(total) + room}
	}
	require.Equal(t, OverRoom, r.Occupy(51<<20, disk(100<<20)))
	require.Equal(t, Granted, r.Occupy(50<<20, disk(100<<20)))
	require.Equal(t, OverRoom, r.Occupy(1, disk(50<<20)), "what is taken is not of the room any more")
	require.Equal(t, Granted, r.Occupy(5<<20, disk(60<<20)), "room was made")
	require.Equal(t, OverRoom, r.Occupy(1, &vfs.DiskUsage{TotalBytes: total, AvailBytes: 1 << 20}))
	require.Equal(t, Granted, r.Occupy(-55<<20, nil))
}
