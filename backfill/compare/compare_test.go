package compare_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fastddl/backfill"
	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/config"
	"fastddl/event"
)

// built returns a table with rows and the indexes that they give.
func built(t *testing.T, r *rand.Rand, rows int, indexes ...*model.IndexInfo) *fixture {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(r, rows)
	_, err := backfill.Run(f.Ctx, f.options(), f.spec(indexes...))
	require.NoError(t, err)
	return f
}

func (f *fixture) compareOptions() execution.Options { return execution.Options{Store: f.Store} }

func (f *fixture) compare(indexes ...*model.IndexInfo) compare.Result {
	f.T.Helper()
	res, err := compare.Run(f.Ctx, execution.Options{Store: f.Store}, f.task(indexes...))
	require.NoError(f.T, err)
	return res
}

func TestCompareFindsNothingInWhatIsRight(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(12) {
		table, idx, kinds := backfilltest.RandomTable(r)
		f := newFixture(t, table, kinds)
		f.Insert(r, r.IntN(3000))
		second := backfilltest.RandomIndex(r, table, kinds, 8)
		idx.Unique, second.Unique = false, false
		_, err := backfill.Run(f.Ctx, f.options(), f.spec(idx, second))
		require.NoError(t, err)
		f.Mutate(r, 200, idx)
		res := f.compare(idx)
		require.True(t, res.Clean(), backfilltest.Describe(table, idx, kinds))
		require.EqualValues(t, len(f.Rows), res.Rows)
		require.Equal(t, []int64{int64(len(f.Rows))}, res.Entries)
	}
}

// TestCompareFindsEveryDifference damages an index in every way, and compares what
// is found with what the rows and the index say when they are read naively.
func TestCompareFindsEveryDifference(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(24) {
		f, idx, second, what := damaged(t, r, 50)

		res := f.compare(idx, second)
		require.False(t, res.More)
		require.Equal(t, f.naiveDifferences(idx, second), res.Differences, what)
		require.EqualValues(t, len(f.Rows), res.Rows)
		require.EqualValues(t, len(f.EntriesAt(idx, f.TS())), res.Entries[0])
	}
}

// comparers compare the parts of a task in this process, three at a time.
type comparers struct {
	opts  execution.Options
	task  encode.Task
	n     int
	parts []int // by comparison
	// change, if it is set, is made to the result of a part.
	change func(i int, r *execution.SubtaskResult)
}

func (c *comparers) Build(ctx context.Context, w execution.Work) ([]execution.SubtaskResult, bool, error) {
	parts := w.Cut(c.n)
	c.parts = append(c.parts, len(parts))
	results := make([]execution.SubtaskResult, len(parts))
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(3)
	for i, part := range parts {
		workers.Go(func() (err error) {
			results[i], err = compare.RunSubtask(ctx, c.opts, compare.SubtaskSpec{Task: c.task, Subtask: part})
			if err == nil && c.change != nil {
				c.change(i, &results[i])
			}
			return err
		})
	}
	return results, true, workers.Wait()
}

func (c *comparers) SumsInStore() bool { return true }

// sharedComparison are options of a comparison in n parts.
func (f *fixture) sharedComparison(n int, task encode.Task) (execution.Options, *comparers) {
	c := &comparers{opts: f.compareOptions(), task: task, n: n}
	opts := f.compareOptions()
	opts.Scheduler = c
	return opts, c
}

// TestSharedComparison: a comparison in subtasks finds what one in one piece does, for every table and every cut.
func TestSharedComparison(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(24) {
		f, idx, second, what := damaged(t, r, 3)

		task := f.task(idx, second)
		want, err := compare.Run(f.Ctx, execution.Options{Store: f.Store}, task)
		require.NoError(t, err)
		opts, scheduler := f.sharedComparison(1+r.IntN(9), task)
		got, err := compare.Run(f.Ctx, opts, task)
		what = fmt.Sprintf("%s in %v parts", what, scheduler.parts)
		require.NoError(t, err, what)
		require.Len(t, scheduler.parts, 1)
		require.Equal(t, want, got, what)
	}
}

// What one of the parts loses is missed by the one who adds them up.
func TestSharedComparisonMissesLostRows(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(5000)
	idx := backfilltest.IndexOn(9, false, 1)
	for _, part := range []int{0, 2} {
		opts, scheduler := f.sharedComparison(3, f.task(idx))
		scheduler.opts.BatchRows = 100
		scheduler.change = func(i int, r *execution.SubtaskResult) {
			if i == part {
				r.Rows--
			}
		}
		_, err := compare.Run(f.Ctx, opts, f.task(idx))
		require.ErrorAs(t, err, new(*execution.RowCountError))
		scheduler.change = func(i int, r *execution.SubtaskResult) {
			if i == part {
				r.Compared = nil
			}
		}
		_, err = compare.Run(f.Ctx, opts, f.task(idx))
		require.ErrorContains(t, err, "was not compared")
		scheduler.change = func(i int, r *execution.SubtaskResult) {
			if i == part {
				r.Compared.Sums = r.Compared.Sums[1:]
			}
		}
		_, err = compare.Run(f.Ctx, opts, f.task(idx))
		require.ErrorContains(t, err, "sums of")
	}
}

// damaged returns a table with two indexes, of each of which fewer than most entries are
// spoilt, and what it is.
func damaged(t *testing.T, r *rand.Rand, most int) (f *fixture, idx, second *model.IndexInfo, what string) {
	table, idx, kinds := backfilltest.RandomTable(r)
	f = newFixture(t, table, kinds)
	f.Insert(r, 1+r.IntN(2000))
	second = backfilltest.RandomIndex(r, table, kinds, 8)
	second.Unique = false
	var c backfilltest.Changes
	for _, i := range []*model.IndexInfo{idx, second} {
		for k, v := range f.WantEntries(i) { // one of several rows with the same key
			c.Put([]byte(k), []byte(v))
		}
	}
	f.Commit(c)
	f.damage(r, idx, r.IntN(most))
	f.damage(r, second, r.IntN(most))
	return f, idx, second, backfilltest.Describe(table, idx, kinds)
}

// damage spoils n entries of an index: it drops them, gives them other values,
// exchanges values, or adds entries that no row has.
func (f *fixture) damage(r *rand.Rand, idx *model.IndexInfo, n int) {
	entries := f.EntriesAt(idx, f.TS())
	var keys []string
	for k := range entries {
		keys = append(keys, k)
	}
	var c backfilltest.Changes
	for range n {
		k, other := keys[r.IntN(len(keys))], keys[r.IntN(len(keys))]
		switch r.IntN(4) {
		case 0:
			c.Delete([]byte(k))
		case 1:
			c.Put([]byte(k), append([]byte(entries[k]), 'x'))
		case 2:
			c.Put([]byte(k), []byte(entries[other]))
			c.Put([]byte(other), []byte(entries[k]))
		case 3:
			c.Put(append([]byte(k), byte(r.IntN(256))), []byte(entries[k]))
		}
	}
	f.Commit(c)
}

// naiveDifferences is what Run is to find.
func (f *fixture) naiveDifferences(indexes ...*model.IndexInfo) (list []compare.Difference) {
	for _, idx := range indexes {
		byKey := make(map[string]*compare.Difference)
		at := func(key string) *compare.Difference {
			if byKey[key] == nil {
				byKey[key] = &compare.Difference{Index: idx.ID, Key: []byte(key)}
			}
			return byKey[key]
		}
		for recordKey, row := range f.Rows {
			key, value, _ := backfilltest.LibraryEntry(f.T, f.Table, idx, slices.Clone(row.Values), row.Handle)
			d := at(string(key))
			d.Rows++
			d.Claims = append(d.Claims, compare.Claim{RecordKey: []byte(recordKey), Value: value})
		}
		for key, value := range f.EntriesAt(idx, f.TS()) {
			at(key).Actual = []byte(value)
		}
		var wrong []compare.Difference
		for _, d := range byKey {
			if d.Rows != 1 || !bytes.Equal(d.Claims[0].Value, d.Actual) {
				slices.SortFunc(d.Claims, func(a, b compare.Claim) int { return bytes.Compare(a.RecordKey, b.RecordKey) })
				d.Claims = d.Claims[:min(len(d.Claims), compare.MaxClaims)]
				wrong = append(wrong, *d)
			}
		}
		slices.SortFunc(wrong, func(a, b compare.Difference) int { return bytes.Compare(a.Key, b.Key) })
		list = append(list, wrong...)
	}
	return list
}

func TestCompareOfWholeIndexMissing(t *testing.T) {
	r := backfilltest.Rand(t)
	idx := backfilltest.IndexOn(9, true, 0, 1)
	f := built(t, r, 500, idx)
	f.Load(150_000)
	clear(f.Rows)
	res := f.compare(idx)
	require.True(t, res.More)
	require.False(t, res.Clean())
	require.Len(t, res.Differences, compare.MaxDifferences)
	require.GreaterOrEqual(t, res.Rows, int64(150_000))

	f.DropIndex(idx)
	_, err := backfill.Run(f.Ctx, f.options(), f.spec(idx))
	require.NoError(t, err)
	res = f.compare(idx)
	require.True(t, res.Clean())
	require.Equal(t, res.Rows, res.Entries[0])
}

// TestCompareNamesRowsThatShareAKey: of the rows that claim a key of a unique index
// the first ones are named, and all are counted.
func TestCompareNamesRowsThatShareAKey(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	idx := backfilltest.IndexOn(9, true, 1)
	f.Put(1, 1)
	for id := int64(2); id < 30; id++ {
		f.Put(id, 7)
	}
	f.Put(40, nil)
	f.Put(41, nil)
	key, value, _ := backfilltest.LibraryEntry(t, table, idx, f.RowWith(1).Values, f.RowWith(1).Handle)
	var c backfilltest.Changes
	c.Put(key, value)
	for _, id := range []int64{40, 41} {
		key, value, _ := backfilltest.LibraryEntry(t, table, idx, f.RowWith(id).Values, f.RowWith(id).Handle)
		c.Put(key, value)
	}
	f.Commit(c)
	res := f.compare(idx)
	require.Len(t, res.Differences, 1)
	d := res.Differences[0]
	require.EqualValues(t, 28, d.Rows)
	require.Len(t, d.Claims, compare.MaxClaims)
	require.Nil(t, d.Actual)
}

// TestRowsLostByTheScanAreMissed: an index that lacks what a scan has lost is not
// found right by a comparison whose own scan loses the same.
func TestRowsLostByTheScanAreMissed(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(5000)
	idx := backfilltest.IndexOn(9, false, 1)
	opts := f.compareOptions()
	opts.Store, opts.BatchRows = &backfilltest.LosingStore{Store: f.Store, Batch: 2}, 100
	opts.MaxWorkers = 2 // ranges of several batches
	_, err := compare.Run(f.Ctx, opts, f.task(idx))
	var lost *execution.RowCountError
	require.ErrorAs(t, err, &lost)
	require.EqualValues(t, 5000, lost.Keys)
	require.Less(t, lost.Scanned, lost.Keys)
}

func TestCompareObeysItsContext(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(20_000)
	idx := backfilltest.IndexOn(9, false, 1)
	for at := range int64(3) {
		ctx, cancel := context.WithCancelCause(f.Ctx)
		opts := execution.Options{Store: &backfilltest.FaultyStore{Store: f.Store, OnScan: func(n int64) error {
			if n == 1+at {
				cancel(backfilltest.ErrInjected)
			}
			return nil
		}}}
		_, err := compare.Run(ctx, opts, f.task(idx))
		require.ErrorIs(t, err, backfilltest.ErrInjected)
	}
	failed := execution.Options{Store: &backfilltest.FaultyStore{Store: f.Store, OnRead: func(n int64) error {
		if n > 2 {
			return backfilltest.ErrInjected
		}
		return nil
	}}}
	_, err := compare.Run(f.Ctx, failed, f.task(idx))
	require.ErrorIs(t, err, backfilltest.ErrInjected)
	panicked := execution.Options{Store: &backfilltest.FaultyStore{Store: f.Store, OnRead: func(int64) error { panic("injected panic") }}}
	_, err = compare.Run(f.Ctx, panicked, f.task(idx))
	require.ErrorContains(t, err, "injected panic")
	_, err = compare.Run(f.Ctx, execution.Options{}, encode.Task{})
	require.ErrorContains(t, err, "Store is missing")
	require.ErrorContains(t, err, "Table is missing")
}

func TestCompareReportsProgress(t *testing.T) {
	r := backfilltest.Rand(t)
	idx := backfilltest.IndexOn(9, false, 1)
	f := built(t, r, 3000, idx)
	opts := f.compareOptions()
	opts.Bus, opts.Globals = &event.Bus{}, config.NewGlobals()
	var last event.Progress
	var stages []string
	opts.Bus.Subscribe(func(e event.Event) {
		switch e := e.(type) {
		case event.Progress:
			last = e
		case event.StageChanged:
			stages = append(stages, e.Stage)
		}
	})
	_, err := compare.Run(f.Ctx, opts, f.task(idx))
	require.NoError(t, err)
	require.Equal(t, []string{"compare"}, stages)
	require.Equal(t, "compare", last.Stage)
	require.Equal(t, 1.0, last.StageDone)
	require.EqualValues(t, len(f.Rows), last.RowsDone)
}

func BenchmarkCompare(b *testing.B) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(b, table, kinds)
	f.Load(*benchRows)
	idx := backfilltest.IndexOn(9, false, *benchColumn)
	_, err := backfill.Run(f.Ctx, f.options(), f.spec(idx))
	require.NoError(b, err)
	for b.Loop() {
		start := time.Now()
		res, err := compare.Run(f.Ctx, execution.Options{Store: f.Store}, f.task(idx))
		require.NoError(b, err)
		require.True(b, res.Clean())
		fmt.Printf("compare %s\n", time.Since(start))
	}
	b.ReportMetric(float64(*benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
}
