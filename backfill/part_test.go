package backfill

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fastddl/event"
	"fastddl/kv"
)

// testCrew builds the parts of a task in this process, three at a time.
type testCrew struct {
	opts   Options
	task   Task
	n      int // parts, 0 declines
	rounds []int
	parts  []int // by round
	// change, if it is set, is made to the result of a part.
	change func(i int, r *PartResult)
	// early says that the nodes know no parts which the store sums up.
	early bool

	mu   sync.Mutex
	rows int64
}

func (c *testCrew) Build(ctx context.Context, w SharedWork) ([]PartResult, bool, error) {
	if c.n == 0 {
		return nil, false, nil
	}
	parts := w.Cut(c.n)
	c.rounds, c.parts = append(c.rounds, w.Round), append(c.parts, len(parts))
	results := make([]PartResult, len(parts))
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(3)
	for i, part := range parts {
		workers.Go(func() (err error) {
			opts := c.opts
			opts.Crew, opts.TempDir = nil, fmt.Sprintf("%s/part%d", c.opts.TempDir, i)
			opts.SaveCheckpoint = nil
			if part.Compares() {
				results[i], err = ComparePart(ctx, opts.Common(), PartSpec{Task: c.task, Part: part})
			} else {
				results[i], err = runPart(ctx, opts, c.task, HeldPart{Part: part})
			}
			if err == nil && c.change != nil {
				c.change(i, &results[i])
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.rows += results[i].Rows
			w.Progress(c.rows, c.rows, 0)
			return err
		})
	}
	return results, true, workers.Wait()
}

func (c *testCrew) SumsInStore() bool { return !c.early }

// runPart builds one part alone.
func runPart(ctx context.Context, opts Options, task Task, p HeldPart) (PartResult, error) {
	results, err := RunParts(ctx, opts, PartsSpec{Task: task, First: p})
	if err != nil {
		return PartResult{}, err
	}
	return results[0], nil
}

// shared are options of a build in n parts.
func (f *fixture) shared(n int, task Task, store kv.Store) (Options, *testCrew) {
	opts := f.options()
	opts.Store, opts.TempDir = store, f.t.TempDir()
	c := &testCrew{opts: opts, task: task, n: n}
	opts.Crew, opts.TempDir = c, f.temp
	return opts, c
}

// overlapStore notes what it is told of the files that are to be imported.
type overlapStore struct {
	kv.Store
	overlaps, others atomic.Int64
}

func (s *overlapStore) NewImportWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	if opts.Overlaps {
		s.overlaps.Add(1)
	} else {
		s.others.Add(1)
	}
	return s.Store.NewImportWriter(ctx, opts)
}

// What a part imports may lie between what others do; what is built in one piece does not.
func TestPartsOverlap(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(newRand(t), 500)
	spec := f.spec(indexOn(9, false, 1))
	for _, parts := range []int{0, 3} {
		store := &overlapStore{Store: f.store}
		opts, _ := f.shared(parts, spec.Task, store)
		opts.Store = store
		_, err := Run(f.ctx, opts, spec)
		require.NoError(t, err)
		require.Equal(t, parts > 0, store.overlaps.Load() > 0, "%d parts", parts)
		require.Equal(t, parts == 0, store.others.Load() > 0, "%d parts", parts)
	}
}

// The entries of all parts together are those of the table, whatever it is and however it
// is cut.
func TestPartsMakeTheWhole(t *testing.T) {
	r := newRand(t)
	for range rounds(6) {
		table, idx, kinds := randomTable(r)
		f := newFixture(t, table, kinds)
		f.insert(r, r.IntN(3000))
		idx.Unique = false
		spec := f.spec(idx)
		opts, crew := f.shared(1+r.IntN(9), spec.Task, f.store)
		res, err := Run(f.ctx, opts, spec)
		what := fmt.Sprintf("%s in %v parts", describe(table, idx, kinds), crew.parts)
		require.NoError(t, err, what)
		require.EqualValues(t, len(f.rows), res.Rows, what)
		require.EqualValues(t, len(f.rows), res.Entries, what)
		require.Equal(t, res.Rows, crew.rows)
		f.requireIndex(idx, spec.TS, what)
		f.requireNoTempFiles()
	}
}

func TestPartsOfPartitions(t *testing.T) {
	p := newPartitioned(t, newRand(t), 7, 300)
	local, unique := indexOn(9, false, 1), indexOn(10, true, 2, 0)
	spec := p.spec(local, unique)
	opts, crew := p.shared(5, spec.Task, p.store)
	res, err := Run(p.ctx, opts, spec)
	require.NoError(t, err)
	require.Equal(t, []int{5}, crew.parts)
	require.Equal(t, p.parts.count(), res.Rows)
	p.parts.requireIndexes(spec.TS, local, unique)
}

// A crew that does not want the table leaves it to the one who asks.
func TestCrewDeclines(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(newRand(t), 500)
	idx := indexOn(9, true, 0)
	spec := f.spec(idx)
	opts, _ := f.shared(0, spec.Task, f.store)
	_, err := Run(f.ctx, opts, spec)
	require.NoError(t, err)
	f.requireIndex(idx, spec.TS, "alone")
}

// Rows with equal values in different parts are listed: neither part has seen both.
func TestDuplicatesInDifferentParts(t *testing.T) {
	const rows = 3000
	f := newDuplicatesFixture(t, rows)
	f.put(10, -1)
	f.put(rows-10, -1)
	f.put(40, -3)
	f.put(rows/2, -3)
	f.put(rows-30, -3)
	f.put(50, nil)
	f.put(rows-50, nil)
	spec := f.spec(indexOn(9, true, 1))
	opts, crew := f.shared(4, spec.Task, f.store)
	_, err := Run(f.ctx, opts, spec)
	requireHandles(t, err, [][]int64{{40, rows / 2, rows - 30}, {10, rows - 10}})
	require.Equal(t, []int{0}, crew.rounds, "they are no damage")
}

// What was lost of a shared build is built again, in another round, once.
func TestSharedBuildIsRepairedOnce(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(newRand(t), 2000)
	idx := indexOn(9, true, 1, 0)
	store := &faultyStore{Store: f.store, skip: func(n int64) bool { return n == 70 }}
	spec := f.spec(idx)
	opts, crew := f.shared(4, spec.Task, store)
	res, err := Run(f.ctx, opts, spec)
	require.NoError(t, err)
	require.True(t, res.Rebuilt)
	require.Equal(t, []int{0, 1}, crew.rounds)
	f.requireIndex(idx, spec.TS, "rebuilt")
}

// A build whose parts are done is only verified when it goes on.
func TestSharedBuildResumes(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(newRand(t), 1000)
	idx := indexOn(9, false, 1)
	spec := f.spec(idx)
	store := &faultyStore{Store: f.store, onRead: func(int64) error { return errInjected }}
	opts, crew := f.shared(4, spec.Task, store)
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error { spec.Checkpoint = data; return nil }
	_, err := Run(f.ctx, opts, spec)
	require.ErrorIs(t, err, errInjected)
	store.onRead = nil
	imports := store.imports.Load()
	res, err := Run(f.ctx, opts, spec)
	require.NoError(t, err)
	require.EqualValues(t, len(f.rows), res.Rows)
	require.Equal(t, []int{0}, crew.rounds)
	require.Equal(t, imports, store.imports.Load())
	f.requireIndex(idx, spec.TS, "resumed")
}

// Duplicates in different parts are found by a verification that goes on, too.
func TestDuplicatesInDifferentPartsAfterAResume(t *testing.T) {
	f := newDuplicatesFixture(t, 1000)
	f.put(10, -1)
	f.put(900, -1)
	spec := f.spec(indexOn(9, true, 1))
	store := &faultyStore{Store: f.store, onRead: func(int64) error { return errInjected }}
	opts, crew := f.shared(4, spec.Task, store)
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error { spec.Checkpoint = data; return nil }
	_, err := Run(f.ctx, opts, spec)
	require.ErrorIs(t, err, errInjected)
	store.onRead = nil
	_, err = Run(f.ctx, opts, spec)
	requireHandles(t, err, [][]int64{{10, 900}})
	require.Equal(t, []int{0}, crew.rounds, "they are no damage")
}

// A part goes on from its last checkpoint, wherever it was interrupted, with the same
// result.
func TestPartResumes(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(newRand(t), 3000)
	idx := indexOn(9, true, 1, 0)
	spec := f.spec(idx)
	parts := f.cut(spec.Task, 2)
	want, err := runPart(f.ctx, f.options(), spec.Task, HeldPart{Part: parts[0]})
	require.NoError(t, err)
	require.Less(t, want.Rows, int64(len(f.rows)))

	store := &faultyStore{Store: f.store}
	opts := f.options()
	opts.Store, opts.BatchRows, opts.CheckpointInterval = store, 64, time.Millisecond
	var saved []byte
	save := func(_ context.Context, checkpoints [][]byte) error { saved = checkpoints[0]; return nil }
	for fail := int64(1); ; fail++ {
		store.imports.Store(0)
		store.onImport = func(n int64) error {
			if n == 2 {
				return errInjected
			}
			return nil
		}
		store.onScan = func(int64) error { time.Sleep(2 * time.Millisecond); return nil } // a round of few batches
		got, err := RunParts(f.ctx, opts, PartsSpec{Task: spec.Task, First: HeldPart{parts[0], saved}, Save: save})
		if err == nil {
			require.Equal(t, []PartResult{want}, got)
			break
		}
		require.ErrorIs(t, err, errInjected)
		require.NotEmpty(t, saved)
		require.Less(t, fail, int64(1000))
	}
	f.requireNoTempFiles()
}

func TestForeignPart(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	spec := f.spec(indexOn(9, false, 1))
	r := recordRange(table.ID + 1)
	foreign := HeldPart{Part: Part{Tasks: []checkpointTask{{Start: r.Start, End: r.End}}}}
	_, err := runPart(f.ctx, f.options(), spec.Task, foreign)
	require.ErrorContains(t, err, "is not of table")
	own := recordRange(table.ID)
	_, err = RunParts(f.ctx, f.options(), PartsSpec{
		Task: spec.Task, First: HeldPart{Part: Part{Tasks: []checkpointTask{{Start: own.Start, End: own.End}}}},
		Next: func(context.Context) (HeldPart, bool, error) { return foreign, true, nil },
	})
	require.ErrorContains(t, err, "is not of table")
	compared := Part{Tasks: []checkpointTask{{Start: r.Start, End: r.End}}, Compare: &comparePart{Buckets: 4}}
	_, err = ComparePart(f.ctx, f.options().Common(), PartSpec{Task: spec.Task, Part: compared})
	require.ErrorContains(t, err, "is not of table")
	for _, wrong := range []Part{
		{}, {Compare: &comparePart{Buckets: 3}}, {Compare: &comparePart{Stored: true}}, // this store adds nothing up
		{Compare: &comparePart{Buckets: 4, Entries: []checkpointRange{{Index: 1}}}},
	} {
		_, err = ComparePart(f.ctx, f.options().Common(), PartSpec{Task: spec.Task, Part: wrong})
		require.ErrorContains(t, err, "part of ")
	}
}

// Who listens hears how far the crew is, and of no stage but that of reading.
func TestSharedProgress(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(newRand(t), 100)
	spec := f.spec(indexOn(9, false, 1))
	opts, _ := f.shared(2, spec.Task, f.store)
	opts.Bus = new(event.Bus)
	var last event.Progress
	opts.Bus.Subscribe(func(e event.Event) {
		if p, ok := e.(event.Progress); ok && p.Stage == "scan" {
			last = p
		}
	})
	_, err := Run(f.ctx, opts, spec)
	require.NoError(t, err)
	require.EqualValues(t, len(f.rows), last.RowsDone)
	require.EqualValues(t, len(f.rows), last.RowsImported)
}

// keyAt is the key of a row.
func keyAt[N int | uint64](handle N) []byte {
	return tablecodec.EncodeRowKeyWithHandle(100, tkv.IntHandle(handle))
}

// Regions that are no multiple of the parts are cut: no node has a third more to do than
// the others.
func TestCutPartsInsideTasks(t *testing.T) {
	var tasks []task
	for at := 0; at < 16_000; at += 1000 {
		tasks = append(tasks, task{kv.KeyRange{Start: keyAt(at), End: keyAt(at + 1000)}, 1})
	}
	parts := cutParts(tasks, 3)
	require.Len(t, parts, 3)
	for _, p := range parts {
		require.InEpsilon(t, 16.0/3, totalWeight(decodeTasks(p.Tasks)), partTolerance)
		require.Len(t, p.Tasks, 6)
	}
	for _, p := range cutParts(tasks, 4) {
		require.Len(t, p.Tasks, 4, "tasks that fit are not cut")
	}
}

// Parts of a table and of a comparison that are as large as they come fit into rows of a
// table, and together are everything.
func TestLargePartsFitIntoRows(t *testing.T) {
	const n, pieces, rowLimit = 3, 200_000, 6 << 20
	key := func(prefix string, i int) []byte { return fmt.Appendf(nil, "%s%040d", prefix, i) }
	c := new(comparison)
	for i := range pieces {
		c.rows = append(c.rows, task{kv.KeyRange{Start: key("r", i), End: key("r", i+1)}, 1})
		c.counts = append(c.counts, kv.KeyRange{Start: key("r", i), End: key("r", i+1)})
		c.entries = append(c.entries, entryRange{kv.KeyRange{Start: key("i", i), End: key("i", i+1)}, i * 2 / pieces})
		if i == pieces/2-1 { // two partitions; two indexes, which adjoin
			c.rows[i].End, c.counts[i].End = key("r", i), key("r", i)
		}
	}
	parts := c.cut(n, comparePart{Buckets: minBuckets}, c.entries)
	require.Len(t, parts, n)
	var rows []task
	var counts []kv.KeyRange
	var entries []entryRange
	for _, p := range parts {
		data, err := json.Marshal(p)
		require.NoError(t, err)
		require.Less(t, len(data), rowLimit/2)
		rows = append(rows, decodeTasks(p.Tasks)...)
		for _, r := range p.Compare.Counts {
			counts = append(counts, kv.KeyRange{Start: r.Start, End: r.End})
		}
		for _, r := range p.Compare.Entries {
			entries = append(entries, entryRange{kv.KeyRange{Start: r.Start, End: r.End}, r.Index})
		}
	}
	require.Greater(t, len(rows), n*maxPartRanges/2, "they can be read in parallel")
	require.Equal(t, mergeTasks(c.rows), mergeTasks(rows))
	require.Equal(t, fewerRanges(c.counts, 1), fewerRanges(counts, 1))
	require.Equal(t, fewerEntries(c.entries, 1), fewerEntries(entries, 1))
	require.Equal(t, []entryRange{
		{kv.KeyRange{Start: key("i", 0), End: key("i", pieces/2)}, 0}, {kv.KeyRange{Start: key("i", pieces/2), End: key("i", pieces)}, 1},
	}, fewerEntries(entries, 1), "entries of one index are not taken for those of another")
}

// Parts are the tasks, in their order, in no more pieces than asked for, and of the same
// weight as far as the keys allow it.
func TestCutParts(t *testing.T) {
	r := newRand(t)
	for range 2000 {
		var tasks []task
		for at := uint64(0); len(tasks) < r.IntN(20); at += 1000 {
			weight := float64(r.IntN(5)) * 1e6
			tasks = append(tasks, task{kv.KeyRange{Start: keyAt(at), End: keyAt(at + 500 + r.Uint64N(501))}, weight})
		}
		n := 1 + r.IntN(12)
		parts := cutParts(tasks, n)
		require.LessOrEqual(t, len(parts), n)
		var all []task
		for _, p := range parts {
			mine := decodeTasks(p.Tasks)
			require.NotEmpty(t, mine)
			all = append(all, mine...)
			// A task has at least 500 keys: what cannot be cut off is less than that.
			require.LessOrEqual(t, totalWeight(mine), (1+2*partTolerance)*totalWeight(tasks)/float64(n)+2*4e6/500)
		}
		require.InDelta(t, totalWeight(tasks), totalWeight(all), 1)
		merged, at := mergeTasks(all), 0
		for _, whole := range mergeTasks(tasks) {
			require.Less(t, at, len(merged), "a task is left out")
			require.Equal(t, whole.KeyRange, merged[at].KeyRange)
			at++
		}
		require.Len(t, merged, at)
	}
}
