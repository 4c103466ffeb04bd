package pebblekv

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/internal/memory"
)

// diskUsed is what the files of a folder occupy, which is not their size.
func diskUsed(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	}))
	return bytes
}

// TestSmallStoreTakesLittleDisk: the first memtables are small, so that a store has several logs when it holds next to nothing.
func TestSmallStoreTakesLittleDisk(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{MemTableBytes: memory.Divide(16 << 30).MemTable})
	value := string(make([]byte, 100<<10))
	for i := range 40 {
		put(t, s, fmt.Sprintf("key%d", i), value)
		require.Less(t, diskUsed(t, dir), int64(100<<20), "after %d KiB", 100*i)
	}
	require.NoError(t, s.Close())
	require.Less(t, diskUsed(t, dir), int64(100<<20))
}

// preallocations notes what a log was given.
type preallocations struct {
	vfs.File
	ends []int64
}

func (p *preallocations) Preallocate(offset, length int64) error {
	p.ends = append(p.ends, offset+length)
	return nil
}

func (p *preallocations) Write(b []byte) (int, error) { return len(b), nil }

// TestLogsArePreallocatedAsTheyGrow: always ahead of what is written, up to double of it, and to no more than was
// requested.
func TestLogsArePreallocatedAsTheyGrow(t *testing.T) {
	const wanted, step = 70 << 20, 100 << 10
	under := &preallocations{}
	f := &engineFile{File: under, fs: &engineFS{space: &spaceMonitor{}}, category: categoryLog}
	chunk := make([]byte, step)
	for written := int64(0); written < wanted; written += step {
		_, err := f.Write(chunk)
		require.NoError(t, err)
		if written == 0 {
			require.Empty(t, under.ends, "nothing was asked for")
			require.NoError(t, f.Preallocate(0, wanted))
		}
		got := under.ends[len(under.ends)-1]
		require.GreaterOrEqual(t, got, min(written+step, wanted))
		require.LessOrEqual(t, got, max(2*(written+step), firstPreallocation))
	}
	require.EqualValues(t, wanted, under.ends[len(under.ends)-1])
	require.Less(t, len(under.ends), 10)
}
