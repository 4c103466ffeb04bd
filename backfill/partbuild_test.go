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

	"fastddl/kv"
)

// team builds the parts of a task on a few nodes in this process, each of which takes parts
// as package ddl does: one, and further ones while it builds. Builds that fail give their
// parts back, with the checkpoints that they have saved.
type team struct {
	t     *testing.T
	opts  Options
	task  Task
	n     int // parts
	nodes int
	seed  uint64

	mu          sync.Mutex
	changed     *sync.Cond
	parts       []Part
	checkpoints [][]byte
	results     []PartResult
	open        []int
	left        int // not done
	failures    int // of builds, each with parts that it had
	together    int // most parts in one build
	resumed     int // parts that began with a checkpoint
}

func newTeam(t *testing.T, opts Options, task Task, r *rand.Rand) *team {
	c := &team{t: t, opts: opts, task: task, n: 1 + r.IntN(9), nodes: 1 + r.IntN(3), seed: r.Uint64()}
	c.changed = sync.NewCond(&c.mu)
	return c
}

func (*team) SumsInStore() bool { return true }

func (c *team) Build(ctx context.Context, w SharedWork) ([]PartResult, bool, error) {
	c.parts = w.Cut(c.n)
	c.checkpoints, c.results = make([][]byte, len(c.parts)), make([]PartResult, len(c.parts))
	c.left, c.open = len(c.parts), nil
	for i := range c.parts {
		c.open = append(c.open, i)
	}
	nodes, ctx := errgroup.WithContext(ctx)
	for node := range c.nodes {
		r := rand.New(rand.NewPCG(c.seed, uint64(node)))
		opts := c.opts
		opts.Crew, opts.TempDir = nil, fmt.Sprintf("%s/node%d", c.opts.TempDir, node)
		nodes.Go(func() error { return c.work(ctx, opts, r) })
	}
	err := nodes.Wait()
	return c.results, true, err
}

// work builds parts until all are done.
func (c *team) work(ctx context.Context, opts Options, r *rand.Rand) error {
	for {
		first, ok := c.first(r)
		if !ok {
			return nil
		}
		held := []int{first}
		results, err := RunParts(ctx, opts, PartsSpec{
			Task: c.task, First: c.part(first),
			Next: func(context.Context) (HeldPart, bool, error) {
				i, ok := c.take(r)
				if !ok || r.IntN(5) == 0 {
					c.giveBack(i, ok)
					return HeldPart{}, false, nil
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
		if err != nil && !errors.Is(err, errInjected) {
			c.stop()
			return err
		}
		c.end(held, results, err)
	}
}

func (c *team) part(i int) HeldPart {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checkpoints[i] != nil {
		c.resumed++
	}
	return HeldPart{c.parts[i], c.checkpoints[i]}
}

// first waits for a part, or until none is left.
func (c *team) first(r *rand.Rand) (i int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.left > 0 && len(c.open) == 0 {
		c.changed.Wait()
	}
	return c.takeLocked(r)
}

func (c *team) take(r *rand.Rand) (i int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeLocked(r)
}

func (c *team) takeLocked(r *rand.Rand) (i int, ok bool) {
	if len(c.open) == 0 || c.left == 0 {
		return 0, false
	}
	at := r.IntN(len(c.open))
	i = c.open[at]
	c.open = slices.Delete(c.open, at, at+1)
	return i, true
}

func (c *team) giveBack(i int, taken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if taken {
		c.open = append(c.open, i)
		c.changed.Broadcast()
	}
}

func (c *team) end(held []int, results []PartResult, err error) {
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

// stop lets nobody wait for parts that nobody will do.
func (c *team) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = 0
	c.changed.Broadcast()
}

// Whichever parts a node builds together, in whatever order they come, and wherever builds
// fail and are gone on with, the results are those of the table and the entries its rows'.
func TestPartsBuiltTogether(t *testing.T) {
	r := newRand(t)
	var together, resumed, failures int
	// Few rounds may by chance fail nowhere: there are as many as it takes, or far too many.
	for n := 0; n < rounds(24) || n < 100 && (together < 2 || failures == 0); n++ {
		var f *fixture
		var indexes []*model.IndexInfo
		var check func(ts uint64)
		if r.IntN(3) == 0 {
			p := newPartitioned(t, r, 2+r.IntN(12), 1+r.IntN(300))
			f, indexes = p.fixture, []*model.IndexInfo{indexOn(9, false, 1), indexOn(10, true, 2, 0)}
			check = func(ts uint64) { p.parts.requireIndexes(ts, indexes...) }
		} else {
			table, idx, kinds := randomTable(r)
			f = newFixture(t, table, kinds)
			f.insert(r, 1+r.IntN(3000))
			idx.Unique = false
			indexes = []*model.IndexInfo{idx}
			check = func(ts uint64) { f.requireIndex(idx, ts, describe(table, idx, kinds)) }
		}
		spec := f.spec(indexes...)
		store := &faultyStore{Store: f.store}
		faults := rand.New(rand.NewPCG(r.Uint64(), 0))
		var mu sync.Mutex
		left := 3
		fail := func(of int) error {
			mu.Lock()
			defer mu.Unlock()
			if left > 0 && faults.IntN(of) == 0 {
				left--
				return errInjected
			}
			return nil
		}
		store.onImport = func(int64) error { return fail(2) }
		store.onScan = func(int64) error {
			time.Sleep(time.Millisecond / 4) // so that the checkpoint interval passes
			return fail(30)
		}
		opts := f.options()
		opts.Store, opts.BatchRows = store, 64
		opts.CheckpointInterval = time.Duration(1+r.IntN(40)) * time.Millisecond
		opts.TempDir = t.TempDir()
		crew := newTeam(t, opts, spec.Task, r)
		opts = f.options() // of the verification
		opts.Crew = crew
		res, err := Run(f.ctx, opts, spec)
		require.NoError(t, err, "%d parts, %d nodes", crew.n, crew.nodes)
		require.False(t, res.Rebuilt)
		check(spec.TS)
		f.requireNoTempFiles()
		together, resumed, failures = max(together, crew.together), resumed+crew.resumed, failures+crew.failures
	}
	t.Logf("at most %d parts together, %d failures, %d parts gone on with", together, failures, resumed)
	require.Greater(t, together, 1)
	require.Positive(t, failures)
}

// cut cuts the rows of a task into n parts.
func (f *fixture) cut(task Task, n int) []Part {
	f.t.Helper()
	opts := f.options().Common()
	opts.EnsureDefaults()
	x, err := newExecution(opts, task)
	require.NoError(f.t, err)
	tasks, err := x.planRows(f.ctx)
	require.NoError(f.t, err)
	parts := cutParts(tasks, n)
	require.Len(f.t, parts, n)
	return parts
}

// following hands out all parts behind the first, in order, and calls came for each.
func following(parts []Part, came func(i int)) func(context.Context) (HeldPart, bool, error) {
	next := 0
	return func(context.Context) (HeldPart, bool, error) {
		if next++; next == len(parts) {
			return HeldPart{}, false, nil
		}
		came(next)
		return HeldPart{Part: parts[next]}, true, nil
	}
}

// Each part of a build that has failed goes on by itself, from a checkpoint of its own.
func TestPartsGoOnAlone(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(newRand(t), 3000)
	idx := indexOn(9, false, 1)
	spec := f.spec(idx)
	parts := f.cut(spec.Task, 3)
	var saved [][]byte
	for len(saved) < 3 { // the interval may have passed before all parts had come
		joined := make(chan struct{})
		store := &faultyStore{Store: f.store}
		store.onScan = func(int64) error {
			select {
			case <-joined:
			case <-time.After(time.Second):
			}
			return nil
		}
		store.onImport = func(n int64) error {
			if n > 1 {
				return kv.ErrClosed // for good: nobody tries it again
			}
			return nil
		}
		opts := f.options()
		opts.Store, opts.BatchRows, opts.CheckpointInterval, opts.MaxWorkers = store, 64, 50*time.Millisecond, 2
		_, err := RunParts(f.ctx, opts, PartsSpec{
			Task: spec.Task, First: HeldPart{Part: parts[0]},
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
		result, err := runPart(f.ctx, f.options(), spec.Task, HeldPart{parts[i], saved[i]})
		require.NoError(t, err)
		rows += result.Rows
	}
	require.EqualValues(t, len(f.rows), rows)
	f.requireIndex(idx, spec.TS, "in the end")
}

// Parts that one build has are sampled once and imported once, and the first and the last
// rows of each are there.
func TestPartsAreImportedOnce(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(newRand(t), 2000)
	idx := indexOn(9, false, 1)
	spec := f.spec(idx)
	parts := f.cut(spec.Task, 5)
	store := &faultyStore{Store: f.store}
	opts := f.options()
	opts.Store = store
	results, err := RunParts(f.ctx, opts, PartsSpec{
		Task: spec.Task, First: HeldPart{Part: parts[0]}, Next: following(parts, func(int) {}),
	})
	require.NoError(t, err)
	require.Len(t, results, 5)
	require.EqualValues(t, 1, store.imports.Load())
	require.EqualValues(t, len(f.rows), results[0].Rows, "all were built now")
	require.EqualValues(t, len(f.rows), results[0].Totals[0].Entries)
	require.Equal(t, PartResult{Totals: results[1].Totals}, results[1])
	require.Zero(t, results[1].Totals[0].Entries)
	f.requireIndex(idx, spec.TS, "together")
}

// A build ends with the error of whoever is asked for a further part.
func TestNextPartFails(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(newRand(t), 500)
	spec := f.spec(indexOn(9, false, 1))
	whole := recordRange(table.ID)
	first := HeldPart{Part: Part{Tasks: []checkpointTask{{Start: whole.Start, End: whole.End}}}}
	for _, next := range []func(context.Context) (HeldPart, bool, error){
		func(context.Context) (HeldPart, bool, error) { return HeldPart{}, false, errInjected },
		func(context.Context) (HeldPart, bool, error) { panic(errInjected) },
	} {
		_, err := RunParts(f.ctx, f.options(), PartsSpec{Task: spec.Task, First: first, Next: next})
		require.ErrorContains(t, err, errInjected.Error())
		f.requireNoTempFiles()
	}
}
