package bench_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/bench"
)

// TestMemoryAndDiskBudget: with a table that is several times as large, the process
// keeps to its memory limit but for a fifth, and the temp folder to its quota.
func TestMemoryAndDiskBudget(t *testing.T) {
	if os.Getenv("FASTDDL_LONG") == "" {
		t.Skip("takes a minute and most of two processors: set FASTDDL_LONG=1, as make test-long does")
	}
	const limit, quota = 512 << 20, 64 << 20
	opts := bench.Default()
	opts.Rows, opts.Runs, opts.MemoryLimit, opts.DiskQuota = 10_000_000, 2, limit, quota
	r, err := bench.AddIndex(t.Context(), opts)
	require.NoError(t, err)
	for _, run := range r.Runs {
		t.Logf("%.1f s, %d MiB of memory, %d MiB of temp files, %d times imported", run.Seconds, run.PeakRSSBytes>>20, run.PeakTempBytes>>20, run.Backfill.Flushes)
		require.LessOrEqual(t, run.PeakRSSBytes, uint64(limit+limit/5))
		require.LessOrEqual(t, run.PeakTempBytes, int64(quota))
		require.Greater(t, run.Backfill.Flushes, 1)
	}
}
