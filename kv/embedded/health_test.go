package embedded

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// smallDisk is a file system in memory that says what it has left.
type smallDisk struct {
	vfs.FS
	free atomic.Uint64
}

const smallDiskBytes = 64 << 20

// GetDiskUsage implements vfs.FS.
func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.free.Load(), TotalBytes: smallDiskBytes}, nil
}

// TestHealthKnowsAFullDisk: one on which nothing can be written, and one on which a write was refused.
func TestHealthKnowsAFullDisk(t *testing.T) {
	disk := &smallDisk{FS: vfs.NewMem()}
	disk.free.Store(smallDiskBytes / 10)
	s, err := Open("db", Options{Pebble: pebblekv.Options{FS: disk, MemTableBytes: 512 << 10}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Healthy())
	write := func(yield func(key, value []byte) bool) { yield([]byte("k"), []byte("v")) }

	require.ErrorIs(t, s.pebble.Admit(write, 8<<20), kv.ErrDiskFull)
	require.NoError(t, s.pebble.Healthy(), "small writes fit")
	require.ErrorIs(t, s.Healthy(), kv.ErrDiskFull)

	disk.free.Store(smallDiskBytes / 100)
	require.Eventually(t, func() bool { return errors.Is(s.pebble.Healthy(), kv.ErrDiskFull) }, time.Minute, time.Millisecond)
	require.ErrorIs(t, s.Healthy(), kv.ErrDiskFull)
}
