package backfill

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/bench/floor"
	"fastddl/config"
)

var (
	benchRows   = flag.Int("rows", 200_000, "rows of the table in BenchmarkRun")
	benchColumn = flag.Int("column", 1, "column that BenchmarkRun indexes: 1 is k, 2 is c")
	benchBatch  = flag.Int("batch", 0, "rows of a batch in BenchmarkRun; 0 is the default")
	benchMemory = flag.String("memory", "0", "fastddl_ddl_memory_quota in BenchmarkRun")
	benchDisk   = flag.String("disk", "100GiB", "tidb_ddl_disk_quota in BenchmarkRun")
)

// BenchmarkRun builds the index on k of a sysbench table, and measures the floor
// beside it.
func BenchmarkRun(b *testing.B) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(b, table, kinds)
	f.Load(*benchRows)
	idx := backfilltest.IndexOn(9, false, *benchColumn)
	opts := f.options()
	opts.Globals, opts.BatchRows = config.NewGlobals(), *benchBatch
	set(b, opts.Globals, config.MemoryQuota, *benchMemory)
	set(b, opts.Globals, config.DiskQuota, *benchDisk)
	for b.Loop() {
		spec := f.spec(idx)
		res, err := Run(f.Ctx, opts, spec)
		require.NoError(b, err)
		least, err := floor.Measure(f.Ctx, f.Store, b.TempDir(), f.Table, idx)
		require.NoError(b, err)
		text, err := json.Marshal(res)
		require.NoError(b, err)
		fmt.Printf("%s\nfloor %+v\nratio %.2f\n", text, least, res.WallSeconds/least.Seconds)
		b.ReportMetric(float64(res.Rows)/res.WallSeconds, "rows/s")
		b.ReportMetric(res.WallSeconds/least.Seconds, "x-floor")
		b.StopTimer()
		f.DropIndex(idx)
		b.StartTimer()
	}
}
