package backfill

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/config"
	"fastddl/ingest"
	"fastddl/kv"
)

// onSmallDisk is a table with more to sort than a temp folder has room for, and a build of an index of it.
func onSmallDisk(t *testing.T, room int64, tells bool) (disk *backfilltest.SmallDisk, build func() error) {
	table, kinds := backfilltest.PlainTable()
	disk = &backfilltest.SmallDisk{FS: vfs.Default, Dir: filepath.Join(t.TempDir(), "tmp"), Tells: tells}
	disk.Room.Store(room)
	f := newFixtureOn(t, disk, table, kinds)
	f.Temp = disk.Dir
	f.Load(smallDiskRows)
	idx := backfilltest.IndexOn(9, false, 2, 3, 2, 3, 2, 3) // its entries are long
	spec, opts := f.spec(idx), f.options()
	opts.Globals, opts.FS = config.NewGlobals(), disk
	set(t, opts.Globals, config.MemoryQuota, "4MiB")
	opts.Resources = ingest.NewResources(opts.Globals, 0)
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
		spec.Checkpoint = slices.Clone(data)
		return nil
	}
	return disk, func() error {
		_, err := Run(f.Ctx, opts, spec)
		f.RequireNoTempFiles()
		require.Equal(t, ingest.Usage{}, nothingInUse(opts.Resources))
		if err == nil {
			f.RequireLoaded(smallDiskRows, spec.TS, idx)
		}
		return err
	}
}

const smallDiskRows = 50_000

// TestTempFolderSmallerThanTheQuota: a build whose temp folder has less room than the quota
// allows imports what it has before that is full, and leaves some of it to others.
func TestTempFolderSmallerThanTheQuota(t *testing.T) {
	const room = 24 << 20
	disk, build := onSmallDisk(t, room, true)
	require.NoError(t, build())
	require.LessOrEqual(t, disk.Most, room-int64(kv.KeepFree(room)))
}

// TestTempFolderThatDoesNotTellItsRoom: a build that finds out by an error how much room its
// temp folder has keeps to that when it goes on.
func TestTempFolderThatDoesNotTellItsRoom(t *testing.T) {
	_, build := onSmallDisk(t, 24<<20, false)
	err := build()
	for range 3 {
		if err == nil {
			break
		}
		require.ErrorIs(t, err, syscall.ENOSPC)
		err = build()
	}
	require.NoError(t, err)
}

// TestTempDiskFull: a build that finds hardly any space fails with that error and leaves
// nothing; once there is space, it goes on from its checkpoint.
func TestTempDiskFull(t *testing.T) {
	disk, build := onSmallDisk(t, 0, true)
	for _, room := range []int64{0, 20_000, 100_000} {
		disk.Room.Store(room)
		require.ErrorIs(t, build(), syscall.ENOSPC)
	}
	disk.Room.Store(64 << 20)
	require.NoError(t, build())
}

// nothingInUse is what is in use, without how much it was.
func nothingInUse(r *ingest.Resources) ingest.Usage {
	u := r.Usage()
	u.PeakMemoryBytes, u.PeakTempBytes = 0, 0
	return u
}

// TestBatchLargerThanTheMemory: a batch of rows that give many times as many bytes of entries is no matter of
// memory.
func TestBatchLargerThanTheMemory(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(40_000)
	idx := backfilltest.IndexOn(9, false, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3)
	opts := f.options()
	opts.Globals, opts.MaxWorkers, opts.BatchRows = smallMemory(t), 1, 40_000
	opts.Resources = ingest.NewResources(opts.Globals, 0)
	res, err := Run(f.Ctx, opts, f.spec(idx))
	require.NoError(t, err)
	t.Logf("%d bytes of memory", res.PeakMemoryBytes)
	require.Less(t, res.PeakMemoryBytes, int64(8<<20))
}

// TestTempFolderRemoved: a temp folder that is removed in the middle of a build is
// an error or does not matter, and never makes an index that is wrong.
func TestTempFolderRemoved(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(40_000)
	idx := backfilltest.IndexOn(9, false, 2)
	failed := 0
	for at := range int64(8) {
		spec := f.spec(idx)
		opts := f.options()
		opts.Globals, opts.MaxWorkers = smallMemory(t), 2
		opts.Resources = ingest.NewResources(opts.Globals, 0)
		opts.Store = &backfilltest.FaultyStore{Store: f.Store, OnScan: func(n int64) error {
			for n == 1+at*5 { // another worker may make a run while the folder is removed
				if err := os.RemoveAll(f.Temp); !errors.Is(err, syscall.ENOTEMPTY) {
					return err
				}
			}
			return nil
		}}
		_, err := Run(f.Ctx, opts, spec)
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
			failed++
			opts.Store = f.Store
			_, err = Run(f.Ctx, opts, spec)
			require.NoError(t, err)
		}
		f.RequireLoaded(40_000, spec.TS, idx)
		require.Equal(t, ingest.Usage{}, nothingInUse(opts.Resources))
		f.RequireNoTempFiles()
		f.DropIndex(idx)
	}
	require.Positive(t, failed)
}
