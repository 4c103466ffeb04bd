package backfill

import (
	"slices"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// TestCompareSince: indexes that were verified are compared unless nothing was written
// since, and what a comparison finds does not depend on it.
func TestCompareSince(t *testing.T) {
	r := newRand(t)
	for range rounds(24) {
		table, idx, kinds := randomTable(r)
		f := newFixture(t, table, kinds)
		f.insert(r, 1+r.IntN(1000))
		second := randomIndex(r, table, kinds, 8)
		idx.Unique, second.Unique = false, false
		what := describe(table, idx, kinds)
		spec := f.spec(idx, second)
		_, err := Run(f.ctx, f.options(), spec)
		require.NoError(t, err, what)

		require.Equal(t, CompareResult{Entries: []int64{0, 0}, Unchanged: true}, f.compareSince(spec.TS, idx, second), what)
		all := f.compare(idx, second)
		require.True(t, all.Clean(), what)
		require.Equal(t, all, f.compareSince(0, idx, second), what)

		// A row that is gone leaves its entries, an entry that is gone or wrong is missed.
		switch r.IntN(4) {
		case 0:
			f.overwriteOne(recordRange(table.ID), nil)
		case 1:
			f.overwriteOne(indexRange(table.ID, idx.ID), nil)
		case 2:
			f.overwriteOne(indexRange(table.ID, idx.ID), []byte("wrong"))
		case 3:
			f.overwriteOne(indexRange(table.ID, second.ID), nil)
		}
		got := f.compareSince(spec.TS, idx, second)
		require.False(t, got.Clean(), what)
		require.Equal(t, f.compare(idx, second), got, what)
	}
}

// TestCompareSinceUnseenChanges: a value that came and went leaves the index without an
// entry, and garbage collection takes away what tells of it.
func TestCompareSinceUnseenChanges(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(newRand(t), 100)
	idx := indexOn(9, false, 1)
	spec := f.spec(idx)
	_, err := Run(f.ctx, f.options(), spec)
	require.NoError(t, err)

	f.overwriteOne(indexRange(table.ID, idx.ID), nil)
	_, err = f.store.CollectGarbage(f.ctx, f.ts())
	require.NoError(t, err)
	require.Len(t, f.compareSince(spec.TS, idx).Differences, 1)
}

func (f *fixture) compareSince(verifiedTS uint64, indexes ...*model.IndexInfo) CompareResult {
	f.t.Helper()
	return f.compareWith(Options{Store: f.store}, verifiedTS, indexes...)
}

func (f *fixture) compareWith(opts Options, verifiedTS uint64, indexes ...*model.IndexInfo) CompareResult {
	f.t.Helper()
	res, err := CompareSince(f.ctx, opts, f.task(indexes...), verifiedTS)
	require.NoError(f.t, err)
	return res
}

// overwriteOne gives the last key of a range another value, or deletes it if that is nil.
func (f *fixture) overwriteOne(r kv.KeyRange, value []byte) {
	f.t.Helper()
	snap, err := f.store.Snapshot(f.ctx, f.ts())
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, snap.Close()) }()
	it, err := snap.IterReverse(r)
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, it.Close()) }()
	require.True(f.t, it.Valid())
	var c changes
	c.put(slices.Clone(it.Key()), value)
	f.commit(c)
}
