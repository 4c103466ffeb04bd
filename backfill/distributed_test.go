package backfill

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/event"
	"fastddl/kv"
)

// testScheduler builds the parts of a task in this process, three at a time.
type testScheduler struct {
	opts   Options
	task   encode.Task
	n      int // parts, 0 declines
	rounds []int
	parts  []int // by round
	// wrong says that a part was found wrong before; nil says that none was.
	wrong func(i int) bool
	// change, if it is set, is made to the result of a part.
	change func(i int, r *execution.SubtaskResult)
	// early says that the nodes know no parts which the store sums up.
	early bool

	mu   sync.Mutex
	rows int64
}

func (c *testScheduler) Build(ctx context.Context, w execution.Work) ([]execution.SubtaskResult, bool, error) {
	if c.n == 0 {
		return nil, false, nil
	}
	parts := w.Cut(c.n)
	c.rounds, c.parts = append(c.rounds, w.Round), append(c.parts, len(parts))
	results := make([]execution.SubtaskResult, len(parts))
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(3)
	for i, part := range parts {
		workers.Go(func() (err error) {
			opts := c.opts
			opts.Scheduler, opts.TempDir = nil, fmt.Sprintf("%s/part%d", c.opts.TempDir, i)
			opts.SaveCheckpoint = nil
			if part.Compares() {
				results[i], err = compare.RunSubtask(ctx, opts.Common(), compare.SubtaskSpec{Task: c.task, Subtask: part})
			} else {
				results[i], err = runPart(ctx, opts, c.task, HeldSubtask{Subtask: part, Wrong: c.wrong != nil && c.wrong(i)})
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

func (c *testScheduler) SumsInStore() bool { return !c.early }

// runPart builds one part alone.
func runPart(ctx context.Context, opts Options, task encode.Task, p HeldSubtask) (execution.SubtaskResult, error) {
	results, err := RunSubtasks(ctx, opts, SubtasksSpec{Task: task, First: p})
	if err != nil {
		return execution.SubtaskResult{}, err
	}
	return results[0], nil
}

// shared are options of a build in n parts.
func (f *fixture) shared(n int, task encode.Task, store kv.Store) (Options, *testScheduler) {
	opts := f.options()
	opts.Store, opts.TempDir = store, f.T.TempDir()
	c := &testScheduler{opts: opts, task: task, n: n}
	opts.Scheduler, opts.TempDir = c, f.Temp
	return opts, c
}

// overlapStore counts the imports by whether their files may overlap.
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
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 500)
	spec := f.spec(backfilltest.IndexOn(9, false, 1))
	for _, parts := range []int{0, 3} {
		store := &overlapStore{Store: f.Store}
		opts, _ := f.shared(parts, spec.Task, store)
		opts.Store = store
		_, err := Run(f.Ctx, opts, spec)
		require.NoError(t, err)
		require.Equal(t, parts > 0, store.overlaps.Load() > 0, "%d parts", parts)
		require.Equal(t, parts == 0, store.others.Load() > 0, "%d parts", parts)
	}
}

// TestPartsMakeTheWhole: the entries of all subtasks together are those of the table, for every table and every cut.
func TestPartsMakeTheWhole(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(6) {
		table, idx, kinds := backfilltest.RandomTable(r)
		f := newFixture(t, table, kinds)
		f.Insert(r, r.IntN(3000))
		idx.Unique = false
		spec := f.spec(idx)
		opts, scheduler := f.shared(1+r.IntN(9), spec.Task, f.Store)
		res, err := Run(f.Ctx, opts, spec)
		what := fmt.Sprintf("%s in %v parts", backfilltest.Describe(table, idx, kinds), scheduler.parts)
		require.NoError(t, err, what)
		require.EqualValues(t, len(f.Rows), res.Rows, what)
		require.EqualValues(t, len(f.Rows), res.Entries, what)
		require.Equal(t, res.Rows, scheduler.rows)
		f.RequireIndex(idx, spec.TS, what)
		f.RequireNoTempFiles()
	}
}

func TestPartsOfPartitions(t *testing.T) {
	p := newPartitioned(t, backfilltest.Rand(t), 7, 300)
	local, unique := backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, true, 2, 0)
	spec := p.spec(local, unique)
	opts, scheduler := p.shared(5, spec.Task, p.Store)
	res, err := Run(p.Ctx, opts, spec)
	require.NoError(t, err)
	require.Equal(t, []int{5}, scheduler.parts)
	require.Equal(t, p.parts.Count(), res.Rows)
	p.parts.RequireIndexes(spec.TS, local, unique)
}

// A scheduler that does not divide a table leaves it to the build that asks.
func TestSchedulerDeclines(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 500)
	idx := backfilltest.IndexOn(9, true, 0)
	spec := f.spec(idx)
	opts, _ := f.shared(0, spec.Task, f.Store)
	_, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	f.RequireIndex(idx, spec.TS, "alone")
}

// Rows with equal values in different parts are listed: neither part has seen both.
func TestDuplicatesInDifferentParts(t *testing.T) {
	const rows = 3000
	f := newDuplicatesFixture(t, rows)
	f.Put(10, -1)
	f.Put(rows-10, -1)
	f.Put(40, -3)
	f.Put(rows/2, -3)
	f.Put(rows-30, -3)
	f.Put(50, nil)
	f.Put(rows-50, nil)
	spec := f.spec(backfilltest.IndexOn(9, true, 1))
	opts, scheduler := f.shared(4, spec.Task, f.Store)
	_, err := Run(f.Ctx, opts, spec)
	requireHandles(t, err, [][]int64{{40, rows / 2, rows - 30}, {10, rows - 10}})
	require.Equal(t, []int{0}, scheduler.rounds, "they are no damage")
}

// What was lost of a shared build is built again, in another round, once.
func TestSharedBuildIsRepairedOnce(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 2000)
	idx := backfilltest.IndexOn(9, true, 1, 0)
	store := &backfilltest.FaultyStore{Store: f.Store, Skip: func(n int64) bool { return n == 70 }}
	spec := f.spec(idx)
	opts, scheduler := f.shared(4, spec.Task, store)
	res, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	require.True(t, res.Rebuilt)
	require.Equal(t, []int{0, 1}, scheduler.rounds)
	f.RequireIndex(idx, spec.TS, "rebuilt")
}

// A build whose parts are done is only verified when it goes on.
func TestSharedBuildResumes(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 1000)
	idx := backfilltest.IndexOn(9, false, 1)
	spec := f.spec(idx)
	store := &backfilltest.FaultyStore{Store: f.Store, OnRead: func(int64) error { return backfilltest.ErrInjected }}
	opts, scheduler := f.shared(4, spec.Task, store)
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error { spec.Checkpoint = data; return nil }
	_, err := Run(f.Ctx, opts, spec)
	require.ErrorIs(t, err, backfilltest.ErrInjected)
	store.OnRead = nil
	imports := store.Imports.Load()
	res, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	require.EqualValues(t, len(f.Rows), res.Rows)
	require.Equal(t, []int{0}, scheduler.rounds)
	require.Equal(t, imports, store.Imports.Load())
	f.RequireIndex(idx, spec.TS, "resumed")
}

// Duplicates in different parts are found by a verification that goes on, too.
func TestDuplicatesInDifferentPartsAfterAResume(t *testing.T) {
	f := newDuplicatesFixture(t, 1000)
	f.Put(10, -1)
	f.Put(900, -1)
	spec := f.spec(backfilltest.IndexOn(9, true, 1))
	store := &backfilltest.FaultyStore{Store: f.Store, OnRead: func(int64) error { return backfilltest.ErrInjected }}
	opts, scheduler := f.shared(4, spec.Task, store)
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error { spec.Checkpoint = data; return nil }
	_, err := Run(f.Ctx, opts, spec)
	require.ErrorIs(t, err, backfilltest.ErrInjected)
	store.OnRead = nil
	_, err = Run(f.Ctx, opts, spec)
	requireHandles(t, err, [][]int64{{10, 900}})
	require.Equal(t, []int{0}, scheduler.rounds, "they are no damage")
}

// A part goes on from its last checkpoint, wherever it was interrupted, with the same
// result.
func TestPartResumes(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 3000)
	idx := backfilltest.IndexOn(9, true, 1, 0)
	spec := f.spec(idx)
	parts := f.cut(spec.Task, 2)
	store := &backfilltest.FaultyStore{Store: f.Store}
	opts := f.options()
	opts.Store = &backfilltest.CountingScans{Store: store}
	want, err := runPart(f.Ctx, opts, spec.Task, HeldSubtask{Subtask: parts[0]})
	require.NoError(t, err)
	require.Less(t, want.Rows, int64(len(f.Rows)))
	require.Equal(t, want.Rows, want.Visited)

	opts.BatchRows, opts.CheckpointInterval = 64, time.Millisecond
	var saved []byte
	save := func(_ context.Context, checkpoints [][]byte) error { saved = checkpoints[0]; return nil }
	for fail := int64(1); ; fail++ {
		store.Imports.Store(0)
		store.OnImport = func(n int64) error {
			if n == 2 {
				return backfilltest.ErrInjected
			}
			return nil
		}
		store.OnScan = func(int64) error { time.Sleep(2 * time.Millisecond); return nil } // a round of few batches
		got, err := RunSubtasks(f.Ctx, opts, SubtasksSpec{Task: spec.Task, First: HeldSubtask{Subtask: parts[0], Checkpoint: saved}, Save: save})
		if err == nil {
			require.Len(t, got, 1)
			got[0].Costs = want.Costs // several rounds write several files
			require.Equal(t, []execution.SubtaskResult{want}, got)
			break
		}
		require.ErrorIs(t, err, backfilltest.ErrInjected)
		require.NotEmpty(t, saved)
		require.Less(t, fail, int64(1000))
	}
	f.RequireNoTempFiles()
}

func TestForeignPart(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	spec := f.spec(backfilltest.IndexOn(9, false, 1))
	r := encode.RecordRange(table.ID + 1)
	foreign := HeldSubtask{Subtask: execution.Subtask{Ranges: []keyrange.StoredWeighted{{Start: r.Start, End: r.End}}}}
	_, err := runPart(f.Ctx, f.options(), spec.Task, foreign)
	require.ErrorContains(t, err, "is not of table")
	own := encode.RecordRange(table.ID)
	_, err = RunSubtasks(f.Ctx, f.options(), SubtasksSpec{
		Task: spec.Task, First: HeldSubtask{Subtask: execution.Subtask{Ranges: []keyrange.StoredWeighted{{Start: own.Start, End: own.End}}}},
		Next: func(context.Context) (HeldSubtask, bool, error) { return foreign, true, nil },
	})
	require.ErrorContains(t, err, "is not of table")
	compared := execution.Subtask{Ranges: []keyrange.StoredWeighted{{Start: r.Start, End: r.End}}, Compare: &execution.CompareSpec{Buckets: 4}}
	_, err = compare.RunSubtask(f.Ctx, f.options().Common(), compare.SubtaskSpec{Task: spec.Task, Subtask: compared})
	require.ErrorContains(t, err, "is not of table")
	for _, wrong := range []execution.Subtask{
		{}, {Compare: &execution.CompareSpec{Buckets: 3}}, {Compare: &execution.CompareSpec{Stored: true}}, // this store adds nothing up
		{Compare: &execution.CompareSpec{Buckets: 4, Entries: []keyrange.StoredIndexed{{Index: 1}}}},
	} {
		_, err = compare.RunSubtask(f.Ctx, f.options().Common(), compare.SubtaskSpec{Task: spec.Task, Subtask: wrong})
		require.ErrorContains(t, err, "part of ")
	}
}

// Listeners receive the progress of the subtasks, and no stage but that of reading.
func TestSharedProgress(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 100)
	spec := f.spec(backfilltest.IndexOn(9, false, 1))
	opts, _ := f.shared(2, spec.Task, f.Store)
	opts.Bus = new(event.Bus)
	var last event.Progress
	opts.Bus.Subscribe(func(e event.Event) {
		if p, ok := e.(event.Progress); ok && p.Stage == "scan" {
			last = p
		}
	})
	_, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	require.EqualValues(t, len(f.Rows), last.RowsDone)
	require.EqualValues(t, len(f.Rows), last.RowsImported)
}
