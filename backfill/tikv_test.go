package backfill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/util/codec"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/ingest"
	"fastddl/kv"
	"fastddl/kv/embedded"
	"fastddl/kv/pebblekv"
	"fastddl/kv/tikv"
)

// spottedRows is how many rows a spot check looks up at each of its places.
const spottedRows = 2

// onTikv is the fixture's table behind the driver for TiKV clusters: an embedded store
// answers its requests in this process.
type onTikv struct {
	*fixture
	data  *embedded.Store
	store *tikv.Store
	// spotted are the keys of the rows that a build's spot check looks up: the first ones of each region.
	spotted map[string]bool
}

// newOnTikv copies the rows of f.
func newOnTikv(f *fixture) *onTikv {
	data, err := embedded.Open("db", embedded.Options{Pebble: pebblekv.Options{FS: vfs.NewMem(), DisableSync: true}})
	require.NoError(f.T, err)
	f.T.Cleanup(func() { require.NoError(f.T, data.Close()) })
	on := &onTikv{fixture: f, data: data}
	pairs := make(map[string]string)
	for key, row := range f.Rows {
		pairs[key] = string(f.EncodeRow(row.Values))
	}
	on.put(pairs, on.now())
	on.store, err = tikv.Open(data.Storage(), tikv.Options{
		Importer:  directImporter{data.Builds()},
		PageBytes: 4 << 10, // so that scans read ahead
	})
	require.NoError(f.T, err)
	f.T.Cleanup(func() { require.NoError(f.T, on.store.Close()) })
	return on
}

// put writes pairs at a version.
func (on *onTikv) put(pairs map[string]string, version uint64) {
	if len(pairs) == 0 {
		return
	}
	w, err := on.data.Builds().NewImportWriter(on.Ctx, kv.ImportOptions{Dir: "rows", Version: version})
	require.NoError(on.T, err)
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		require.NoError(on.T, w.Add([]byte(key), []byte(pairs[key])))
	}
	u, err := w.Finish(on.Ctx)
	require.NoError(on.T, err)
	require.NoError(on.T, on.data.Builds().Import(on.Ctx, []kv.ImportUnit{u}))
}

// cut makes n regions of the table's records, and of its indexes.
func (on *onTikv) cut(n int) {
	keys := [][]byte{tablecodec.GenTableIndexPrefix(on.Table.ID), encode.RecordRange(on.Table.ID).Start}
	on.spotted = make(map[string]bool)
	rows := slices.Sorted(maps.Keys(on.Rows))
	for i, key := range rows {
		if i%max(1, len(on.Rows)/n) == 0 {
			keys = append(keys, []byte(key))
			for _, row := range rows[i:min(i+spottedRows, len(rows))] {
				on.spotted[row] = true
			}
		}
	}
	for i, key := range keys {
		keys[i] = codec.EncodeBytes(nil, key)
	}
	_, err := on.data.PDClient().SplitRegions(on.Ctx, keys)
	require.NoError(on.T, err)
}

func (on *onTikv) now() uint64 {
	ts, err := on.data.Builds().CurrentTS(on.Ctx)
	require.NoError(on.T, err)
	return ts
}

func (on *onTikv) options() Options { return Options{Store: on.store, TempDir: on.Temp} }

func (on *onTikv) spec(indexes ...*model.IndexInfo) Spec {
	return Spec{Task: encode.Task{JobID: 77, Table: on.Table, Indexes: indexes, TS: on.now()}}
}

// entries reads an index past the driver.
func (on *onTikv) entries(idx *model.IndexInfo, ts uint64) map[string]string {
	snap, err := on.data.Builds().Snapshot(on.Ctx, ts)
	require.NoError(on.T, err)
	defer snap.Close()
	iter, err := snap.Iter(encode.IndexRange(on.Table.ID, idx.ID))
	require.NoError(on.T, err)
	defer iter.Close()
	got := make(map[string]string)
	for iter.Valid() {
		got[string(iter.Key())] = string(iter.Value())
		require.NoError(on.T, iter.Next())
	}
	return got
}

// directImporter imports into the embedded store, not over a network.
type directImporter struct{ kv.Store }

func (i directImporter) NewWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	return i.Store.NewImportWriter(ctx, opts)
}

func (directImporter) Busy() bool { return false }

// TestRunOnTikv builds indexes of random tables through the driver for TiKV, over several
// regions, and compares them with what TiDB's library makes of each row, which is also
// what a build on the other store is compared with.
func TestRunOnTikv(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(16) {
		table, idx, kinds := backfilltest.RandomTable(r)
		f := newFixture(t, table, kinds)
		for range r.IntN(4) {
			f.Insert(r, 1+r.IntN(1500))
		}
		on := newOnTikv(f)
		on.cut(1 + r.IntN(6))
		second := backfilltest.RandomIndex(r, table, kinds, 8)
		idx.Unique, second.Unique = false, false
		what := backfilltest.Describe(table, idx, kinds) + " and " + backfilltest.Describe(table, second, kinds)

		spec := on.spec(idx, second)
		res, err := Run(f.Ctx, on.options(), spec)
		require.NoError(t, err, what)
		require.False(t, res.Rebuilt, what)
		require.EqualValues(t, len(f.Rows), res.Rows, what)
		require.EqualValues(t, 2*len(f.Rows), res.Entries, what)
		for _, idx := range []*model.IndexInfo{idx, second} {
			backfilltest.RequireEntries(t, f.WantEntries(idx), on.entries(idx, spec.TS), what)
		}
		f.RequireNoTempFiles()

		task := on.spec(idx, second).Task
		found, err := compare.Run(f.Ctx, on.options().Common(), task)
		require.NoError(t, err, what)
		require.True(t, found.Clean(), "%s: %v", what, found.Differences)
		require.EqualValues(t, len(f.Rows), found.Rows)

		local := f.spec(idx, second)
		_, err = Run(f.Ctx, f.options(), local)
		require.NoError(t, err, what)
		for _, idx := range []*model.IndexInfo{idx, second} {
			backfilltest.RequireEntries(t, f.EntriesAt(idx, local.TS), on.entries(idx, spec.TS), what)
		}
	}
}

// TestCompareOnTikv: differences are found through the driver too.
func TestCompareOnTikv(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 500)
	on := newOnTikv(f)
	on.cut(3)
	idx := backfilltest.IndexOn(9, false, 1)
	spec := on.spec(idx)
	_, err := Run(f.Ctx, on.options(), spec)
	require.NoError(t, err)
	keys := slices.Sorted(maps.Keys(f.WantEntries(idx)))
	on.put(map[string]string{keys[3]: "wrong", keys[7] + "x": "foreign"}, on.now())
	found, err := compare.Run(f.Ctx, on.options().Common(), on.spec(idx).Task)
	require.NoError(t, err)
	require.Len(t, found.Differences, 2)
	require.Equal(t, keys[3], string(found.Differences[0].Key))
	require.Equal(t, "wrong", string(found.Differences[0].Actual))
	require.Equal(t, keys[7]+"x", string(found.Differences[1].Key))
	require.Empty(t, found.Differences[1].Claims)
}

// damagingStore is a cluster of which something goes wrong.
type damagingStore struct {
	*tikv.Store
	on      *onTikv
	skip    func(n int64, key []byte) bool // the n-th pair that is imported
	change  func(n int64, value []byte) []byte
	dropRow func(b *kv.RowBatch) bool
	pairs   atomic.Int64
}

// dropBatch has the scan lose a batch, but none of the rows that the spot check looks up.
func (s *damagingStore) dropBatch() {
	dropped := false
	s.dropRow = func(b *kv.RowBatch) bool {
		if dropped || slices.ContainsFunc(b.IntHandles, func(h int64) bool {
			return s.on.spotted[string(tablecodec.EncodeRowKeyWithHandle(s.on.Table.ID, tidbkv.IntHandle(h)))]
		}) {
			return false
		}
		dropped = true
		return true
	}
}

// loseEntry has the first import lose an entry of idx, but none of a row that the spot check looks up.
func (s *damagingStore) loseEntry(idx *model.IndexInfo) {
	rows := slices.Sorted(maps.Keys(s.on.Rows))
	i := slices.IndexFunc(rows, func(key string) bool { return !s.on.spotted[key] })
	row := s.on.Rows[rows[i]]
	lost, _, _ := backfilltest.LibraryEntry(s.on.T, s.on.Table, idx, row.Values, row.Handle)
	var once atomic.Bool
	s.skip = func(_ int64, key []byte) bool { return bytes.Equal(key, lost) && once.CompareAndSwap(false, true) }
}

func (s *damagingStore) NewImportWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	w, err := s.Store.NewImportWriter(ctx, opts)
	return &damagingWriter{ImportWriter: w, s: s}, err
}

func (s *damagingStore) Import(ctx context.Context, units []kv.ImportUnit) error {
	return s.Store.Import(ctx, backfilltest.Uncounted(units))
}

type damagingWriter struct {
	kv.ImportWriter
	s     *damagingStore
	pairs int
}

func (w *damagingWriter) Finish(ctx context.Context) (kv.ImportUnit, error) {
	u, err := w.ImportWriter.Finish(ctx)
	return backfilltest.CountedUnit{ImportUnit: u, Pairs: w.pairs}, err
}

func (w *damagingWriter) Add(key, value []byte) error {
	w.pairs++
	n := w.s.pairs.Add(1)
	if w.s.skip != nil && w.s.skip(n, key) {
		return nil
	}
	if w.s.change != nil {
		value = w.s.change(n, value)
	}
	return w.ImportWriter.Add(key, value)
}

func (s *damagingStore) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	return s.Store.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		if s.dropRow != nil && req.BatchRows != sampleRows && s.dropRow(b) {
			return nil
		}
		return fn(b)
	})
}

// TestVerificationOnTikv: what the cluster has lost or changed of an index shows in the
// checksum, what the scan has lost in the count.
func TestVerificationOnTikv(t *testing.T) {
	newStore := func(t *testing.T) (*onTikv, *damagingStore) {
		table, kinds := backfilltest.PlainTable()
		f := newFixture(t, table, kinds)
		f.Insert(backfilltest.Rand(t), 2000)
		on := newOnTikv(f)
		on.cut(4)
		return on, &damagingStore{Store: on.store, on: on}
	}
	idx, wide := backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, false, 2, 3)
	for name, damage := range map[string]func(s *damagingStore){
		"lost":    func(s *damagingStore) { s.skip = func(n int64, _ []byte) bool { return n == 777 } },
		"changed": func(s *damagingStore) { s.change = changeOne(777) },
	} {
		t.Run(name, func(t *testing.T) {
			on, s := newStore(t)
			damage(s)
			opts := on.options()
			opts.Store = s
			spec := on.spec(idx, wide)
			res, err := Run(on.Ctx, opts, spec)
			require.NoError(t, err, "what is imported again is right")
			require.True(t, res.Rebuilt)
			for _, idx := range []*model.IndexInfo{idx, wide} {
				backfilltest.RequireEntries(t, on.WantEntries(idx), on.entries(idx, spec.TS), name)
			}
		})
	}
	t.Run("always lost", func(t *testing.T) {
		on, s := newStore(t)
		lost := []byte(slices.Min(slices.Collect(maps.Keys(on.WantEntries(idx)))))
		s.skip = func(_ int64, key []byte) bool { return bytes.Equal(key, lost) }
		opts := on.options()
		opts.Store = s
		_, err := Run(on.Ctx, opts, on.spec(idx))
		var mismatch *MismatchError
		require.ErrorAs(t, err, &mismatch)
		require.EqualValues(t, len(on.Rows), mismatch.Want.Entries)
		require.Less(t, mismatch.Got.Entries, mismatch.Want.Entries)
	})
	t.Run("rows", func(t *testing.T) {
		on, s := newStore(t)
		var dropped atomic.Bool
		s.dropRow = func(*kv.RowBatch) bool { return dropped.CompareAndSwap(false, true) }
		opts := on.options()
		opts.Store, opts.BatchRows = s, 8
		res, err := Run(on.Ctx, opts, on.spec(idx))
		require.NoError(t, err)
		require.True(t, res.Rebuilt)
	})
}

func changeOne(at int64) func(int64, []byte) []byte {
	return func(n int64, value []byte) []byte {
		if n != at {
			return value
		}
		value = bytes.Clone(value)
		value[len(value)-1] ^= 1
		return value
	}
}

// TestUniqueOnTikv builds a unique index in many flushes, so that duplicates meet what is
// imported already. The driver does not tell the versions of what is stored unless it is
// asked: entries older than S, which no row has any more, are none.
func TestUniqueOnTikv(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 500) // each sixteen rows are a batch with a checkpoint
	idx := backfilltest.IndexOn(9, true, 1)
	byValue := make(map[int64]string) // one row for each value
	for key, row := range maps.Clone(f.Rows) {
		v := row.Values[1]
		if v.IsNull() {
			continue
		}
		if _, taken := byValue[v.GetInt64()]; taken {
			delete(f.Rows, key)
			continue
		}
		byValue[v.GetInt64()] = key
	}
	on := newOnTikv(f)
	want := f.WantEntries(idx)
	keys := slices.Sorted(maps.Keys(want))

	// Entries of a former life, of rows that had the values then.
	former := make(map[string]string)
	for _, key := range keys {
		if len(want[key]) == 8 { // a handle
			former[key] = string(changeOne(0)(0, []byte(want[key])))
		}
	}
	require.NotEmpty(t, former)
	on.put(former, on.now())

	opts := on.options()
	opts.CheckpointInterval, opts.BatchRows, opts.TaskBytes = 1, 16, 1
	spec := on.spec(idx)
	res, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	require.Greater(t, res.Flushes, 1)
	backfilltest.RequireEntries(t, want, on.entries(idx, spec.TS), "unique")

	// Two rows with one value, far from each other.
	rows := slices.Sorted(maps.Keys(f.Rows))
	first, last := f.Rows[rows[0]], f.Rows[rows[len(rows)-1]]
	twin := slices.Clone(last.Values)
	twin[1] = types.NewIntDatum(4242)
	other := slices.Clone(first.Values)
	other[1] = types.NewIntDatum(4242)
	on.put(map[string]string{rows[len(rows)-1]: string(f.EncodeRow(twin)), rows[0]: string(f.EncodeRow(other))}, on.now())
	_, err = Run(f.Ctx, opts, on.spec(idx))
	var dup *ingest.DuplicateError
	require.True(t, errors.As(err, &dup), "%v", err)
}

// readingStore counts what comparisons read of indexes entry by entry.
type readingStore struct {
	*tikv.Store
	iters, sums atomic.Int64
}

func (s *readingStore) Snapshot(ctx context.Context, ts uint64) (kv.Snapshot, error) {
	snap, err := s.Store.Snapshot(ctx, ts)
	return &readingSnapshot{snap, s}, err
}

func (s *readingStore) Checksum(ctx context.Context, r kv.KeyRange, ts uint64) (kv.Checksum, error) {
	s.sums.Add(1)
	return s.Store.Checksum(ctx, r, ts)
}

type readingSnapshot struct {
	kv.Snapshot
	store *readingStore
}

func (s *readingSnapshot) Iter(r kv.KeyRange) (kv.Iterator, error) {
	iter, err := s.Snapshot.Iter(r)
	return &readingIterator{iter, s.store}, err
}

type readingIterator struct {
	kv.Iterator
	store *readingStore
}

func (i *readingIterator) Next() error {
	if tablecodec.IsIndexKey(i.Key()) {
		i.store.iters.Add(1)
	}
	return i.Iterator.Next()
}

// TestCompareBySumsOfTheStore: indexes that are equal to their rows are not read entry by entry if the
// store sums them up; those of partitions and over all of them too, by one node or by several. Every
// difference is found.
func TestCompareBySumsOfTheStore(t *testing.T) {
	for _, parts := range []int{0, 1, 5} {
		t.Run(fmt.Sprintf("%d parts", parts), func(t *testing.T) { compareBySumsOfTheStore(t, parts) })
	}
}

func compareBySumsOfTheStore(t *testing.T, parts int) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(r, 700)
	on := newOnTikv(f)
	on.cut(4)
	store := &readingStore{Store: on.store}
	opts := on.options()
	opts.Store = store
	plain, unique := backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, true, 0, 2)
	_, err := Run(f.Ctx, opts, on.spec(plain, unique))
	require.NoError(t, err)
	compare := func() (compare.Result, *testScheduler) {
		store.iters.Store(0)
		store.sums.Store(0)
		task := on.spec(plain, unique).Task
		opts, scheduler := f.shared(parts, task, store)
		found, err := compare.Run(f.Ctx, opts.Common(), task)
		require.NoError(t, err)
		return found, scheduler
	}
	found, scheduler := compare()
	require.True(t, found.Clean())
	require.EqualValues(t, len(f.Rows), found.Rows)
	require.Equal(t, []int64{found.Rows, found.Rows}, found.Entries)
	require.Len(t, found.Records, 2, "they say whether something hides entries")
	require.Zero(t, store.iters.Load(), "entries were read")
	require.Positive(t, store.sums.Load())
	require.Len(t, scheduler.parts, min(1, parts))

	keys := slices.Sorted(maps.Keys(f.WantEntries(unique)))
	value := on.entries(unique, on.now())[keys[5]]
	for i, pairs := range []map[string]string{{keys[5]: value + "x"}, {keys[5]: value, keys[5] + "x": value}} {
		on.put(pairs, on.now())
		found, scheduler := compare()
		require.Len(t, found.Differences, 1, "%d", i)
		require.EqualValues(t, len(f.Rows), found.Rows, "rows are counted once")
		require.Positive(t, store.iters.Load(), "%d", i)
		require.Len(t, scheduler.parts, 2*min(1, parts))
	}
}

// TestSharedSumsOfTheStore: what one of the parts loses is missed by the one who adds them up, and nodes that
// do not know such parts get others.
func TestSharedSumsOfTheStore(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 700)
	on := newOnTikv(f)
	on.cut(4)
	idx := backfilltest.IndexOn(9, true, 0)
	_, err := Run(f.Ctx, on.options(), on.spec(idx))
	require.NoError(t, err)
	compareWith := func(change func(r *execution.SubtaskResult)) (compare.Result, *testScheduler, error) {
		task := on.spec(idx).Task
		opts, scheduler := f.shared(3, task, on.store)
		scheduler.change = func(i int, r *execution.SubtaskResult) {
			if i == 1 {
				change(r)
			}
		}
		found, err := compare.Run(f.Ctx, opts.Common(), task)
		return found, scheduler, err
	}
	_, _, err = compareWith(func(r *execution.SubtaskResult) { r.Rows-- })
	require.ErrorAs(t, err, new(*execution.RowCountError))
	_, _, err = compareWith(func(r *execution.SubtaskResult) { r.Compared.Keys-- })
	require.ErrorAs(t, err, new(*execution.RowCountError))
	for name, change := range map[string]func(r *execution.SubtaskResult){
		"no comparison": func(r *execution.SubtaskResult) { r.Compared = nil },
		"no totals":     func(r *execution.SubtaskResult) { r.Totals = nil },
		"no sums":       func(r *execution.SubtaskResult) { r.Compared.Stored = nil },
		"no records":    func(r *execution.SubtaskResult) { r.Compared.Records = nil },
	} {
		_, _, err = compareWith(change)
		require.ErrorContains(t, err, "a part of the comparison", name)
	}
	for name, change := range map[string]func(r *execution.SubtaskResult){
		"given":  func(r *execution.SubtaskResult) { r.Totals[0].CRC ^= 1 },
		"stored": func(r *execution.SubtaskResult) { r.Compared.Stored[0].Entries-- },
	} {
		found, scheduler, err := compareWith(func(r *execution.SubtaskResult) {
			if r.Compared.Stored != nil { // the second time there are buckets
				change(r)
			}
		})
		require.NoError(t, err, name)
		require.True(t, found.Clean(), name)
		require.Len(t, scheduler.parts, 2, "%s: then it is looked for", name)
	}

	task := on.spec(idx).Task
	opts, scheduler := f.shared(3, task, on.store)
	scheduler.early = true
	scheduler.change = func(_ int, r *execution.SubtaskResult) { require.NotEmpty(t, r.Compared.Sums) }
	found, err := compare.Run(f.Ctx, opts.Common(), task)
	require.NoError(t, err)
	require.True(t, found.Clean())
	require.Len(t, scheduler.parts, 1)
}
