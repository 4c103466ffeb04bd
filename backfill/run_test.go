package backfill

import (
	"context"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/encode"
	"fastddl/config"
	"fastddl/ingest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// Started by packages of TiDB when they are imported.
		goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
		goleak.IgnoreTopFunction("github.com/tikv/client-go/v2/txnkv/transaction.keepAlive"),
	)
}

// smallMemory makes workers spill after about a mebibyte.
func smallMemory(t testing.TB) *config.Globals {
	g := config.NewGlobals()
	set(t, g, config.MemoryQuota, "1")
	return g
}

func set(t testing.TB, g *config.Globals, name, value string) {
	_, _, err := g.Set(name, value)
	require.NoError(t, err)
}

func TestRunBuildsWhatTheLibraryWould(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(12) {
		table, idx, kinds := backfilltest.RandomTable(r)
		f := newFixture(t, table, kinds)
		for range r.IntN(4) {
			f.Insert(r, 1+r.IntN(2000))
		}
		second := backfilltest.RandomIndex(r, table, kinds, 8)
		idx.Unique, second.Unique = false, false
		what := backfilltest.Describe(table, idx, kinds) + " and " + backfilltest.Describe(table, second, kinds)

		spec := f.spec(idx, second)
		res, err := Run(f.Ctx, f.options(), spec)
		require.NoError(t, err, what)
		require.EqualValues(t, len(f.Rows), res.Rows)
		require.EqualValues(t, 2*len(f.Rows), res.Entries)
		f.RequireIndex(idx, spec.TS, what)
		f.RequireIndex(second, spec.TS, what)
		f.RequireNoTempFiles()
	}
}

// TestRunInManyRuns builds an index far larger than its memory, with many
// sorted runs in the temp folder.
func TestRunInManyRuns(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(60_000)
	opts := f.options()
	opts.Globals = smallMemory(t)
	idx, wide := backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, false, 2, 1)
	spec := f.spec(idx, wide)

	res, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	require.Greater(t, res.Stages.Spill.WallSeconds, 0.0)
	require.EqualValues(t, 120_000, res.Entries)
	require.Greater(t, res.PeakTempBytes, int64(5<<20))
	require.Equal(t, 1, res.Flushes)
	f.RequireLoaded(60_000, spec.TS, idx, wide)
	f.RequireNoTempFiles()
}

// TestRunUnderDiskQuota: at the quota what is there is imported, and the temp
// folder never exceeds it, as measured on the disk.
func TestRunUnderDiskQuota(t *testing.T) {
	rows := 150_000
	if testing.Short() {
		rows = 80_000
	}
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(rows)
	opts := f.options()
	opts.Globals = smallMemory(t)
	set(t, opts.Globals, config.DiskQuota, "1") // raised to the least there is
	quota := opts.Globals.Int(config.DiskQuota)
	opts.Resources = ingest.NewResources(opts.Globals, 0)
	idx := backfilltest.IndexOn(9, false, 2)
	spec := f.spec(idx)

	var checkpoints int // of flushes; those of a slow verification come on top
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
		cp, err := decodeCheckpoint(data, &spec.Task)
		if err == nil && cp.Verify == nil {
			checkpoints++
		}
		return err
	}
	stop, greatest := watchFolder(f.Temp)
	res, err := Run(f.Ctx, opts, spec)
	stop()
	require.NoError(t, err)
	require.Greater(t, res.Flushes, 1)
	require.Equal(t, res.Flushes, checkpoints)
	require.LessOrEqual(t, res.PeakTempBytes, quota)
	require.LessOrEqual(t, greatest(), quota)
	require.Zero(t, opts.Resources.Usage().TempBytes)
	require.Zero(t, opts.Resources.Usage().MemoryBytes)
	f.RequireLoaded(rows, spec.TS, idx)
	f.RequireNoTempFiles()
}

// watchFolder measures the bytes in a folder until stop is called.
func watchFolder(dir string) (stop func(), greatest func() int64) {
	var most atomic.Int64
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-quit:
				return
			case <-time.After(2 * time.Millisecond):
				most.Store(max(most.Load(), folderSize(dir)))
			}
		}
	}()
	return func() { close(quit); <-ended }, most.Load
}

func folderSize(dir string) int64 {
	var sum int64
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if e.IsDir() {
			sum += folderSize(dir + "/" + e.Name())
		} else if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

func TestRunOnEmptyTable(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	idx := backfilltest.IndexOn(9, true, 1)
	res, err := Run(f.Ctx, f.options(), f.spec(idx))
	require.NoError(t, err)
	require.Zero(t, res.Entries)
	f.RequireNoTempFiles()
}

func TestBadInputIsRefused(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	idx := backfilltest.IndexOn(9, false, 1)

	_, err := Run(f.Ctx, Options{}, Spec{})
	for _, text := range []string{"Store is missing", "TempDir is missing", "Table is missing", "Indexes is empty", "TS is missing"} {
		require.ErrorContains(t, err, text)
	}

	virtual := *table
	virtual.Columns = slices.Clone(table.Columns)
	hidden := *table.Columns[1]
	hidden.GeneratedExprString, hidden.GeneratedStored = "k + 1", false
	virtual.Columns[1] = &hidden
	withVirtual := f.spec(idx)
	withVirtual.Table = &virtual
	_, err = Run(f.Ctx, f.options(), withVirtual)
	require.ErrorContains(t, err, "expressions of table")

	vector := backfilltest.IndexOn(9, false, 1)
	vector.VectorInfo = &model.VectorIndexInfo{}
	_, err = Run(f.Ctx, f.options(), f.spec(vector))
	require.ErrorIs(t, err, encode.ErrUnsupported)

	opts := f.options()
	opts.TempDir = "/dev/null/temp"
	f.Put(1, 1)
	_, err = Run(f.Ctx, opts, f.spec(idx))
	require.ErrorContains(t, err, "temp folder")
}
