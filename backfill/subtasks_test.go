package backfill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/kv"
)

// testNodes builds the parts of a task on a few nodes in this process, each of which takes parts
// as package ddl does: one, and further ones while it builds. Builds that fail give their
// parts back, with the checkpoints that they have saved.
type testNodes struct {
	t     *testing.T
	opts  Options
	task  encode.Task
	n     int // parts
	nodes int
	seed  uint64

	mu          sync.Mutex
	changed     *sync.Cond
	parts       []execution.Subtask
	checkpoints [][]byte
	results     []execution.SubtaskResult
	open        []int
	left        int // not done
	failures    int // of builds, each with parts that it had
	together    int // most parts in one build
	resumed     int // parts that began with a checkpoint
}

func newTestNodes(t *testing.T, opts Options, task encode.Task, r *rand.Rand) *testNodes {
	c := &testNodes{t: t, opts: opts, task: task, n: 1 + r.IntN(9), nodes: 1 + r.IntN(3), seed: r.Uint64()}
	c.changed = sync.NewCond(&c.mu)
	return c
}

func (*testNodes) SumsInStore() bool { return true }

func (c *testNodes) Build(ctx context.Context, w execution.Work) ([]execution.SubtaskResult, bool, error) {
	c.parts = w.Cut(c.n)
	c.checkpoints, c.results = make([][]byte, len(c.parts)), make([]execution.SubtaskResult, len(c.parts))
	c.left, c.open = len(c.parts), nil
	for i := range c.parts {
		c.open = append(c.open, i)
	}
	nodes, ctx := errgroup.WithContext(ctx)
	for node := range c.nodes {
		r := rand.New(rand.NewPCG(c.seed, uint64(node)))
		opts := c.opts
		opts.Scheduler, opts.TempDir = nil, fmt.Sprintf("%s/node%d", c.opts.TempDir, node)
		nodes.Go(func() error { return c.work(ctx, opts, r) })
	}
	err := nodes.Wait()
	return c.results, true, err
}

// work builds parts until all are done.
func (c *testNodes) work(ctx context.Context, opts Options, r *rand.Rand) error {
	for {
		first, ok := c.first(r)
		if !ok {
			return nil
		}
		held := []int{first}
		results, err := RunSubtasks(ctx, opts, SubtasksSpec{
			Task: c.task, First: c.part(first),
			Next: func(context.Context) (HeldSubtask, bool, error) {
				i, ok := c.take(r)
				if !ok || r.IntN(5) == 0 {
					c.giveBack(i, ok)
					return HeldSubtask{}, false, nil
				}
				held = append(held, i)
				return c.part(i), true, nil
			},
			Save: func(_ context.Context, checkpoints [][]byte) error {
				c.mu.Lock()
				defer c.mu.Unlock()
				for k, data := range checkpoints {
					c.checkpoints[held[k]] = data
				}
				return nil
			},
		})
		if err != nil && !errors.Is(err, backfilltest.ErrInjected) {
			c.stop()
			return err
		}
		c.end(held, results, err)
	}
}

func (c *testNodes) part(i int) HeldSubtask {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checkpoints[i] != nil {
		c.resumed++
	}
	return HeldSubtask{Subtask: c.parts[i], Checkpoint: c.checkpoints[i]}
}

// first waits for a part, or until none is left.
func (c *testNodes) first(r *rand.Rand) (i int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.left > 0 && len(c.open) == 0 {
		c.changed.Wait()
	}
	return c.takeLocked(r)
}

func (c *testNodes) take(r *rand.Rand) (i int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeLocked(r)
}

func (c *testNodes) takeLocked(r *rand.Rand) (i int, ok bool) {
	if len(c.open) == 0 || c.left == 0 {
		return 0, false
	}
	at := r.IntN(len(c.open))
	i = c.open[at]
	c.open = slices.Delete(c.open, at, at+1)
	return i, true
}

func (c *testNodes) giveBack(i int, taken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if taken {
		c.open = append(c.open, i)
		c.changed.Broadcast()
	}
}

func (c *testNodes) end(held []int, results []execution.SubtaskResult, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.together = max(c.together, len(held))
	if err != nil {
		c.failures++
		c.open = append(c.open, held...)
	} else {
		c.left -= len(held)
		for k, i := range held {
			c.results[i] = results[k]
		}
	}
	c.changed.Broadcast()
}

// stop ends all waits for parts that are not built any more.
func (c *testNodes) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = 0
	c.changed.Broadcast()
}

// TestPartsBuiltTogether: the results are those of the table and the entries its rows', for any parts that a node builds
// together, in any order, and regardless of where builds fail and are resumed.
func TestPartsBuiltTogether(t *testing.T) {
	r := backfilltest.Rand(t)
	var together, resumed, failures int
	// Few rounds may by chance fail nowhere: there are as many as it takes, or far too many.
	for n := 0; n < backfilltest.Rounds(24) || n < 100 && (together < 2 || failures == 0); n++ {
		var f *fixture
		var indexes []*model.IndexInfo
		var check func(ts uint64)
		if r.IntN(3) == 0 {
			p := newPartitioned(t, r, 2+r.IntN(12), 1+r.IntN(300))
			f, indexes = p.fixture, []*model.IndexInfo{backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, true, 2, 0)}
			check = func(ts uint64) { p.parts.RequireIndexes(ts, indexes...) }
		} else {
			table, idx, kinds := backfilltest.RandomTable(r)
			f = newFixture(t, table, kinds)
			f.Insert(r, 1+r.IntN(3000))
			idx.Unique = false
			indexes = []*model.IndexInfo{idx}
			check = func(ts uint64) { f.RequireIndex(idx, ts, backfilltest.Describe(table, idx, kinds)) }
		}
		spec := f.spec(indexes...)
		store := &backfilltest.FaultyStore{Store: f.Store}
		faults := rand.New(rand.NewPCG(r.Uint64(), 0))
		var mu sync.Mutex
		left := 3
		fail := func(of int) error {
			mu.Lock()
			defer mu.Unlock()
			if left > 0 && faults.IntN(of) == 0 {
				left--
				return backfilltest.ErrInjected
			}
			return nil
		}
		store.OnImport = func(int64) error { return fail(2) }
		store.OnScan = func(int64) error {
			time.Sleep(time.Millisecond / 4) // so that the checkpoint interval passes
			return fail(30)
		}
		opts := f.options()
		opts.Store, opts.BatchRows = store, 64
		opts.CheckpointInterval = time.Duration(1+r.IntN(40)) * time.Millisecond
		opts.TempDir = t.TempDir()
		scheduler := newTestNodes(t, opts, spec.Task, r)
		opts = f.options() // of the verification
		opts.Scheduler = scheduler
		res, err := Run(f.Ctx, opts, spec)
		require.NoError(t, err, "%d parts, %d nodes", scheduler.n, scheduler.nodes)
		require.False(t, res.Rebuilt)
		check(spec.TS)
		f.RequireNoTempFiles()
		together, resumed, failures = max(together, scheduler.together), resumed+scheduler.resumed, failures+scheduler.failures
	}
	t.Logf("at most %d parts together, %d failures, %d parts gone on with", together, failures, resumed)
	require.Greater(t, together, 1)
	require.Positive(t, failures)
}

// cut cuts the rows of a task into n parts.
func (f *fixture) cut(task encode.Task, n int) []execution.Subtask {
	f.T.Helper()
	opts := f.options().Common()
	opts.EnsureDefaults()
	x, err := execution.New(opts, task)
	require.NoError(f.T, err)
	tasks, err := x.PlanRows(f.Ctx)
	require.NoError(f.T, err)
	parts := execution.CutSubtasks(tasks, n)
	require.Len(f.T, parts, n)
	return parts
}

// following hands out all parts behind the first, in order, and calls came for each.
func following(parts []execution.Subtask, came func(i int)) func(context.Context) (HeldSubtask, bool, error) {
	next := 0
	return func(context.Context) (HeldSubtask, bool, error) {
		if next++; next == len(parts) {
			return HeldSubtask{}, false, nil
		}
		came(next)
		return HeldSubtask{Subtask: parts[next]}, true, nil
	}
}

// Each part of a build that has failed goes on by itself, from a checkpoint of its own.
func TestPartsGoOnAlone(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 3000)
	idx := backfilltest.IndexOn(9, false, 1)
	spec := f.spec(idx)
	parts := f.cut(spec.Task, 3)
	var saved [][]byte
	for len(saved) < 3 { // the interval may have passed before all parts had come
		joined := make(chan struct{})
		store := &backfilltest.FaultyStore{Store: f.Store}
		store.OnScan = func(int64) error {
			select {
			case <-joined:
			case <-time.After(time.Second):
			}
			return nil
		}
		store.OnImport = func(n int64) error {
			if n > 1 {
				return kv.ErrClosed // for good: it is not tried again
			}
			return nil
		}
		opts := f.options()
		opts.Store, opts.BatchRows, opts.CheckpointInterval, opts.MaxWorkers = store, 64, 50*time.Millisecond, 2
		_, err := RunSubtasks(f.Ctx, opts, SubtasksSpec{
			Task: spec.Task, First: HeldSubtask{Subtask: parts[0]},
			Next: following(parts, func(i int) {
				if i == 2 {
					time.AfterFunc(100*time.Millisecond, func() { close(joined) })
				}
			}),
			Save: func(_ context.Context, checkpoints [][]byte) error { saved = checkpoints; return nil },
		})
		require.ErrorIs(t, err, kv.ErrClosed)
	}
	require.Len(t, saved, 3)
	var rows int64
	for i := range parts {
		result, err := runPart(f.Ctx, f.options(), spec.Task, HeldSubtask{Subtask: parts[i], Checkpoint: saved[i]})
		require.NoError(t, err)
		rows += result.Rows
	}
	require.EqualValues(t, len(f.Rows), rows)
	f.RequireIndex(idx, spec.TS, "in the end")
}

// Parts that one build has are sampled once and imported once, and the first and the last
// rows of each are there.
func TestPartsAreImportedOnce(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 2000)
	idx := backfilltest.IndexOn(9, false, 1)
	spec := f.spec(idx)
	parts := f.cut(spec.Task, 5)
	store := &backfilltest.FaultyStore{Store: f.Store}
	opts := f.options()
	opts.Store = store
	results, err := RunSubtasks(f.Ctx, opts, SubtasksSpec{
		Task: spec.Task, First: HeldSubtask{Subtask: parts[0]}, Next: following(parts, func(int) {}),
	})
	require.NoError(t, err)
	require.Len(t, results, 5)
	require.EqualValues(t, 1, store.Imports.Load())
	require.EqualValues(t, len(f.Rows), results[0].Rows, "all were built now")
	require.EqualValues(t, len(f.Rows), results[0].Totals[0].Entries)
	require.Zero(t, results[1].Rows)
	require.Equal(t, []ingest.Totals{{}}, results[1].Totals)
	require.Equal(t, []execution.Intervals{{Sums: results[1].Totals}}, results[1].Intervals)
	f.RequireIndex(idx, spec.TS, "together")
}

// A build ends with the error of Next, which is asked for a further part.
func TestNextPartFails(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 500)
	spec := f.spec(backfilltest.IndexOn(9, false, 1))
	whole := encode.RecordRange(table.ID)
	first := HeldSubtask{Subtask: execution.Subtask{Ranges: []keyrange.StoredWeighted{{Start: whole.Start, End: whole.End}}}}
	for _, next := range []func(context.Context) (HeldSubtask, bool, error){
		func(context.Context) (HeldSubtask, bool, error) {
			return HeldSubtask{}, false, backfilltest.ErrInjected
		},
		func(context.Context) (HeldSubtask, bool, error) { panic(backfilltest.ErrInjected) },
	} {
		_, err := RunSubtasks(f.Ctx, f.options(), SubtasksSpec{Task: spec.Task, First: first, Next: next})
		require.ErrorContains(t, err, backfilltest.ErrInjected.Error())
		f.RequireNoTempFiles()
	}
}
