package backfill

import (
	"context"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/ingest"
)

// fullFS has no space for the n-th write of a run and those after it, while full.
type fullFS struct {
	vfs.FS
	writes atomic.Int64
	from   int64
	full   atomic.Bool
}

func (f *fullFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.OpenReadWrite(name, category, opts...)
	if err != nil {
		return nil, err
	}
	return &fullFile{file, f}, nil
}

type fullFile struct {
	vfs.File
	fs *fullFS
}

func (f *fullFile) Write(p []byte) (int, error) {
	if f.fs.writes.Add(1) >= f.fs.from && f.fs.full.Load() {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, &os.PathError{Op: "write", Path: "run", Err: syscall.ENOSPC}
	}
	return f.File.Write(p)
}

// TestTempDiskFull: a build whose runs find no space fails with that error and
// leaves nothing; once there is space, it goes on from its checkpoint.
func TestTempDiskFull(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(40_000)
	idx := indexOn(9, false, 2)
	spec := f.spec(idx)
	for _, from := range []int64{1, 20, 60} {
		fs := &fullFS{FS: vfs.Default, from: from}
		fs.full.Store(true)
		opts := f.options()
		opts.Globals, opts.FS = smallMemory(t), fs
		opts.Resources = ingest.NewResources(opts.Globals, 0)
		opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
			spec.Checkpoint = slices.Clone(data)
			return nil
		}
		_, err := Run(f.ctx, opts, spec)
		require.ErrorIs(t, err, syscall.ENOSPC)
		f.requireNoTempFiles()
		require.Equal(t, ingest.Usage{}, nothingInUse(opts.Resources))

		fs.full.Store(false)
		_, err = Run(f.ctx, opts, spec)
		require.NoError(t, err)
		f.requireLoaded(40_000, spec.TS, idx)
		f.requireNoTempFiles()
		f.dropIndex(idx)
		spec.Checkpoint = nil
	}
}

// nothingInUse is what is in use, without how much it was.
func nothingInUse(r *ingest.Resources) ingest.Usage {
	u := r.Usage()
	u.PeakMemoryBytes, u.PeakTempBytes = 0, 0
	return u
}

// TestTempFolderRemoved: a temp folder that is removed in the middle of a build is
// an error or does not matter, and never makes an index that is wrong.
func TestTempFolderRemoved(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(40_000)
	idx := indexOn(9, false, 2)
	failed := 0
	for at := range int64(8) {
		spec := f.spec(idx)
		opts := f.options()
		opts.Globals, opts.MaxWorkers = smallMemory(t), 2
		opts.Resources = ingest.NewResources(opts.Globals, 0)
		opts.Store = &faultyStore{Store: f.store, onScan: func(n int64) error {
			if n == 1+at*5 {
				return os.RemoveAll(f.temp)
			}
			return nil
		}}
		_, err := Run(f.ctx, opts, spec)
		if err != nil {
			require.ErrorIs(t, err, os.ErrNotExist)
			failed++
			opts.Store = f.store
			_, err = Run(f.ctx, opts, spec)
			require.NoError(t, err)
		}
		f.requireLoaded(40_000, spec.TS, idx)
		require.Equal(t, ingest.Usage{}, nothingInUse(opts.Resources))
		f.requireNoTempFiles()
		f.dropIndex(idx)
	}
	require.Positive(t, failed)
}
