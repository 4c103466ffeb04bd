package survey_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/encode"
	"fastddl/backfill/survey"
	"fastddl/internal/randtest"
	"fastddl/kv"
)

func task(f *backfilltest.Fixture, indexes ...*model.IndexInfo) encode.Task {
	return encode.Task{Table: f.Table, Indexes: indexes, TS: f.TS()}
}

func take(t *testing.T, f *backfilltest.Fixture, opts survey.Options, indexes ...*model.IndexInfo) *survey.Survey {
	t.Helper()
	opts.Store = f.Store
	for _, d := range []*time.Duration{&opts.PlanFor, &opts.SampleFor, &opts.CountFor} {
		if *d == 0 {
			*d = time.Hour // a busy machine changes nothing
		}
	}
	s, err := survey.Take(t.Context(), opts, task(f, indexes...))
	require.NoError(t, err)
	return s
}

// A small table is read whole: its numbers are exact, and its entries those of the build.
func TestSmallTableIsExact(t *testing.T) {
	rng := randtest.Rand(t)
	for range backfilltest.Rounds(20) {
		table, idx, kinds := backfilltest.RandomTable(rng)
		f := backfilltest.NewFixture(t, table, kinds)
		f.Insert(rng, rng.IntN(500))
		s := take(t, f, survey.Options{}, idx)
		require.True(t, s.Exact)
		require.True(t, s.Complete)
		require.EqualValues(t, len(f.Rows), s.Rows)
		require.EqualValues(t, len(f.Rows), s.Sampled)
		want := int64(0)
		for key, value := range f.WantEntries(idx) {
			want += int64(len(key) + len(value) - encode.PrefixLen)
		}
		require.EqualValues(t, len(f.Rows), s.Indexes[0].Entries)
		if s.Indexes[0].Repeated == 0 {
			require.Equal(t, want, s.Indexes[0].Bytes)
		}
		if len(f.Rows) == 0 {
			require.Empty(t, s.Indexes[0].Stored)
		}
	}
}

// Of a larger table some rows are read, none of them twice, from everywhere.
func TestNoRowIsSampledTwice(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := backfilltest.NewFixture(t, table, kinds)
	const rows = 30_000
	f.Load(rows)
	byID := backfilltest.IndexOn(1, true, 0)
	for _, places := range []int{1, 7, 64, 1000} {
		s := take(t, f, survey.Options{Places: places, Rows: 20}, byID)
		require.False(t, s.Complete)
		require.True(t, s.Exact, "all ranges were counted")
		require.EqualValues(t, rows, s.Rows)
		require.Zero(t, s.Indexes[0].Repeated)
		require.Equal(t, s.Sampled, s.Indexes[0].Entries)
		require.GreaterOrEqual(t, s.Sampled, int64(places*10), "some places may be short")
		require.LessOrEqual(t, s.Sampled, int64(places*20))
		require.InEpsilon(t, rows*200, s.ReadBytes, 0.2)
	}
}

// What the sample says of the bytes in the store is, at the table's density, what a build writes.
func TestDensitiesLeadToTheSize(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := backfilltest.NewFixture(t, table, kinds)
	f.Load(40_000)
	for _, offset := range []int{0, 1, 2} {
		idx := backfilltest.IndexOn(1, false, offset)
		whole := take(t, f, survey.Options{Places: 1, Rows: 50_000, Bytes: 1 << 40}, idx)
		part := take(t, f, survey.Options{Places: 32, Rows: 128}, idx)
		stored := part.Indexes[0].Stored
		require.True(t, whole.Complete)
		require.Len(t, whole.Indexes[0].Stored, 1, "there is no other density")
		require.GreaterOrEqual(t, len(stored), 2)
		all := whole.Indexes[0].Stored[0]
		require.EqualValues(t, 40_000, all.Entries)
		last := stored[len(stored)-1]
		each, wants := float64(last.Bytes)/float64(last.Entries), float64(all.Bytes)/float64(all.Entries)
		require.InEpsilon(t, wants, each, 0.35, "column %d", offset)
		for i := 1; i < len(stored); i++ {
			require.Greater(t, stored[i].Entries, stored[i-1].Entries)
		}
	}
}

// Equal values in a unique index are found and kept, a few of them.
func TestDuplicatesOfTheSampleAreFound(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := backfilltest.NewFixture(t, table, kinds)
	f.Load(1000)
	var c backfilltest.Changes
	for id := range int64(4) {
		f.Put(2000+id, 77)
	}
	f.Commit(c)
	s := take(t, f, survey.Options{}, backfilltest.IndexOn(1, true, 1), backfilltest.IndexOn(2, false, 1))
	unique := s.Indexes[0]
	require.GreaterOrEqual(t, unique.Repeated, int64(3))
	require.NotEmpty(t, unique.Duplicates)
	require.LessOrEqual(t, len(unique.Duplicates), 3)
	for _, g := range unique.Duplicates {
		require.GreaterOrEqual(t, len(g.Values), 2)
		require.True(t, bytes.HasPrefix(g.Key, encode.IndexPrefix(table.ID, 1)))
	}
	require.Zero(t, s.Indexes[1].Repeated, "an index that is not unique has none")
}

// All partitions are looked at.
func TestPartitionsAreSurveyed(t *testing.T) {
	whole, parts := backfilltest.NewPartitions(t, randtest.Rand(t), 7, 30)
	s := take(t, whole, survey.Options{}, backfilltest.IndexOn(1, false, 1))
	require.True(t, s.Complete)
	require.Equal(t, parts.Count(), s.Rows)
	require.Equal(t, parts.Count(), s.Indexes[0].Entries)
}

// scans is a store whose scans end with an error, or are called with.
type scans struct {
	kv.Store
	before func() error
}

func (s *scans) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	if err := s.before(); err != nil {
		return err
	}
	return s.Store.ScanColumns(ctx, req, fn)
}

// An error of the store is one of the survey, and so is the end of its context.
func TestErrorsOfTheStore(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := backfilltest.NewFixture(t, table, kinds)
	f.Load(100)
	broken := errors.New("broken")
	opts := survey.Options{Store: &scans{f.Store, func() error { return broken }}}
	_, err := survey.Take(t.Context(), opts, task(f, backfilltest.IndexOn(1, false, 1)))
	require.ErrorIs(t, err, broken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = survey.Take(ctx, survey.Options{Store: f.Store}, task(f, backfilltest.IndexOn(1, false, 1)))
	require.ErrorIs(t, err, context.Canceled)
}

// A survey that runs out of time says what it has found by then, or that it has found nothing.
func TestTimeIsBounded(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := backfilltest.NewFixture(t, table, kinds)
	f.Load(20_000)
	_, err := survey.Take(t.Context(), survey.Options{Store: f.Store, SampleFor: time.Nanosecond, PlanFor: time.Hour, CountFor: time.Hour},
		task(f, backfilltest.IndexOn(1, false, 1)))
	require.Error(t, err)
	require.NotErrorIs(t, err, context.Canceled)
	s, err := survey.Take(t.Context(), survey.Options{Store: f.Store, SampleFor: time.Hour, PlanFor: time.Hour, CountFor: time.Nanosecond},
		task(f, backfilltest.IndexOn(1, false, 1)))
	if err == nil { // by the sizes that the store knows
		require.False(t, s.Exact)
		require.InEpsilon(t, 20_000, s.Rows, 0.5)
		require.Positive(t, s.RowsError)
	}
}

// A table of which only partitions without rows were looked at is not empty, as far as is known.
func TestPartitionsNotLookedAt(t *testing.T) {
	const n = 300
	r := randtest.Rand(t)
	whole, parts := backfilltest.NewPartitions(t, r, n, 0)
	slices.SortFunc(parts, func(a, b *backfilltest.Fixture) int { return cmp.Compare(a.Table.ID, b.Table.ID) })
	idx := backfilltest.IndexOn(1, true, 1)
	looked := make(map[int]bool)
	for i := range 256 {
		looked[i*n/256] = true
	}
	for i := range n {
		if !looked[i] {
			parts[i].Insert(r, 20)
			break
		}
	}
	_, err := survey.Take(t.Context(), survey.Options{Store: whole.Store, PlanFor: time.Hour, SampleFor: time.Hour, CountFor: time.Hour}, task(whole, idx))
	require.ErrorIs(t, err, survey.ErrNothingRead)
}
