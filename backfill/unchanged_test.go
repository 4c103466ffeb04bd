package backfill

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/kv"
)

// countingScans is a cluster that counts the scans of rows.
type countingScans struct {
	*damagingStore
	scans atomic.Int64
}

func (s *countingScans) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	s.scans.Add(1)
	return s.damagingStore.ScanColumns(ctx, req, fn)
}

// builtOnTikv builds a unique index that will be compared, in a store of which damage makes something go wrong.
func builtOnTikv(t *testing.T, damage func(s *damagingStore)) (*onTikv, *countingScans, encode.Task, compare.Built) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 2000)
	on := newOnTikv(f)
	on.cut(4)
	store := &countingScans{damagingStore: &damagingStore{Store: on.store, on: on}}
	damage(store.damagingStore)
	opts := on.options()
	opts.Store, opts.MaxWorkers, opts.BatchRows = store, 1, 32
	spec := on.spec(backfilltest.IndexOn(9, true, 0))
	spec.Compared = true
	result, err := Run(on.Ctx, opts, spec)
	require.NoError(t, err)
	require.True(t, result.Deferred)
	store.scans.Store(0)
	return on, store, spec.Task, compare.Built{TS: spec.TS, Rows: result.Rows, Given: result.Given}
}

func (s *countingScans) compare(on *onTikv, task encode.Task, b compare.Built) compare.Result {
	opts := on.options()
	opts.Store = s
	task.TS = on.now()
	result, err := compare.Since(on.Ctx, opts.Common(), task, compare.Verified{}, b)
	require.NoError(on.T, err)
	return result
}

// TestUnchangedRowsAreNotReadAgain: what a build has made of the rows counts as long as they are not written.
func TestUnchangedRowsAreNotReadAgain(t *testing.T) {
	on, store, task, b := builtOnTikv(t, func(*damagingStore) {})
	result := store.compare(on, task, b)
	require.True(t, result.Clean())
	require.True(t, result.Unchanged)
	require.EqualValues(t, len(on.Rows), result.Rows)
	require.Equal(t, []int64{result.Rows}, result.Entries)
	require.Len(t, result.Records, 1)
	require.Zero(t, store.scans.Load())

	other := slices.Clone(b.Given)
	other[0].CRC++
	for name, b := range map[string]compare.Built{
		"unknown":         {},
		"fewer rows":      {TS: b.TS, Rows: b.Rows - 1, Given: b.Given},
		"other entries":   {TS: b.TS, Rows: b.Rows, Given: other},
		"of another time": {TS: 1, Rows: b.Rows, Given: b.Given},
	} {
		store.scans.Store(0)
		result := store.compare(on, task, b)
		require.False(t, result.Unchanged, name)
		require.True(t, result.Clean(), name)
		require.NotZero(t, store.scans.Load(), name)
	}
}

// TestChangedRowsAreReadAgain: every write after S, before or after the import, to rows or entries, is read.
func TestChangedRowsAreReadAgain(t *testing.T) {
	for _, name := range []string{"the first", "the last"} {
		on, store, task, b := builtOnTikv(t, func(*damagingStore) {})
		rows := slices.Sorted(maps.Keys(on.Rows))
		row := rows[0]
		if name == "the last" {
			row = rows[len(rows)-1]
		}
		on.put(map[string]string{row: string(on.EncodeRow(on.Rows[row].Values))}, on.now())
		result := store.compare(on, task, b)
		require.False(t, result.Unchanged, name)
		require.True(t, result.Clean(), "%s is written again as it was", name)
		require.NotZero(t, store.scans.Load(), name)
	}

	on, store, task, b := builtOnTikv(t, func(*damagingStore) {})
	first := slices.Sorted(maps.Keys(on.WantEntries(task.Indexes[0])))[0]
	on.put(map[string]string{first: "wrong"}, on.now())
	result := store.compare(on, task, b)
	require.False(t, result.Unchanged)
	require.Len(t, result.Differences, 1)
}

// TestDamagedBuildsAreNotTakenForUnchanged: rows that the scan has lost, and entries that the import has lost, are missed.
func TestDamagedBuildsAreNotTakenForUnchanged(t *testing.T) {
	for name, damage := range map[string]func(s *damagingStore){
		"a row":    (*damagingStore).dropBatch,
		"an entry": func(s *damagingStore) { s.loseEntry(backfilltest.IndexOn(9, true, 0)) },
	} {
		on, store, task, b := builtOnTikv(t, damage)
		store.dropRow = nil
		result := store.compare(on, task, b)
		require.False(t, result.Unchanged, name)
		require.False(t, result.Clean(), name)
	}
}
