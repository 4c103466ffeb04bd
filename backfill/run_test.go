package backfill

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
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
	r := newRand(t)
	for range 12 {
		table, idx, kinds := randomTable(r)
		f := newFixture(t, table, kinds)
		for range r.IntN(4) {
			f.insert(r, 1+r.IntN(2000))
		}
		second := randomIndex(r, table, kinds, 8)
		idx.Unique, second.Unique = false, false
		what := describe(table, idx, kinds) + " and " + describe(table, second, kinds)

		spec := f.spec(idx, second)
		res, err := Run(f.ctx, f.options(), spec)
		require.NoError(t, err, what)
		require.EqualValues(t, len(f.rows), res.Rows)
		require.EqualValues(t, 2*len(f.rows), res.Entries)
		f.requireIndex(idx, spec.TS, what)
		f.requireIndex(second, spec.TS, what)
		f.requireNoTempFiles()
	}
}

// TestRunInManyRuns builds an index far larger than its memory, with many
// sorted runs in the temp folder.
func TestRunInManyRuns(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(60_000)
	opts := f.options()
	opts.Globals = smallMemory(t)
	idx, wide := indexOn(9, false, 1), indexOn(10, false, 2, 1)
	spec := f.spec(idx, wide)

	res, err := Run(f.ctx, opts, spec)
	require.NoError(t, err)
	require.Greater(t, res.Stages.Spill.WallSeconds, 0.0)
	require.EqualValues(t, 120_000, res.Entries)
	require.Greater(t, res.PeakTempBytes, int64(5<<20))
	require.Equal(t, 1, res.Flushes)
	f.requireLoaded(60_000, spec.TS, idx, wide)
	f.requireNoTempFiles()
}

// TestRunUnderDiskQuota: at the quota what is there is imported, and the temp
// folder never exceeds it, as measured on the disk.
func TestRunUnderDiskQuota(t *testing.T) {
	const rows = 150_000
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(rows)
	opts := f.options()
	opts.Globals = smallMemory(t)
	set(t, opts.Globals, config.DiskQuota, "1") // raised to the least there is
	quota := opts.Globals.Int(config.DiskQuota)
	opts.Resources = ingest.NewResources(opts.Globals)
	idx := indexOn(9, false, 2)
	spec := f.spec(idx)

	var checkpoints int
	opts.SaveCheckpoint = func(context.Context, []byte) error { checkpoints++; return nil }
	stop, greatest := watchFolder(f.temp)
	res, err := Run(f.ctx, opts, spec)
	stop()
	require.NoError(t, err)
	require.Greater(t, res.Flushes, 2)
	require.Equal(t, res.Flushes, checkpoints)
	require.LessOrEqual(t, res.PeakTempBytes, quota)
	require.LessOrEqual(t, greatest(), quota)
	require.Zero(t, opts.Resources.Usage().TempBytes)
	require.Zero(t, opts.Resources.Usage().MemoryBytes)
	f.requireLoaded(rows, spec.TS, idx)
	f.requireNoTempFiles()
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

// faultyStore fails operations on demand.
type faultyStore struct {
	kv.Store
	onImport func(n int64) error // before the n-th import
	onScan   func(n int64) error // before the n-th batch
	skip     func(n int64) bool  // leaves the n-th imported pair out
	imports  atomic.Int64
	batches  atomic.Int64
	pairs    atomic.Int64
}

func (s *faultyStore) Import(ctx context.Context, units []kv.ImportUnit) error {
	if s.onImport != nil {
		if err := s.onImport(s.imports.Add(1)); err != nil {
			return err
		}
	}
	return s.Store.Import(ctx, units)
}

func (s *faultyStore) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	return s.Store.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		if s.onScan != nil {
			if err := s.onScan(s.batches.Add(1)); err != nil {
				return err
			}
		}
		return fn(b)
	})
}

func (s *faultyStore) NewImportWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	w, err := s.Store.NewImportWriter(ctx, opts)
	if err != nil || s.skip == nil {
		return w, err
	}
	return &skippingWriter{w, s}, nil
}

type skippingWriter struct {
	kv.ImportWriter
	s *faultyStore
}

func (w *skippingWriter) Add(key, value []byte) error {
	if w.s.skip(w.s.pairs.Add(1)) {
		return nil
	}
	return w.ImportWriter.Add(key, value)
}

var errInjected = errors.New("injected")

// TestResumeFromEveryCheckpoint fails a build after each number of imports and
// each number of batches, and lets it go on from the last checkpoint.
func TestResumeFromEveryCheckpoint(t *testing.T) {
	r := newRand(t)
	for _, kind := range []string{"import", "scan", "checkpoint"} {
		t.Run(kind, func(t *testing.T) {
			table, kinds := plainTable()
			idx := indexOn(9, false, 2, 1)
			f := newFixture(t, table, kinds)
			f.insert(r, 3000)
			spec := f.spec(idx)
			failures := 0
			var saved []byte
			var lastRows int64
			for fail := int64(1); ; fail++ {
				store := &faultyStore{Store: f.store}
				failing := func(n int64) error {
					if n == (fail-1)%5+1 {
						return errInjected
					}
					return nil
				}
				store.onScan = func(int64) error {
					time.Sleep(time.Millisecond) // so that the checkpoint interval passes
					return nil
				}
				opts := f.options()
				opts.Store, opts.BatchRows, opts.CheckpointInterval = store, 64, time.Millisecond
				saves := int64(0)
				opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
					if saves++; kind == "checkpoint" {
						if err := failing(saves); err != nil {
							return err
						}
					}
					saved = slices.Clone(data)
					return nil
				}
				switch kind {
				case "import":
					// An import that fails once is retried; a closed store is not.
					store.onImport = func(n int64) error {
						if failing(n) != nil {
							return kv.ErrClosed
						}
						return nil
					}
				case "scan":
					store.onScan = func(n int64) error {
						time.Sleep(time.Millisecond)
						return failing(n)
					}
				}
				spec.Checkpoint = saved
				res, err := Run(f.ctx, opts, spec)
				f.requireNoTempFiles()
				require.GreaterOrEqual(t, res.Rows, lastRows, "progress that was durable is lost")
				if cp, err := decodeCheckpoint(saved, &spec); err == nil && cp != nil {
					lastRows = cp.Rows
				}
				if err == nil {
					require.EqualValues(t, len(f.rows), res.Entries)
					break
				}
				failures++
				require.Less(t, failures, 1000)
				if !errors.Is(err, kv.ErrClosed) {
					require.ErrorIs(t, err, errInjected)
				}
			}
			require.Positive(t, failures)
			f.requireIndex(idx, spec.TS, describe(table, idx, kinds))
		})
	}
}

// TestCancelLeavesNothing cancels builds at random times.
func TestCancelLeavesNothing(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(30_000)
	idx := indexOn(9, false, 2)
	cancelled := 0
	for range 25 {
		opts := f.options()
		opts.Globals = smallMemory(t)
		opts.Resources = ingest.NewResources(opts.Globals)
		if r.IntN(2) == 0 {
			opts.CheckpointInterval = time.Duration(1 + r.IntN(20_000_000))
		}
		if r.IntN(3) == 0 {
			set(t, opts.Globals, config.ReorgMaxWriteSpeed, "100000")
		}
		ctx, cancel := context.WithTimeout(f.ctx, time.Duration(r.IntN(120))*time.Millisecond)
		_, err := Run(ctx, opts, f.spec(idx))
		deadline, _ := ctx.Deadline()
		require.Less(t, time.Since(deadline), time.Second)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancelled++
		}
		f.requireNoTempFiles()
		require.Zero(t, opts.Resources.Usage().Jobs)
		require.Zero(t, opts.Resources.Usage().MemoryBytes)
		require.Zero(t, opts.Resources.Usage().TempBytes)
	}
	require.Positive(t, cancelled)
}

// TestConcurrentWritesShadowTheBuild: entries that are written or deleted after
// S while the index is built are seen by later snapshots, those at S by none.
func TestConcurrentWritesShadowTheBuild(t *testing.T) {
	r := newRand(t)
	table, idx, kinds := randomTable(r)
	idx.Unique = false
	f := newFixture(t, table, kinds)
	f.insert(r, 4000)
	spec := f.spec(idx)
	atS := cloneRows(f.rows)

	// The first writes come before the build, the others while it runs.
	done := make(chan struct{})
	var wg sync.WaitGroup
	f.mutate(r, idx, 300)
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				f.mutate(r, idx, 20)
			}
		}
	})
	opts := f.options()
	opts.BatchRows, opts.CheckpointInterval = 32, 3*time.Millisecond
	_, err := Run(f.ctx, opts, spec)
	close(done)
	wg.Wait()
	require.NoError(t, err)

	after := f.ts()
	f.requireIndex(idx, after, "after the build")
	f.rows = atS
	f.requireIndex(idx, spec.TS, "at S")
}

// mutate changes n random rows as DML does while an index is in the
// write-reorganization state: with a tombstone for each entry that goes, there
// or not.
func (f *fixture) mutate(r *rand.Rand, idx *model.IndexInfo, n int) {
	txn, err := f.store.Begin(f.ctx)
	require.NoError(f.t, err)
	for range n {
		switch r.IntN(3) {
		case 0:
			f.next++
			values := randomRow(r, f.table, f.kinds)
			h := rowHandle(f.t, f.table, values, f.next+1<<20)
			f.putRow(txn, idx, fixtureRow{h, values})
		case 1:
			for _, row := range f.rows {
				f.deleteRow(txn, idx, row)
				break
			}
		case 2:
			for _, row := range f.rows {
				values := randomRow(r, f.table, f.kinds)
				for i, col := range f.table.Columns {
					if mysql.HasPriKeyFlag(col.GetFlag()) {
						values[i] = row.values[i]
					}
				}
				f.putRow(txn, idx, fixtureRow{row.handle, values})
				break
			}
		}
	}
	require.NoError(f.t, txn.Commit(f.ctx))
}

// putRow writes a row and its entry, in place of the row that has the handle.
func (f *fixture) putRow(txn kv.Txn, idx *model.IndexInfo, row fixtureRow) {
	key := f.recordKey(row)
	if old, ok := f.rows[key]; ok {
		f.deleteRow(txn, idx, old)
	}
	require.NoError(f.t, txn.Set([]byte(key), f.encodeRow(row.values)))
	k, v, _ := libraryEntry(f.t, f.table, idx, row.values, row.handle)
	require.NoError(f.t, txn.Set(k, v, kv.NoConflictCheck))
	f.rows[key] = row
}

func (f *fixture) deleteRow(txn kv.Txn, idx *model.IndexInfo, row fixtureRow) {
	key := f.recordKey(row)
	require.NoError(f.t, txn.Delete([]byte(key)))
	k, _, _ := libraryEntry(f.t, f.table, idx, row.values, row.handle)
	require.NoError(f.t, txn.Delete(k, kv.NoConflictCheck))
	delete(f.rows, key)
}

func TestDamageIsRepairedOnceAndThenReported(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(r, 2000)
	idx := indexOn(9, false, 1)

	store := &faultyStore{Store: f.store}
	opts := f.options()
	opts.Store = store
	var retries []event.Retry
	opts.Bus = &event.Bus{}
	opts.Bus.Subscribe(func(e event.Event) {
		if retry, ok := e.(event.Retry); ok {
			retries = append(retries, retry)
		}
	})
	count := int64(len(f.rows))
	store.skip = func(n int64) bool { return n == 70 }
	spec := f.spec(idx)
	res, err := Run(f.ctx, opts, spec)
	require.NoError(t, err)
	require.True(t, res.Rebuilt)
	require.Len(t, retries, 1)
	require.Equal(t, count, res.Entries)
	f.requireIndex(idx, spec.TS, "rebuilt")

	f.dropIndex(idx)
	store.pairs.Store(0)
	store.skip = func(n int64) bool { return n%count == 70 }
	_, err = Run(f.ctx, opts, f.spec(idx))
	var mismatch *MismatchError
	require.ErrorAs(t, err, &mismatch)
	require.ErrorContains(t, err, "after rebuilding once")
	require.Equal(t, mismatch.Want.Entries, mismatch.Got.Entries+1)
	f.requireNoTempFiles()
}

// TestForeignEntryIsReported: an entry that no row has is not repaired by
// building again, and must not go unnoticed.
func TestForeignEntryIsReported(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(r, 100)
	idx := indexOn(9, false, 1)
	txn, err := f.store.Begin(f.ctx)
	require.NoError(t, err)
	require.NoError(t, txn.Set(append(indexPrefix(table.ID, idx.ID), 3, 1), []byte("0")))
	require.NoError(t, txn.Commit(f.ctx))

	var mismatch *MismatchError
	_, err = Run(f.ctx, f.options(), f.spec(idx))
	require.ErrorAs(t, err, &mismatch)
	require.EqualValues(t, len(f.rows)+1, mismatch.Got.Entries)
}

func TestUniqueIndex(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	idx := indexOn(9, true, 1)
	f.put(1, 10)
	f.put(2, nil) // NULLs are not equal
	f.put(3, nil)
	f.put(4, 11)
	spec := f.spec(idx)
	_, err := Run(f.ctx, f.options(), spec)
	require.NoError(t, err)
	f.requireIndex(idx, spec.TS, "unique")

	f.dropIndex(idx)
	f.put(5, 11)
	requireDuplicate := func(err error) {
		t.Helper()
		var dup *ingest.DuplicateError
		require.ErrorAs(t, err, &dup)
		require.EqualValues(t, 9, dup.IndexID)
		key, value, _ := libraryEntry(t, table, idx, f.rowWith(4).values, f.rowWith(4).handle)
		require.Equal(t, []byte(key), dup.Key)
		require.Contains(t, dup.Values[:], value)
		require.NotEqual(t, dup.Values[0], dup.Values[1])
		f.requireNoTempFiles()
	}
	_, err = Run(f.ctx, f.options(), f.spec(idx))
	requireDuplicate(err)
	f.dropIndex(idx)
	_, err = RunTransactional(f.ctx, f.options(), f.spec(idx))
	requireDuplicate(err)
	f.dropIndex(idx)

	// The two rows come with different imports.
	for id := int64(6); id < 2000; id++ {
		f.put(id, id+1000)
	}
	f.put(5000, 11)
	f.put(5, 12)
	opts := f.options()
	opts.BatchRows, opts.CheckpointInterval, opts.MaxWorkers = 64, time.Millisecond, 1
	store := &faultyStore{Store: f.store, onScan: func(int64) error { time.Sleep(time.Millisecond); return nil }}
	opts.Store = store
	res, err := Run(f.ctx, opts, f.spec(idx))
	requireDuplicate(err)
	require.Greater(t, res.Flushes, 2)
}

// put writes the row (id, k) of a plain table in a transaction of its own.
func (f *fixture) put(id int64, k any) {
	values := []types.Datum{types.NewIntDatum(id), types.NewDatum(k), types.NewStringDatum("c"), types.NewStringDatum("p")}
	txn, err := f.store.Begin(f.ctx)
	require.NoError(f.t, err)
	row := fixtureRow{rowHandle(f.t, f.table, values, 0), values}
	require.NoError(f.t, txn.Set([]byte(f.recordKey(row)), f.encodeRow(values)))
	require.NoError(f.t, txn.Commit(f.ctx))
	f.rows[f.recordKey(row)] = row
}

func (f *fixture) rowWith(id int64) fixtureRow {
	values := []types.Datum{types.NewIntDatum(id)}
	return f.rows[f.recordKey(fixtureRow{handle: rowHandle(f.t, f.table, values, 0)})]
}

// TestWorkersFollowTheVariable changes the number of workers while a build
// runs.
func TestWorkersFollowTheVariable(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(20_000)
	idx := indexOn(9, false, 1)
	spec := f.spec(idx)
	for name, run := range map[string]func(context.Context, Options, Spec) (Result, error){"fast": Run, "transactional": RunTransactional} {
		t.Run(name, func(t *testing.T) {
			defer f.dropIndex(idx)
			opts := f.options()
			opts.Globals, opts.MaxWorkers, opts.BatchRows = config.NewGlobals(), 16, 50
			store := &faultyStore{Store: f.store, onScan: func(int64) error { time.Sleep(200 * time.Microsecond); return nil }}
			opts.Store = store
			done := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					select {
					case <-done:
						return
					case <-time.After(time.Duration(r.IntN(5)) * time.Millisecond):
						set(t, opts.Globals, config.ReorgWorkerCount, strconv.Itoa(1+r.IntN(16)))
					}
				}
			})
			res, err := run(f.ctx, opts, spec)
			close(done)
			wg.Wait()
			require.NoError(t, err)
			require.EqualValues(t, 20_000, res.Rows)
			require.EqualValues(t, 20_000, res.Entries)
			f.requireLoaded(20_000, f.ts(), idx)
		})
	}
}

func TestProgressNeverGoesBack(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(40_000)
	idx := indexOn(9, false, 1)
	for name, run := range map[string]func(context.Context, Options, Spec) (Result, error){"fast": Run, "transactional": RunTransactional} {
		t.Run(name, func(t *testing.T) {
			defer f.dropIndex(idx)
			opts := f.options()
			opts.Bus = &event.Bus{}
			opts.Store = &faultyStore{Store: f.store, onScan: func(int64) error { time.Sleep(5 * time.Millisecond); return nil }}
			opts.BatchRows = 256
			var seen []event.Progress
			opts.Bus.Subscribe(func(e event.Event) {
				if p, ok := e.(event.Progress); ok {
					seen = append(seen, p)
				}
			})
			_, err := run(f.ctx, opts, f.spec(idx))
			require.NoError(t, err)
			require.Greater(t, len(seen), 1)
			last := seen[len(seen)-1]
			require.EqualValues(t, 40_000, last.RowsDone)
			require.EqualValues(t, 40_000, last.RowsTotal)
			var rows int64
			var fraction float64
			for _, p := range seen {
				require.GreaterOrEqual(t, p.RowsDone, rows)
				require.GreaterOrEqual(t, p.RowsTotal, p.RowsDone)
				if p.RowsTotal > 0 {
					now := float64(p.RowsDone) / float64(p.RowsTotal)
					require.GreaterOrEqual(t, now, fraction-0.001)
					fraction = now
				}
				rows = p.RowsDone
			}
		})
	}
}

func TestRunOnEmptyTable(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	idx := indexOn(9, true, 1)
	for _, run := range []func(context.Context, Options, Spec) (Result, error){Run, RunTransactional} {
		res, err := run(f.ctx, f.options(), f.spec(idx))
		require.NoError(t, err)
		require.Zero(t, res.Entries)
	}
	floor, err := MeasureFloor(f.ctx, f.store, t.TempDir(), f.spec(idx))
	require.NoError(t, err)
	require.Zero(t, floor.Rows)
	f.requireNoTempFiles()
}

func TestMeasureFloor(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(5000)
	dir := t.TempDir()
	floor, err := MeasureFloor(f.ctx, f.store, dir, f.spec(indexOn(9, false, 1), indexOn(10, false, 2)))
	require.NoError(t, err)
	require.EqualValues(t, 5000, floor.Rows)
	require.EqualValues(t, 10000, floor.Entries)
	require.Positive(t, floor.ScanCPUSeconds)
	require.Positive(t, floor.WriteCPUSeconds)
	require.Positive(t, floor.FileBytes)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestBadInputIsRefused(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	idx := indexOn(9, false, 1)

	_, err := Run(f.ctx, Options{}, Spec{})
	for _, text := range []string{"Store is missing", "TempDir is missing", "Table is missing", "Indexes is empty", "TS is missing"} {
		require.ErrorContains(t, err, text)
	}

	virtual := *table
	virtual.Columns = slices.Clone(table.Columns)
	hidden := *table.Columns[1]
	hidden.GeneratedExprString, hidden.GeneratedStored = "k + 1", false
	virtual.Columns[1] = &hidden
	spec := f.spec(idx)
	spec.Table = &virtual
	_, err = Run(f.ctx, f.options(), spec)
	require.ErrorIs(t, err, ErrUnsupported)

	multi := indexOn(9, false, 1)
	multi.MVIndex = true
	_, err = Run(f.ctx, f.options(), f.spec(multi))
	require.ErrorIs(t, err, ErrUnsupported)

	spec = f.spec(idx)
	spec.Checkpoint = []byte("{")
	_, err = Run(f.ctx, f.options(), spec)
	require.ErrorContains(t, err, "checkpoint of job 77")

	opts := f.options()
	opts.TempDir = "/dev/null/temp"
	f.put(1, 1)
	_, err = Run(f.ctx, opts, f.spec(idx))
	require.ErrorContains(t, err, "temp folder")
}
