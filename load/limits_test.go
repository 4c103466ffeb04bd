package load

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/config"
	"fastddl/ingest"
	"fastddl/internal/randtest"
)

// limit gives a fixture resources of its own.
func (f *fixture) limit(memory, disk string) *ingest.Resources {
	f.opts.Globals = config.NewGlobals()
	for name, value := range map[string]string{config.MemoryQuota: memory, config.DiskQuota: disk} {
		_, _, err := f.opts.Globals.Set(name, value)
		require.NoError(f.T, err)
	}
	f.opts.Resources = ingest.NewResources(f.opts.Globals, 2)
	return f.opts.Resources
}

// A load that is larger than its memory and its part of the disk imports several times, stays within both, and leaves nothing in use.
func TestLoadWithinItsQuotas(t *testing.T) {
	r := randtest.Rand(t)
	for _, partitions := range []int{0, 30} {
		f := emptyFixtureOn(t, nil, r, partitions)
		f.long = 200
		f.addRows(r, 60_000)
		resources := f.limit("4MiB", "16MiB")
		result, err := f.run(f.Ctx)
		require.NoError(t, err)
		f.requireLoaded(result)
		require.Greater(t, result.Flushes, 1)
		require.LessOrEqual(t, resources.Usage().PeakTempBytes, int64(16<<20))
		require.LessOrEqual(t, resources.Usage().PeakMemoryBytes, int64(20<<20))
		require.Zero(t, resources.Usage().Jobs)
		require.Zero(t, resources.Usage().MemoryBytes+resources.Usage().TempBytes)
	}
}

// A full disk under the temp folder is an error that says so, and leaves no file; with room the load goes on from its checkpoint.
func TestFullDisk(t *testing.T) {
	disk := &backfilltest.SmallDisk{FS: vfs.Default, Dir: filepath.Join(t.TempDir(), "tmp")}
	disk.Room.Store(1 << 20)
	f := newFixtureOn(t, disk, randtest.Rand(t), 0, 20_000)
	f.Temp, f.opts.TempDir, f.opts.FS = disk.Dir, disk.Dir, disk
	resources := f.limit("16MiB", "64MiB")
	_, err := f.run(f.Ctx)
	require.ErrorIs(t, err, syscall.ENOSPC)
	f.RequireNoTempFiles()
	require.Zero(t, resources.Usage().TempBytes)
	disk.Room.Store(256 << 20)
	result, err := f.run(f.Ctx)
	require.NoError(t, err)
	f.requireLoaded(result)
}
