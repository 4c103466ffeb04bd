package backfill

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/kv"
)

// TestRowsLostByTheBuildsScanAreMissed: what the scan of a build has lost is lost for
// its index, unique or not, and the build must not call that right: what it expects in
// the index must come from a reading of its own, at least the number of rows by keys
// alone.
func TestRowsLostByTheBuildsScanAreMissed(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(5000)
	opts := f.options()
	opts.Store, opts.BatchRows = &backfilltest.LosingStore{Store: f.Store, Batch: 2}, 100
	_, err := Run(f.Ctx, opts, Spec{Task: f.task(backfilltest.IndexOn(9, false, 1))})
	var lost *execution.RowCountError
	require.ErrorAs(t, err, &lost)

	opts.Store = tellingStore{opts.Store, f.Store}
	_, err = Run(f.Ctx, opts, Spec{Task: f.task(backfilltest.IndexOn(10, true, 0)), Compared: true})
	require.ErrorAs(t, err, &lost, "compared, but only where something has changed")
}

// tellingStore knows whether anything has changed.
type tellingStore struct {
	kv.Store
	kv.ChangeFinder
}

// TestMiscountsAreBuiltOnceMore: where a store has read other rows than it returned, all is built once more. So it is where it has
// taken other entries than it was sent, each time that these are sent. If that shows again, the build fails.
func TestMiscountsAreBuiltOnceMore(t *testing.T) {
	for name, miscount := range map[string]struct{ scan, imported error }{
		"rows":    {scan: &kv.ScanCountError{Rows: 1, Visited: 2}},
		"entries": {imported: &kv.ImportAccountError{Problem: "injected"}},
	} {
		table, kinds := backfilltest.PlainTable()
		f := newFixture(t, table, kinds)
		f.Load(500)
		opts := f.options()
		for times, id := range map[int32]int64{1: 9, 1000: 10} {
			store := &miscountingStore{Store: f.Store, scan: miscount.scan, imported: miscount.imported}
			store.left.Store(times)
			opts.Store = store
			result, err := Run(f.Ctx, opts, f.spec(backfilltest.IndexOn(id, false, 1)))
			require.Equal(t, times > 1 || miscount.scan != nil, result.Rebuilt, name)
			if times == 1 {
				require.NoError(t, err, name)
				require.EqualValues(t, 500, result.Entries, name)
			} else {
				require.ErrorIs(t, err, cmp.Or(miscount.scan, miscount.imported), name)
			}
		}
	}
}

// miscountingStore fails some scans, or imports.
type miscountingStore struct {
	kv.Store
	scan, imported error
	left           atomic.Int32
}

func (s *miscountingStore) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	if s.scan != nil && s.left.Add(-1) >= 0 {
		return fmt.Errorf("scan: %w", s.scan)
	}
	return s.Store.ScanColumns(ctx, req, fn)
}

func (s *miscountingStore) Import(ctx context.Context, units []kv.ImportUnit) error {
	if s.imported != nil && s.left.Add(-1) >= 0 {
		return fmt.Errorf("import: %w", s.imported)
	}
	return s.Store.Import(ctx, units)
}

// TestRowsAreCountedBeforeTheImport: the rows at S do not depend on what is imported, so counting them
// does not wait for that. The import here waits until some are counted.
func TestRowsAreCountedBeforeTheImport(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(5000)
	opts := f.options()
	store := &countingStore{Store: f.Store, counted: make(chan struct{}), importsWait: true}
	opts.Store = store
	result, err := Run(f.Ctx, opts, f.spec(backfilltest.IndexOn(9, false, 1)))
	require.NoError(t, err)
	require.EqualValues(t, 5000, result.Rows)
	require.Positive(t, store.imports.Load())
	require.False(t, store.timedOut.Load(), "nothing was counted before the import")
}

// TestRowsAreCountedWhereTheyWereScanned: a range is counted while its blocks are still in memory, before
// anything is imported, and no key is counted twice.
func TestRowsAreCountedWhereTheyWereScanned(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(5000)
	opts := f.options()
	opts.TaskBytes, opts.BatchRows = 4<<10, 32
	store := &countingStore{Store: f.Store, counted: make(chan struct{})}
	opts.Store = store
	_, err := Run(f.Ctx, opts, f.spec(backfilltest.IndexOn(9, false, 1)))
	require.NoError(t, err)
	rows := kv.KeyRange{
		Start: tablecodec.EncodeRowKeyWithHandle(table.ID, tidbkv.IntHandle(1)),
		End:   tablecodec.EncodeRowKeyWithHandle(table.ID, tidbkv.IntHandle(5001)),
	}
	require.Greater(t, len(store.atImport), 1)
	left, _ := keyrange.Without([]kv.KeyRange{rows}, store.atImport)
	require.Empty(t, left, "rows that are counted after the scan")
	f.requireOnce(store.ranges)
}

// TestResumedBuildCountsEverything: no checkpoint holds what was counted before a crash.
func TestResumedBuildCountsEverything(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(2000)
	opts := f.options()
	opts.TaskBytes, opts.BatchRows, opts.CheckpointInterval = 4<<10, 32, time.Nanosecond
	spec := f.spec(backfilltest.IndexOn(9, false, 1))
	ctx, cancel := context.WithCancel(f.Ctx)
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
		spec.Checkpoint = data
		if cp, err := decodeCheckpoint(data, &spec.Task); err != nil || cp.Rows > 0 {
			cancel()
			return err
		}
		return nil
	}
	_, err := Run(ctx, opts, spec)
	require.ErrorIs(t, err, context.Canceled)

	store := &countingStore{Store: f.Store, counted: make(chan struct{})}
	opts.Store, opts.SaveCheckpoint, opts.CheckpointInterval = store, nil, 0
	result, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	require.EqualValues(t, 2000, result.Rows)
	f.requireOnce(store.ranges)
}

// TestEveryRowIsCounted: the count is that of all rows, regardless of what was counted beside the scan, and
// how often. A range that no scan has ever been given is found by that.
func TestEveryRowIsCounted(t *testing.T) {
	rng := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(500)
	whole := encode.RecordRange(table.ID)
	cut := func() []byte { return tablecodec.EncodeRowKeyWithHandle(table.ID, tidbkv.IntHandle(rng.Int64N(600))) }
	for range 200 {
		b, err := newBuild(f.options(), f.spec(backfilltest.IndexOn(9, false, 1)))
		require.NoError(t, err)
		b.counts = true
		require.NoError(t, b.Execute(f.Ctx, b.shareOptions(), func(ctx context.Context) error {
			require.NoError(t, b.countBeside(ctx, new(checkpoint)))
			for range rng.IntN(5) {
				r := kv.KeyRange{Start: cut(), End: cut()}
				switch rng.IntN(6) {
				case 0:
					r.Start = whole.Start
				case 1:
					r.End = whole.End
				}
				if !r.Empty() {
					require.NoError(t, b.count.scanned(ctx, r))
				}
			}
			c, err := b.planCount(ctx, 500)
			require.NoError(t, err)
			for more := true; more; {
				more, err = c.step(ctx)
				require.NoError(t, err)
			}
			require.EqualValues(t, 500, c.keys.Load())
			return b.endCount()
		}))
	}
}

// TestComparedRowsAreCountedOnce: rows that are compared with the indexes are counted there, which
// finds what a scan has lost as well; a build whose rows will be compared leaves it at that.
func TestComparedRowsAreCountedOnce(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(5000)
	opts := f.options()
	store := &countingStore{Store: f.Store, counted: make(chan struct{})}
	opts.Store = store
	idx := backfilltest.IndexOn(9, true, 0)
	spec := f.spec(idx)
	spec.Compared = true
	built, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	require.False(t, built.Counted)
	require.Zero(t, store.counts.Load(), "the build has counted")
	f.requireCountedOnce(store, func() compare.Result { return f.compareWith(opts.Common(), compare.Verified{}, idx) })
}

// TestRowsAreCountedForTheComparison: a comparison of what has changed since the build does not read
// the other rows, so that the build has counted them. One of everything counts them itself, where it
// has just read them.
func TestRowsAreCountedForTheComparison(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(5000)
	opts := f.options()
	opts.TaskBytes, opts.BatchRows = 4<<10, 32
	store := &countingStore{Store: f.Store, counted: make(chan struct{})}
	opts.Store = tellingStore{store, f.Store}
	idx := backfilltest.IndexOn(9, true, 0)
	spec := f.spec(idx)
	spec.Compared = true
	var built Result
	f.requireCountedOnce(store, func() compare.Result {
		var err error
		built, err = Run(f.Ctx, opts, spec)
		require.NoError(t, err)
		return f.compareWith(opts.Common(), compare.Verified{TS: spec.TS}, idx)
	})
	require.True(t, built.Counted)

	f.requireCountedOnce(store, func() compare.Result { return f.compareWith(opts.Common(), compare.Verified{}, idx) })
}

// requireCountedOnce fails if there are records that compare, which finds nothing, does not have
// counted, or twice.
func (f *fixture) requireCountedOnce(store *countingStore, compare func() compare.Result) {
	f.T.Helper()
	store.mu.Lock()
	store.ranges = nil
	store.mu.Unlock()
	result := compare()
	require.True(f.T, result.Clean())
	f.requireOnce(store.ranges)
}

// requireOnce fails if there are records in none of ranges, or in two.
func (f *fixture) requireOnce(ranges []kv.KeyRange) {
	f.T.Helper()
	left, once := keyrange.Without([]kv.KeyRange{encode.RecordRange(f.Table.ID)}, ranges)
	require.True(f.T, once)
	require.Empty(f.T, left)
}

// TestFailedCountEndsTheBuild: what is wrong with the counting beside the import is the build's error, and
// nothing of it goes on when the build has returned.
func TestFailedCountEndsTheBuild(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(5000)
	opts := f.options()
	store := &countingStore{Store: f.Store, counted: make(chan struct{}), importsWait: true, err: backfilltest.ErrInjected}
	opts.Store = store
	_, err := Run(f.Ctx, opts, f.spec(backfilltest.IndexOn(9, false, 1)))
	require.ErrorIs(t, err, backfilltest.ErrInjected)
	require.Zero(t, store.open.Load(), "snapshots are open")
}

// countingStore knows which counts and imports there were.
type countingStore struct {
	kv.Store
	importsWait bool  // until a count has ended
	err         error // of the first count
	once        sync.Once
	counted     chan struct{}
	counts      atomic.Int64
	imports     atomic.Int64

	mu sync.Mutex
	// ranges were counted, atImport before the first import began.
	ranges, atImport []kv.KeyRange

	timedOut atomic.Bool
	open     atomic.Int64 // snapshots
}

func (s *countingStore) Snapshot(ctx context.Context, ts uint64) (kv.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx, ts)
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &countingSnapshot{snap, s}, nil
}

func (s *countingStore) Import(ctx context.Context, units []kv.ImportUnit) error {
	if s.imports.Add(1) == 1 {
		s.mu.Lock()
		s.atImport = slices.Clone(s.ranges)
		s.mu.Unlock()
	}
	if s.importsWait {
		select {
		case <-s.counted:
		case <-time.After(time.Minute):
			s.timedOut.Store(true)
		}
	}
	return s.Store.Import(ctx, units)
}

type countingSnapshot struct {
	kv.Snapshot
	store *countingStore
}

func (s *countingSnapshot) Count(ctx context.Context, r kv.KeyRange) (int64, error) {
	n := s.store.counts.Add(1)
	s.store.mu.Lock()
	s.store.ranges = append(s.store.ranges, r)
	s.store.mu.Unlock()
	defer s.store.once.Do(func() { close(s.store.counted) })
	if n == 1 && s.store.err != nil {
		return 0, s.store.err
	}
	return s.Snapshot.Count(ctx, r)
}

func (s *countingSnapshot) Close() error {
	s.store.open.Add(-1)
	return s.Snapshot.Close()
}
