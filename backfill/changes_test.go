package backfill

import (
	"slices"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// TestCompareSince: indexes that were verified are compared in what has changed since, and what
// a comparison finds does not depend on it.
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
		require.Equal(t, CompareResult{Entries: []int64{0, 0}, OnlyChanges: true}, f.compareSince(Verified{TS: spec.TS}, idx, second), what)

		for range r.IntN(5) {
			f.mutate(r, 1+r.IntN(50), idx, second)
		}
		for len(f.rows) == 0 {
			f.mutate(r, 1, idx, second)
		}
		all := f.compare(idx, second)
		require.True(t, all.Clean(), what)
		require.Equal(t, all, f.compareSince(Verified{}, idx, second), what)
		got := f.compareSince(Verified{TS: spec.TS}, idx, second)
		require.True(t, got.OnlyChanges, what)
		require.True(t, got.Clean(), what)

		// A row that is gone leaves its entries, an entry that is gone or wrong is missed.
		switch r.IntN(5) {
		case 0:
			f.overwriteOne(recordRange(table.ID), nil)
		case 1:
			f.overwriteOne(indexRange(table.ID, idx.ID), nil)
		case 2:
			f.overwriteOne(indexRange(table.ID, idx.ID), []byte("wrong"))
		case 3:
			f.overwriteOne(indexRange(table.ID, second.ID), nil)
		case 4: // nobody maintains the second index
			f.mutate(r, 1+r.IntN(50), idx)
		}
		all = f.compare(idx, second)
		got = f.compareSince(Verified{TS: spec.TS}, idx, second)
		require.Equal(t, all.Clean(), got.OnlyChanges, what)
		if !all.Clean() {
			all.Changes = got.Changes
			require.Equal(t, all, got, what)
		}
	}
}

// TestCompareSinceOfPartitions: a change of any partition is seen, in any index.
func TestCompareSinceOfPartitions(t *testing.T) {
	r := newRand(t)
	for range rounds(12) {
		p := newPartitioned(t, r, 2+r.IntN(5), 1+r.IntN(50))
		first, second := indexOn(9, false, 1), indexOn(10, true, 2, 0)
		spec := p.spec(first, second)
		_, err := Run(p.ctx, p.options(), spec)
		require.NoError(t, err)
		part := p.parts[r.IntN(len(p.parts))]
		part.mutate(r, 1+r.IntN(50), first, second)
		got := p.compareSince(Verified{TS: spec.TS}, first, second)
		require.True(t, got.OnlyChanges)
		p.parts[r.IntN(len(p.parts))].mutate(r, 20, [][]*model.IndexInfo{{first}, {second}}[r.IntN(2)]...)
		got, all := p.compareSince(Verified{TS: spec.TS}, first, second), p.compare(first, second)
		require.Equal(t, all.Clean(), got.OnlyChanges) // rows may have come and gone
		require.Equal(t, all.Differences, got.Differences)
	}
}

// TestCompareSinceManyChanges: if more has changed than is worth looking up, everything is read,
// and so it is if a row cannot be understood: that is then the row's error.
func TestCompareSinceManyChanges(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(r, 100)
	idx := indexOn(9, false, 1)
	spec := f.spec(idx)
	_, err := Run(f.ctx, f.options(), spec)
	require.NoError(t, err)
	f.mutate(r, 20, idx)
	require.True(t, f.compareSince(Verified{TS: spec.TS}, idx).OnlyChanges)
	for range 10 {
		f.mutate(r, minChanges, idx)
	}
	got := f.compareSince(Verified{TS: spec.TS}, idx)
	require.False(t, got.OnlyChanges)
	require.True(t, got.Clean())
	agree, n, err := ChangesAgree(f.ctx, f.compareOptions(), f.task(idx), spec.TS, 0)
	require.NoError(t, err)
	require.True(t, agree)
	require.Greater(t, n, int64(minChanges))
	_, n, err = ChangesAgree(f.ctx, f.compareOptions(), f.task(idx), spec.TS, minChanges)
	require.ErrorIs(t, err, ErrManyChanges)
	require.LessOrEqual(t, n, int64(2*minChanges))

	f.insert(r, 1) // all may have gone
	before := f.ts()
	f.overwriteOne(recordRange(table.ID), []byte("no row"))
	_, err = CompareSince(f.ctx, f.compareOptions(), f.task(idx), Verified{TS: before}, Built{})
	require.Error(t, err)
	require.NotErrorIs(t, err, errUnsure)
	agree, _, err = ChangesAgree(f.ctx, f.compareOptions(), f.task(idx), before, 0)
	require.NoError(t, err)
	require.False(t, agree)
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
	require.Len(t, f.compareSince(Verified{TS: spec.TS}, idx).Differences, 1)
}

func (f *fixture) compareSince(verified Verified, indexes ...*model.IndexInfo) CompareResult {
	f.t.Helper()
	return f.compareWith(executionOptions{Store: f.store}, verified, indexes...)
}

func (f *fixture) compareWith(opts executionOptions, verified Verified, indexes ...*model.IndexInfo) CompareResult {
	f.t.Helper()
	res, err := CompareSince(f.ctx, opts, f.task(indexes...), verified, Built{})
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
