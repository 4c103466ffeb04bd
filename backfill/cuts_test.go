package backfill

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/kv"
)

// summingStore notes what it is asked to sum up.
type summingStore struct {
	kv.Store
	kv.Checksummer
	mu   sync.Mutex
	sums []kv.Checksum
}

func (s *summingStore) Checksum(ctx context.Context, r kv.KeyRange, ts uint64) (kv.Checksum, error) {
	sum, err := s.Checksummer.Checksum(ctx, r, ts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sums = append(s.sums, sum)
	return sum, err
}

// TestOneRegionIsSummedUpInParts: of about the same size, where an index lies in one.
func TestOneRegionIsSummedUpInParts(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Insert(backfilltest.Rand(t), 4*checksumEntries)
	on := newOnTikv(f)
	store := &summingStore{Store: on.store, Checksummer: on.store}
	opts := on.options()
	opts.Store = store
	idx, wide := backfilltest.IndexOn(9, false, 1), backfilltest.IndexOn(10, false, 2, 3)
	spec := on.spec(idx, wide)
	_, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	each := len(f.Rows) / checksumEntries
	require.Greater(t, each, 1)
	require.Len(t, store.sums, 2*each)
	var pairs int64
	for _, sum := range store.sums {
		pairs += sum.Pairs
		require.InEpsilon(t, len(f.Rows)/each, sum.Pairs, 0.5)
	}
	require.EqualValues(t, 2*len(f.Rows), pairs)
	backfilltest.RequireEntries(t, on.WantEntries(idx), on.entries(idx, spec.TS), "index")
}
