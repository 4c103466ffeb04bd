package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/event"
	"fastddl/internal/stage"
)

// uniqueRow is an entry of the i-th index: its value holds the row's handle, and
// padding so that indexes are cut into pieces.
type uniqueRow struct {
	index int
	key   uint64
	row   uint64
}

func (r uniqueRow) entry() (kv []byte, klen int) {
	key := intKey(r.key, 0)
	return binary.BigEndian.AppendUint64(append(key, make([]byte, 80)...), r.row), len(key)
}

// wantGroups is the naive list of duplicates of rows in unique indexes.
func wantGroups(indexes []KeySpace, rows []uniqueRow) []*DuplicateGroup {
	values := make([]map[string][][]byte, len(indexes))
	for i := range values {
		values[i] = map[string][][]byte{}
	}
	for _, r := range rows {
		kv, klen := r.entry()
		values[r.index][string(kv[:klen])] = append(values[r.index][string(kv[:klen])], kv[klen:])
	}
	var want []*DuplicateGroup
	for i, byKey := range values {
		var groups []*DuplicateGroup
		for key, v := range byKey {
			if len(v) < 2 || !indexes[i].Unique {
				continue
			}
			slices.SortFunc(v, bytes.Compare)
			groups = append(groups, &DuplicateGroup{
				IndexID: indexes[i].ID, Key: concat(indexes[i].Prefix, []byte(key)),
				Rows: int64(len(v)), Values: v[:min(len(v), MaxDuplicateValues)],
			})
		}
		slices.SortFunc(groups, func(a, b *DuplicateGroup) int { return bytes.Compare(a.Key, b.Key) })
		want = append(want, groups...)
	}
	return want[:min(len(want), MaxDuplicateGroups)]
}

// addRows appends rows in random order by several workers.
func addRows(t *testing.T, r *rand.Rand, job *Job, rows []uniqueRow, workers int) {
	rows = slices.Clone(rows)
	r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	for n := range workers {
		w := job.NewWorker(nil)
		for i := n; i < len(rows); i += workers {
			kv, klen := rows[i].entry()
			require.NoError(t, w.Append(rows[i].index, kv, klen))
			if i%4096 == n {
				_, err := w.EndBatch(context.Background())
				require.NoError(t, err)
			}
		}
		w.Finish()
	}
}

// sampleKeys returns some of the keys of an index.
func sampleKeys(r *rand.Rand, rows []uniqueRow, index int) (keys [][]byte) {
	for _, row := range rows {
		if row.index == index && r.IntN(50) == 0 {
			kv, klen := row.entry()
			keys = append(keys, kv[:klen])
		}
	}
	return keys
}

func requireGroups(t *testing.T, want []*DuplicateGroup, err error, what string) {
	t.Helper()
	var dup *DuplicateError
	require.ErrorAs(t, err, &dup, what)
	require.Len(t, dup.Groups, len(want), what)
	for i, g := range dup.Groups {
		require.Equal(t, want[i], g, "%s: group %d", what, i)
	}
}

// TestDuplicatesAreListedInOrder: the list does not depend on how the entries are spread over
// workers, partitions, runs and pieces, on what runs in parallel, or on which duplicate is found first.
func TestDuplicatesAreListedInOrder(t *testing.T) {
	indexes := []KeySpace{
		{ID: 1, Prefix: []byte("a/")},
		{ID: 2, Prefix: []byte("b/"), Unique: true},
		{ID: 3, Prefix: []byte("c/"), Unique: true},
	}
	const distinct = 40_000
	for name, groups := range map[string][]int{
		"one group":                      {0, 0, 1},
		"in both indexes":                {0, 40, 50},
		"more than are listed":           {0, 300, 50},
		"more than are listed in second": {0, 10, 300},
	} {
		for _, memory := range []string{"0", "1"} {
			t.Run(fmt.Sprintf("%s, memory quota %s", name, memory), func(t *testing.T) {
				r := newRand(t)
				var rows []uniqueRow
				for i, n := range groups {
					for k := range uint64(distinct) {
						rows = append(rows, uniqueRow{i, k, k})
					}
					for range n {
						key := r.Uint64N(distinct)
						for range 1 + r.IntN(3)*r.IntN(8) {
							rows = append(rows, uniqueRow{i, key, distinct + uint64(len(rows))})
						}
					}
				}
				want := wantGroups(indexes, rows)
				for _, parallel := range []int{1, 4} {
					f := newJobFixture(t, indexes...)
					set(t, f.globals, config.MemoryQuota, memory)
					f.opts.Parallel = func() int { return parallel }
					job, err := Open(f.opts)
					require.NoError(t, err)
					for i := range indexes {
						job.Partition(i, sampleKeys(r, rows, i))
					}
					addRows(t, r, job, rows, 3)
					require.Greater(t, len(job.pieces()), 3)
					requireGroups(t, want, job.Flush(f.ctx), fmt.Sprintf("%d at a time", parallel))
					require.NoError(t, job.Close())
					f.requireClean(t)
				}
			})
		}
	}
}

// A row that came with an earlier flush belongs to its group, once, also if it
// comes again.
func TestListedDuplicatesCoverEarlierFlushes(t *testing.T) {
	r := newRand(t)
	f := newJobFixture(t, KeySpace{ID: 8, Prefix: []byte("u/"), Unique: true})
	job, err := Open(f.opts)
	require.NoError(t, err)
	var first, second []uniqueRow
	for k := range uint64(30_000) {
		first = append(first, uniqueRow{0, k, k})
		second = append(second, uniqueRow{0, k + 30_000, k + 30_000})
	}
	for range 40 {
		k := r.Uint64N(30_000)
		second = append(second, uniqueRow{0, k, 100_000 + uint64(len(second))})
	}
	addRows(t, r, job, first, 2)
	require.NoError(t, job.Flush(f.ctx))
	again := first[:1000:1000]
	addRows(t, r, job, append(again, second...), 2)
	requireGroups(t, wantGroups(f.opts.Indexes, append(first, second...)), job.Flush(f.ctx), "second flush")
	require.NoError(t, job.Close())
	f.requireClean(t)
}

// One group of nearly all rows is counted to its end and named by its first rows.
func TestAGroupOfManyRows(t *testing.T) {
	r := newRand(t)
	f := newJobFixture(t, KeySpace{ID: 8, Prefix: []byte("u/"), Unique: true})
	job, err := Open(f.opts)
	require.NoError(t, err)
	rows := []uniqueRow{{0, 7, 1 << 20}}
	for row := range uint64(20_000) {
		rows = append(rows, uniqueRow{0, 5, row})
	}
	addRows(t, r, job, rows, 3)
	want := wantGroups(f.opts.Indexes, rows)
	require.EqualValues(t, 20_000, want[0].Rows)
	require.Len(t, want[0].Values, MaxDuplicateValues)
	requireGroups(t, want, job.Flush(f.ctx), "one group")
	require.NoError(t, job.Close())
}

// A piece that waits to be allowed to write finds out about the duplicates of
// another one; writing all of it would take a day.
func TestDuplicatesEndThrottledWriting(t *testing.T) {
	f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/"), Unique: true}, KeySpace{ID: 2, Prefix: []byte("b/"), Unique: true})
	set(t, f.globals, config.ReorgMaxWriteSpeed, "50")
	throttled := make(chan struct{})
	once := sync.OnceFunc(func() { close(throttled) })
	f.opts.Bus.Subscribe(func(event.Event) { once() })
	// Parallel is asked for each index, which makes two pieces of the first and one
	// of the second, and by each goroutine before it takes a piece.
	var flushing atomic.Bool
	var asked atomic.Int32
	f.opts.Parallel = func() int {
		if flushing.Load() && asked.Add(1) == 5 {
			<-throttled
		}
		return 3
	}
	job, err := Open(f.opts)
	require.NoError(t, err)
	rows := []uniqueRow{{1, 1, 1}, {1, 1, 2}}
	for k := range uint64(40_000) {
		rows = append(rows, uniqueRow{0, k, k})
	}
	r := newRand(t)
	for i := range f.opts.Indexes {
		job.Partition(i, sampleKeys(r, rows, i))
	}
	addRows(t, r, job, rows, 1)
	flushing.Store(true)
	done := make(chan error, 1)
	go func() { done <- job.Flush(f.ctx) }()
	select {
	case err := <-done:
		requireGroups(t, wantGroups(f.opts.Indexes, rows), err, "while writing")
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "the flush did not end")
	}
	require.NoError(t, job.Close())
	f.requireClean(t)
	require.Empty(t, f.read(t, "a/"), "nothing is imported any more")
}

// However many others there are, a unique index with duplicates is found out
// first.
func TestUniqueIndexesAreMergedFirst(t *testing.T) {
	f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")}, KeySpace{ID: 2, Prefix: []byte("b/"), Unique: true})
	f.opts.Parallel = func() int { return 1 }
	job, err := Open(f.opts)
	require.NoError(t, err)
	rows := []uniqueRow{{1, 1, 1}, {1, 1, 2}}
	for k := range uint64(40_000) {
		rows = append(rows, uniqueRow{0, k, k})
	}
	addRows(t, newRand(t), job, rows, 1)
	requireGroups(t, wantGroups(f.opts.Indexes, rows), job.Flush(f.ctx), "second index")
	require.Zero(t, job.Stats().Costs[stage.Write].Wall, "nothing was written")
	require.NoError(t, job.Close())
	f.requireClean(t)
}

func TestTheSearchForDuplicatesStopsWhenCancelled(t *testing.T) {
	var pairs []pair
	for i := range 10_000 {
		pairs = append(pairs, pair{[]byte("same"), intKey(uint64(i), 0)})
	}
	m, err := newMerger([]cursor{inMemory(t, pairs)}, nil, 0, true)
	require.NoError(t, err)
	defer m.close()
	ctx, cancel := context.WithCancel(context.Background())
	require.ErrorIs(t, m.next(ctx, nil, new(records)), errDuplicate)
	groups, more, err := m.scan(ctx)
	require.NoError(t, err)
	require.True(t, more, "one call reads a few entries only")
	require.Empty(t, groups)
	cancel()
	_, _, err = m.scan(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestDuplicateGroupIsBounded(t *testing.T) {
	r := newRand(t)
	g := NewDuplicateGroup(1, []byte("k"))
	for _, i := range r.Perm(1000) {
		g.Add(intKey(uint64(i), 0))
	}
	require.EqualValues(t, 1000, g.Rows)
	require.Len(t, g.Values, MaxDuplicateValues)
	for i, v := range g.Values {
		require.Equal(t, intKey(uint64(i), 0), v)
	}
	g.Add(intKey(3, 0))
	require.EqualValues(t, 1000, g.Rows, "a row that is named already")
}

// TestEntriesThatComeOnce: in a space whose entries come once, entries that are equal as a whole are a duplicate, in one flush and over
// two.
func TestEntriesThatComeOnce(t *testing.T) {
	for _, flushes := range []int{1, 2} {
		f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/"), Unique: true, Once: true})
		job, err := Open(f.opts)
		require.NoError(t, err)
		key := intKey(1, 0)
		for i := range 2 {
			w := job.NewWorker(nil)
			require.NoError(t, w.Append(0, append(key[:len(key):len(key)], 'v'), len(key)))
			w.Finish()
			if i+1 < 2 && flushes == 2 {
				require.NoError(t, job.Flush(f.ctx))
			}
		}
		var duplicate *DuplicateError
		require.ErrorAs(t, job.Flush(f.ctx), &duplicate)
		require.Len(t, duplicate.Groups, 1)
		require.EqualValues(t, 2, duplicate.Groups[0].Rows)
		require.Equal(t, [][]byte{[]byte("v")}, duplicate.Groups[0].Values)
		require.NoError(t, job.Close())
		f.requireClean(t)
	}
}

// TestEqualKeysOfOtherSpacesAreNotTheError: equal keys of an index that is not unique are an error only if no unique one has a
// duplicate, which says more.
func TestEqualKeysOfOtherSpacesAreNotTheError(t *testing.T) {
	for _, unique := range []bool{true, false} {
		f := newJobFixture(t, KeySpace{ID: 1, Prefix: []byte("a/")}, KeySpace{ID: 2, Prefix: []byte("b/"), Unique: unique, Once: true})
		job, err := Open(f.opts)
		require.NoError(t, err)
		w := job.NewWorker(nil)
		key := intKey(1, 0)
		for range 2 {
			for i := range 2 {
				require.NoError(t, w.Append(i, append(key[:len(key):len(key)], 'v'), len(key)))
			}
		}
		w.Finish()
		err = job.Flush(f.ctx)
		if unique {
			require.ErrorAs(t, err, new(*DuplicateError))
		} else {
			require.ErrorAs(t, err, new(*SameKeyError))
		}
		require.NoError(t, job.Close())
		f.requireClean(t)
	}
}
