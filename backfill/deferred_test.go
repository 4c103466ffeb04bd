package backfill

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
)

// deferring is a table on a cluster that sums up itself, and a build that will be compared. What it
// last saved is in saved.
type deferring struct {
	*onTikv
	store *summingStore
	opts  Options
	spec  Spec
	saved []byte
}

func newDeferring(t *testing.T, damage func(s *damagingStore)) *deferring {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 2000)
	d := &deferring{onTikv: newOnTikv(f)}
	d.cut(4)
	damaging := &damagingStore{Store: d.onTikv.store, on: d.onTikv}
	damage(damaging)
	d.store = &summingStore{Store: damaging, Checksummer: damaging}
	d.opts = d.options()
	d.opts.Store, d.opts.SaveCheckpoint = d.store, d.save
	d.spec = d.onTikv.spec(backfilltest.IndexOn(9, true, 0))
	d.spec.Compared = true
	return d
}

func (d *deferring) save(_ context.Context, checkpoint []byte) error {
	d.saved = checkpoint
	return nil
}

// compareNow compares at a later timestamp.
func (d *deferring) compareNow() *compare.Result {
	task := d.spec.Task
	task.TS = d.now()
	result, err := compare.Run(d.Ctx, d.opts.Common(), task)
	require.NoError(d.T, err)
	return &result
}

// TestSumsAreLeftToTheComparison: entries that will be compared are not summed up twice.
func TestSumsAreLeftToTheComparison(t *testing.T) {
	d := newDeferring(t, func(*damagingStore) {})
	built, err := Run(d.Ctx, d.opts, d.spec)
	require.NoError(t, err)
	require.True(t, built.Deferred)
	require.Empty(t, d.store.sums)
	require.True(t, d.compareNow().Clean())
	require.NotEmpty(t, d.store.sums)

	// These builds have to sum them up themselves.
	for name, change := range map[string]func(spec *Spec){
		"not compared": func(spec *Spec) { spec.Compared = false },
		"leftovers":    func(spec *Spec) { spec.Leftovers = true },
		"differed":     func(spec *Spec) { spec.Differed = true },
	} {
		d.store.sums = nil
		spec := d.onTikv.spec(backfilltest.IndexOn(10, true, 0))
		spec.Compared = true
		change(&spec)
		built, err := Run(d.Ctx, d.opts, spec)
		require.NoError(t, err, name)
		require.False(t, built.Deferred, name)
		require.NotEmpty(t, d.store.sums, name)
		d.dropEntries(spec)
	}
}

// dropEntries removes what a build has made.
func (d *deferring) dropEntries(spec Spec) {
	for _, idx := range spec.Indexes {
		require.NoError(d.T, d.data.Builds().DeleteRange(d.Ctx, encode.IndexRange(d.Table.ID, idx.ID)))
	}
}

// TestDifferenceHasTheBuildVerified: what a build has lost is found by the comparison, and built again.
func TestDifferenceHasTheBuildVerified(t *testing.T) {
	d := newDeferring(t, func(s *damagingStore) { s.loseEntry(backfilltest.IndexOn(9, true, 0)) })
	built, err := Run(d.Ctx, d.opts, d.spec)
	require.NoError(t, err)
	require.True(t, built.Deferred)
	require.Len(t, d.compareNow().Differences, 1)

	d.spec.Checkpoint, d.spec.Differed = d.saved, true
	built, err = Run(d.Ctx, d.opts, d.spec)
	require.NoError(t, err)
	require.False(t, built.Deferred)
	require.True(t, built.Rebuilt)
	require.True(t, d.compareNow().Clean())
}

// TestLostRowsShowInTheComparison: the rows that a scan has lost are not counted by the build.
func TestLostRowsShowInTheComparison(t *testing.T) {
	d := newDeferring(t, (*damagingStore).dropBatch)
	d.opts.MaxWorkers, d.opts.BatchRows = 1, 32
	built, err := Run(d.Ctx, d.opts, d.spec)
	require.NoError(t, err)
	require.True(t, built.Deferred)
	require.False(t, d.compareNow().Clean())
}

// TestSpotCheckHasTheBuildVerified: what is wrong with many rows is found by the build itself.
func TestSpotCheckHasTheBuildVerified(t *testing.T) {
	var first int64
	d := newDeferring(t, func(s *damagingStore) {
		s.change = func(n int64, value []byte) []byte {
			if n > first {
				return value
			}
			return append([]byte("wrong"), value...)
		}
	})
	first = int64(len(d.Rows))
	built, err := Run(d.Ctx, d.opts, d.spec)
	require.NoError(t, err)
	require.True(t, built.Rebuilt)
	require.True(t, d.compareNow().Clean())
}
