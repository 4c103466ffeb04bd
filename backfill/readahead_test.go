package backfill

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/keyrange"
	"fastddl/kv"
)

// aheadStore has read a whole range by the time it hands out the first of its rows.
type aheadStore struct {
	kv.Store
	interrupted atomic.Int64 // scans, but for samples
}

func (s *aheadStore) ScanColumns(ctx context.Context, req kv.ScanRequest, fn func(*kv.RowBatch) error) error {
	err := s.Store.ScanColumns(ctx, req, func(b *kv.RowBatch) error {
		b.ReadTo = req.Range.End
		return fn(b)
	})
	if errors.Is(err, errInterrupted) && req.BatchRows != sampleRows {
		s.interrupted.Add(1)
	}
	return err
}

// TestRowsReadAheadAreNotShared: workers that have nothing to do take no rows that the store has read
// for another one. They would be read twice.
func TestRowsReadAheadAreNotShared(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 3000)
	store := &aheadStore{Store: f.Store}
	opts := f.options()
	opts.Store, opts.MaxWorkers, opts.BatchRows = store, 4, 5
	idx := backfilltest.IndexOn(9, false, 1)
	spec := f.spec(idx)
	_, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	require.Zero(t, store.interrupted.Load())
	f.RequireIndex(idx, f.TS(), "rows read ahead")
}

// TestWorthSharing: what was read ahead and would be read again is less than what is left behind it.
func TestWorthSharing(t *testing.T) {
	whole := keyrange.Weighted{KeyRange: kv.KeyRange{Start: encodeHandle(0), End: encodeHandle(100)}, Weight: 1}
	for _, c := range []struct {
		last, readTo int
		worth        bool
	}{
		{10, -1, true}, {10, 10, true}, {10, 50, true}, {10, 60, false}, {10, 100, false}, {90, 96, false}, {90, 94, true},
	} {
		batch := &kv.RowBatch{LastKey: encodeHandle(c.last)}
		if c.readTo >= 0 {
			batch.ReadTo = encodeHandle(c.readTo)
		}
		require.Equal(t, c.worth, worthSplitting(whole, batch), "%+v", c)
	}
}
