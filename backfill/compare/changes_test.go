package compare_test

import (
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
)

// TestCompareSince: indexes that were verified are compared in what has changed since, and what
// a comparison finds does not depend on it.
func TestCompareSince(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(24) {
		table, idx, kinds := backfilltest.RandomTable(r)
		f := newFixture(t, table, kinds)
		f.Insert(r, 1+r.IntN(1000))
		second := backfilltest.RandomIndex(r, table, kinds, 8)
		idx.Unique, second.Unique = false, false
		what := backfilltest.Describe(table, idx, kinds)
		spec := f.spec(idx, second)
		_, err := backfill.Run(f.Ctx, f.options(), spec)
		require.NoError(t, err, what)
		require.Equal(t, compare.Result{Entries: []int64{0, 0}, OnlyChanges: true}, f.compareSince(compare.Verified{TS: spec.TS}, idx, second), what)

		for range r.IntN(5) {
			f.Mutate(r, 1+r.IntN(50), idx, second)
		}
		for len(f.Rows) == 0 {
			f.Mutate(r, 1, idx, second)
		}
		all := f.compare(idx, second)
		require.True(t, all.Clean(), what)
		require.Equal(t, all, f.compareSince(compare.Verified{}, idx, second), what)
		got := f.compareSince(compare.Verified{TS: spec.TS}, idx, second)
		require.True(t, got.OnlyChanges, what)
		require.True(t, got.Clean(), what)

		// A row that is gone leaves its entries, an entry that is gone or wrong is missed.
		switch r.IntN(5) {
		case 0:
			f.OverwriteOne(encode.RecordRange(table.ID), nil)
		case 1:
			f.OverwriteOne(encode.IndexRange(table.ID, idx.ID), nil)
		case 2:
			f.OverwriteOne(encode.IndexRange(table.ID, idx.ID), []byte("wrong"))
		case 3:
			f.OverwriteOne(encode.IndexRange(table.ID, second.ID), nil)
		case 4: // no statement maintains the second index
			f.Mutate(r, 1+r.IntN(50), idx)
		}
		all = f.compare(idx, second)
		got = f.compareSince(compare.Verified{TS: spec.TS}, idx, second)
		require.Equal(t, all.Clean(), got.OnlyChanges, what)
		if !all.Clean() {
			all.Changes = got.Changes
			require.Equal(t, all, got, what)
		}
	}
}

// TestCompareSinceOfPartitions: a change of any partition is seen, in any index.
func TestCompareSinceOfPartitions(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(12) {
		p := newPartitioned(t, r, 2+r.IntN(5), 1+r.IntN(50))
		first, second := backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, true, 2, 0)
		spec := p.spec(first, second)
		_, err := backfill.Run(p.Ctx, p.options(), spec)
		require.NoError(t, err)
		part := p.parts[r.IntN(len(p.parts))]
		part.Mutate(r, 1+r.IntN(50), first, second)
		got := p.compareSince(compare.Verified{TS: spec.TS}, first, second)
		require.True(t, got.OnlyChanges)
		p.parts[r.IntN(len(p.parts))].Mutate(r, 20, [][]*model.IndexInfo{{first}, {second}}[r.IntN(2)]...)
		got, all := p.compareSince(compare.Verified{TS: spec.TS}, first, second), p.compare(first, second)
		require.Equal(t, all.Clean(), got.OnlyChanges) // rows may have come and gone
		require.Equal(t, all.Differences, got.Differences)
	}
}

// TestCompareSinceManyChanges: if more has changed than is worth looking up, everything is read,
// and so it is if a row cannot be understood: that is then the row's error.
func TestCompareSinceManyChanges(t *testing.T) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(r, 100)
	idx := backfilltest.IndexOn(9, false, 1)
	spec := f.spec(idx)
	_, err := backfill.Run(f.Ctx, f.options(), spec)
	require.NoError(t, err)
	f.Mutate(r, 20, idx)
	require.True(t, f.compareSince(compare.Verified{TS: spec.TS}, idx).OnlyChanges)
	for range 10 {
		f.Mutate(r, compare.MinChanges, idx)
	}
	got := f.compareSince(compare.Verified{TS: spec.TS}, idx)
	require.False(t, got.OnlyChanges)
	require.True(t, got.Clean())
	agree, n, err := compare.ChangesAgree(f.Ctx, f.compareOptions(), f.task(idx), spec.TS, 0)
	require.NoError(t, err)
	require.True(t, agree)
	require.Greater(t, n, int64(compare.MinChanges))
	_, n, err = compare.ChangesAgree(f.Ctx, f.compareOptions(), f.task(idx), spec.TS, compare.MinChanges)
	require.ErrorIs(t, err, compare.ErrManyChanges)
	require.LessOrEqual(t, n, int64(2*compare.MinChanges))

	f.Insert(r, 1) // all may have gone
	before := f.TS()
	f.OverwriteOne(encode.RecordRange(table.ID), []byte("no row"))
	_, err = compare.Since(f.Ctx, f.compareOptions(), f.task(idx), compare.Verified{TS: before}, compare.Built{})
	require.Error(t, err)
	require.NotErrorIs(t, err, compare.ErrUnsure)
	agree, _, err = compare.ChangesAgree(f.Ctx, f.compareOptions(), f.task(idx), before, 0)
	require.NoError(t, err)
	require.False(t, agree)
}

// TestCompareSinceUnseenChanges: a value that came and went leaves the index without an
// entry, and garbage collection removes its versions.
func TestCompareSinceUnseenChanges(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 100)
	idx := backfilltest.IndexOn(9, false, 1)
	spec := f.spec(idx)
	_, err := backfill.Run(f.Ctx, f.options(), spec)
	require.NoError(t, err)

	f.OverwriteOne(encode.IndexRange(table.ID, idx.ID), nil)
	_, err = f.Store.CollectGarbage(f.Ctx, f.TS())
	require.NoError(t, err)
	require.Len(t, f.compareSince(compare.Verified{TS: spec.TS}, idx).Differences, 1)
}

func (f *fixture) compareSince(verified compare.Verified, indexes ...*model.IndexInfo) compare.Result {
	f.T.Helper()
	return f.compareWith(execution.Options{Store: f.Store}, verified, indexes...)
}

func (f *fixture) compareWith(opts execution.Options, verified compare.Verified, indexes ...*model.IndexInfo) compare.Result {
	f.T.Helper()
	res, err := compare.Since(f.Ctx, opts, f.task(indexes...), verified, compare.Built{})
	require.NoError(f.T, err)
	return res
}
