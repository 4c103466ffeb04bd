package backfill

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/stretchr/testify/require"

	tkv "github.com/pingcap/tidb/pkg/kv"

	"fastddl/bench/floor"
	"fastddl/config"
	"fastddl/sbtest"
)

var (
	benchRows   = flag.Int("rows", 200_000, "rows of the table in BenchmarkRun")
	benchColumn = flag.Int("column", 1, "column that BenchmarkRun indexes: 1 is k, 2 is c")
	benchBatch  = flag.Int("batch", 0, "rows of a batch in BenchmarkRun; 0 is the default")
	benchMemory = flag.String("memory", "0", "fastddl_ddl_memory_quota in BenchmarkRun")
	benchDisk   = flag.String("disk", "100GiB", "tidb_ddl_disk_quota in BenchmarkRun")
)

// load fills the table with n rows of sysbench's, flushed to files.
func (f *fixture) load(n int) {
	enc := rowcodec.Encoder{Enable: true}
	rows := sbtest.Generator{Rows: n, Seed: 1}
	for block := range rows.Blocks() {
		var c changes
		for r := range rows.Block(block) {
			row := []types.Datum{types.NewIntDatum(r.K), types.NewStringDatum(string(r.C)), types.NewStringDatum(string(r.Pad))}
			value, err := tablecodec.EncodeRow(time.UTC, row, []int64{2, 3, 4}, nil, nil, rowcodec.NoChecksum{}, &enc)
			require.NoError(f.t, err)
			c.put(tablecodec.EncodeRowKeyWithHandle(f.table.ID, tkv.IntHandle(r.ID)), value)
		}
		f.commit(c)
	}
}

// BenchmarkRun builds the index on k of a sysbench table, and measures the floor
// beside it.
func BenchmarkRun(b *testing.B) {
	table, kinds := plainTable()
	f := newFixture(b, table, kinds)
	f.load(*benchRows)
	idx := indexOn(9, false, *benchColumn)
	opts := f.options()
	opts.Globals, opts.BatchRows = config.NewGlobals(), *benchBatch
	set(b, opts.Globals, config.MemoryQuota, *benchMemory)
	set(b, opts.Globals, config.DiskQuota, *benchDisk)
	for b.Loop() {
		spec := f.spec(idx)
		res, err := Run(f.ctx, opts, spec)
		require.NoError(b, err)
		least, err := floor.Measure(f.ctx, f.store, b.TempDir(), f.table, idx)
		require.NoError(b, err)
		text, err := json.Marshal(res)
		require.NoError(b, err)
		fmt.Printf("%s\nfloor %+v\nratio %.2f\n", text, least, res.WallSeconds/least.Seconds)
		b.ReportMetric(float64(res.Rows)/res.WallSeconds, "rows/s")
		b.ReportMetric(res.WallSeconds/least.Seconds, "x-floor")
		b.StopTimer()
		f.dropIndex(idx)
		b.StartTimer()
	}
}
