package backfill

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

	"fastddl/config"
	"fastddl/event"
	"fastddl/kv"
)

// built returns a table with rows and the indexes that they give.
func built(t *testing.T, r *rand.Rand, rows int, indexes ...*model.IndexInfo) *fixture {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(r, rows)
	_, err := Run(f.ctx, f.options(), f.spec(indexes...))
	require.NoError(t, err)
	return f
}

func (f *fixture) compareOptions() executionOptions { return executionOptions{Store: f.store} }

func (f *fixture) compare(indexes ...*model.IndexInfo) CompareResult {
	f.t.Helper()
	res, err := Compare(f.ctx, executionOptions{Store: f.store}, f.task(indexes...))
	require.NoError(f.t, err)
	return res
}

func TestCompareFindsNothingInWhatIsRight(t *testing.T) {
	r := newRand(t)
	for range rounds(12) {
		table, idx, kinds := randomTable(r)
		f := newFixture(t, table, kinds)
		f.insert(r, r.IntN(3000))
		second := randomIndex(r, table, kinds, 8)
		idx.Unique, second.Unique = false, false
		_, err := Run(f.ctx, f.options(), f.spec(idx, second))
		require.NoError(t, err)
		f.mutate(r, 200, idx)
		res := f.compare(idx)
		require.True(t, res.Clean(), describe(table, idx, kinds))
		require.EqualValues(t, len(f.rows), res.Rows)
		require.Equal(t, []int64{int64(len(f.rows))}, res.Entries)
	}
}

// TestCompareFindsEveryDifference damages an index in every way, and compares what
// is found with what the rows and the index say when they are read naively.
func TestCompareFindsEveryDifference(t *testing.T) {
	r := newRand(t)
	for range rounds(24) {
		f, idx, second, what := damaged(t, r, 50)

		res := f.compare(idx, second)
		require.False(t, res.More)
		require.Equal(t, f.naiveDifferences(idx, second), res.Differences, what)
		require.EqualValues(t, len(f.rows), res.Rows)
		require.EqualValues(t, len(f.entriesAt(idx, f.ts())), res.Entries[0])
	}
}

// comparers compare the parts of a task in this process, three at a time.
type comparers struct {
	opts  executionOptions
	task  Task
	n     int
	parts []int // by comparison
	// change, if it is set, is made to the result of a part.
	change func(i int, r *PartResult)
}

func (c *comparers) Build(ctx context.Context, w SharedWork) ([]PartResult, bool, error) {
	parts := w.Cut(c.n)
	c.parts = append(c.parts, len(parts))
	results := make([]PartResult, len(parts))
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(3)
	for i, part := range parts {
		workers.Go(func() (err error) {
			results[i], err = ComparePart(ctx, c.opts, PartSpec{Task: c.task, Part: part})
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
func (f *fixture) sharedComparison(n int, task Task) (executionOptions, *comparers) {
	c := &comparers{opts: f.compareOptions(), task: task, n: n}
	opts := f.compareOptions()
	opts.Crew = c
	return opts, c
}

// A comparison in parts finds what one in one piece does, whatever the table is and however
// it is cut.
func TestSharedComparison(t *testing.T) {
	r := newRand(t)
	for range rounds(24) {
		f, idx, second, what := damaged(t, r, 3)

		task := f.task(idx, second)
		want, err := Compare(f.ctx, executionOptions{Store: f.store}, task)
		require.NoError(t, err)
		opts, crew := f.sharedComparison(1+r.IntN(9), task)
		got, err := Compare(f.ctx, opts, task)
		what = fmt.Sprintf("%s in %v parts", what, crew.parts)
		require.NoError(t, err, what)
		require.Len(t, crew.parts, 1)
		require.Equal(t, want, got, what)
	}
}

// What one of the parts loses is missed by the one who adds them up.
func TestSharedComparisonMissesLostRows(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(5000)
	idx := indexOn(9, false, 1)
	for _, part := range []int{0, 2} {
		opts, crew := f.sharedComparison(3, f.task(idx))
		crew.opts.BatchRows = 100
		crew.change = func(i int, r *PartResult) {
			if i == part {
				r.Rows--
			}
		}
		_, err := Compare(f.ctx, opts, f.task(idx))
		require.ErrorAs(t, err, new(*RowCountError))
		crew.change = func(i int, r *PartResult) {
			if i == part {
				r.Compared = nil
			}
		}
		_, err = Compare(f.ctx, opts, f.task(idx))
		require.ErrorContains(t, err, "was not compared")
		crew.change = func(i int, r *PartResult) {
			if i == part {
				r.Compared.Sums = r.Compared.Sums[1:]
			}
		}
		_, err = Compare(f.ctx, opts, f.task(idx))
		require.ErrorContains(t, err, "sums of")
	}
}

// damaged returns a table with two indexes, of each of which fewer than most entries are
// spoilt, and what it is.
func damaged(t *testing.T, r *rand.Rand, most int) (f *fixture, idx, second *model.IndexInfo, what string) {
	table, idx, kinds := randomTable(r)
	f = newFixture(t, table, kinds)
	f.insert(r, 1+r.IntN(2000))
	second = randomIndex(r, table, kinds, 8)
	second.Unique = false
	var c changes
	for _, i := range []*model.IndexInfo{idx, second} {
		for k, v := range f.wantEntries(i) { // one of several rows with the same key
			c.put([]byte(k), []byte(v))
		}
	}
	f.commit(c)
	f.damage(r, idx, r.IntN(most))
	f.damage(r, second, r.IntN(most))
	return f, idx, second, describe(table, idx, kinds)
}

// damage spoils n entries of an index: it drops them, gives them other values,
// exchanges values, or adds entries that no row has.
func (f *fixture) damage(r *rand.Rand, idx *model.IndexInfo, n int) {
	entries := f.entriesAt(idx, f.ts())
	var keys []string
	for k := range entries {
		keys = append(keys, k)
	}
	var c changes
	for range n {
		k, other := keys[r.IntN(len(keys))], keys[r.IntN(len(keys))]
		switch r.IntN(4) {
		case 0:
			c.delete([]byte(k))
		case 1:
			c.put([]byte(k), append([]byte(entries[k]), 'x'))
		case 2:
			c.put([]byte(k), []byte(entries[other]))
			c.put([]byte(other), []byte(entries[k]))
		case 3:
			c.put(append([]byte(k), byte(r.IntN(256))), []byte(entries[k]))
		}
	}
	f.commit(c)
}

// naiveDifferences is what Compare is to find.
func (f *fixture) naiveDifferences(indexes ...*model.IndexInfo) (list []Difference) {
	for _, idx := range indexes {
		byKey := make(map[string]*Difference)
		at := func(key string) *Difference {
			if byKey[key] == nil {
				byKey[key] = &Difference{Index: idx.ID, Key: []byte(key)}
			}
			return byKey[key]
		}
		for recordKey, row := range f.rows {
			key, value, _ := libraryEntry(f.t, f.table, idx, slices.Clone(row.values), row.handle)
			d := at(string(key))
			d.Rows++
			d.Claims = append(d.Claims, Claim{[]byte(recordKey), value})
		}
		for key, value := range f.entriesAt(idx, f.ts()) {
			at(key).Actual = []byte(value)
		}
		var wrong []Difference
		for _, d := range byKey {
			if d.Rows != 1 || !bytes.Equal(d.Claims[0].Value, d.Actual) {
				slices.SortFunc(d.Claims, func(a, b Claim) int { return bytes.Compare(a.RecordKey, b.RecordKey) })
				d.Claims = d.Claims[:min(len(d.Claims), maxClaims)]
				wrong = append(wrong, *d)
			}
		}
		slices.SortFunc(wrong, func(a, b Difference) int { return bytes.Compare(a.Key, b.Key) })
		list = append(list, wrong...)
	}
	return list
}

func TestCompareOfWholeIndexMissing(t *testing.T) {
	r := newRand(t)
	idx := indexOn(9, true, 0, 1)
	f := built(t, r, 500, idx)
	f.load(150_000)
	clear(f.rows)
	res := f.compare(idx)
	require.True(t, res.More)
	require.False(t, res.Clean())
	require.Len(t, res.Differences, maxDifferences)
	require.GreaterOrEqual(t, res.Rows, int64(150_000))

	f.dropIndex(idx)
	_, err := Run(f.ctx, f.options(), f.spec(idx))
	require.NoError(t, err)
	res = f.compare(idx)
	require.True(t, res.Clean())
	require.Equal(t, res.Rows, res.Entries[0])
}

// TestCompareNamesRowsThatShareAKey: of the rows that claim a key of a unique index
// the first ones are named, and all are counted.
func TestCompareNamesRowsThatShareAKey(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	idx := indexOn(9, true, 1)
	f.put(1, 1)
	for id := int64(2); id < 30; id++ {
		f.put(id, 7)
	}
	f.put(40, nil)
	f.put(41, nil)
	key, value, _ := libraryEntry(t, table, idx, f.rowWith(1).values, f.rowWith(1).handle)
	var c changes
	c.put(key, value)
	for _, id := range []int64{40, 41} {
		key, value, _ := libraryEntry(t, table, idx, f.rowWith(id).values, f.rowWith(id).handle)
		c.put(key, value)
	}
	f.commit(c)
	res := f.compare(idx)
	require.Len(t, res.Differences, 1)
	d := res.Differences[0]
	require.EqualValues(t, 28, d.Rows)
	require.Len(t, d.Claims, maxClaims)
	require.Nil(t, d.Actual)
}

// losingStore loses the n-th batch of every scan.
type losingStore struct {
	kv.Store
	n int
}

func (s *losingStore) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	n := 0
	return s.Store.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		if n++; n == s.n {
			return nil
		}
		return fn(b)
	})
}

// TestRowsLostByTheScanAreMissed: an index that lacks what a scan has lost is not
// found right by a comparison whose own scan loses the same.
func TestRowsLostByTheScanAreMissed(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(5000)
	idx := indexOn(9, false, 1)
	opts := f.compareOptions()
	opts.Store, opts.BatchRows = &losingStore{f.store, 2}, 100
	opts.MaxWorkers = 2 // ranges of several batches
	_, err := Compare(f.ctx, opts, f.task(idx))
	var lost *RowCountError
	require.ErrorAs(t, err, &lost)
	require.EqualValues(t, 5000, lost.Keys)
	require.Less(t, lost.Scanned, lost.Keys)
}

func TestCompareObeysItsContext(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(20_000)
	idx := indexOn(9, false, 1)
	for at := range int64(3) {
		ctx, cancel := context.WithCancelCause(f.ctx)
		opts := executionOptions{Store: &faultyStore{Store: f.store, onScan: func(n int64) error {
			if n == 1+at {
				cancel(errInjected)
			}
			return nil
		}}}
		_, err := Compare(ctx, opts, f.task(idx))
		require.ErrorIs(t, err, errInjected)
	}
	failed := executionOptions{Store: &faultyStore{Store: f.store, onRead: func(n int64) error {
		if n > 2 {
			return errInjected
		}
		return nil
	}}}
	_, err := Compare(f.ctx, failed, f.task(idx))
	require.ErrorIs(t, err, errInjected)
	panicked := executionOptions{Store: &faultyStore{Store: f.store, onRead: func(int64) error { panic("injected panic") }}}
	_, err = Compare(f.ctx, panicked, f.task(idx))
	require.ErrorContains(t, err, "injected panic")
	_, err = Compare(f.ctx, executionOptions{}, Task{})
	require.ErrorContains(t, err, "Store is missing")
	require.ErrorContains(t, err, "Table is missing")
}

func TestCompareReportsProgress(t *testing.T) {
	r := newRand(t)
	idx := indexOn(9, false, 1)
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
	_, err := Compare(f.ctx, opts, f.task(idx))
	require.NoError(t, err)
	require.Equal(t, []string{"compare"}, stages)
	require.Equal(t, "compare", last.Stage)
	require.Equal(t, 1.0, last.StageDone)
	require.EqualValues(t, len(f.rows), last.RowsDone)
}

// TestRowEncoderEncodesAsTheLibrary: a single row has the entries that a build
// gives it, also if the library makes them.
func TestRowEncoderEncodesAsTheLibrary(t *testing.T) {
	r := newRand(t)
	for range rounds(60) {
		table, idx, kinds := randomTable(r)
		f := newFixture(t, table, kinds)
		f.insert(r, 20)
		for _, encoder := range []func(Task) (*RowEncoder, error){NewRowEncoder, newLibraryRowEncoder} {
			enc, err := encoder(f.task(idx))
			require.NoError(t, err)
			for key, row := range f.rows {
				entries, err := enc.Encode([]byte(key), f.encodeRow(row.values))
				require.NoError(t, err)
				wantKey, wantValue, _ := libraryEntry(t, table, idx, slices.Clone(row.values), row.handle)
				require.Equal(t, []Entry{{idx.ID, wantKey, wantValue}}, entries, describe(table, idx, kinds))
			}
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	table, kinds := plainTable()
	f := newFixture(b, table, kinds)
	f.load(*benchRows)
	idx := indexOn(9, false, *benchColumn)
	_, err := Run(f.ctx, f.options(), f.spec(idx))
	require.NoError(b, err)
	for b.Loop() {
		start := time.Now()
		res, err := Compare(f.ctx, executionOptions{Store: f.store}, f.task(idx))
		require.NoError(b, err)
		require.True(b, res.Clean())
		fmt.Printf("compare %s\n", time.Since(start))
	}
	b.ReportMetric(float64(*benchRows*b.N)/b.Elapsed().Seconds(), "rows/s")
}
