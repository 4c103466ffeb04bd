package blackbox

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// diskUsed is what the files of a folder occupy, which is not their size.
func diskUsed(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	}))
	return bytes
}

func TestEmptyStoreTakesLittleDisk(t *testing.T) {
	randtest.SkipShort(t)
	dir := t.TempDir()
	// The engine makes its logs as large as its memtables, which are largest where there is much memory.
	n := startNodeAsIs(t, dir, "--memory-limit", "16GiB")
	require.Less(t, diskUsed(t, dir), int64(100<<20), "while it runs")
	require.Zero(t, n.terminate())
	require.Less(t, diskUsed(t, dir), int64(100<<20), "when it has ended")
}
