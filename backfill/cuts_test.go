package backfill

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// TestCutRanges: what is cut covers what it was cut of, whatever the keys.
func TestCutRanges(t *testing.T) {
	r := newRand(t)
	for range rounds(3000) {
		var bounds, cuts [][]byte
		for range 2 + r.IntN(5) {
			bounds = append(bounds, randomKey(r))
		}
		slices.SortFunc(bounds, bytes.Compare)
		bounds = slices.CompactFunc(bounds, bytes.Equal)
		for range r.IntN(20) {
			cuts = append(cuts, randomKey(r))
		}
		slices.SortFunc(cuts, bytes.Compare)
		var ranges []kv.KeyRange
		for i := range bounds[1:] {
			ranges = append(ranges, kv.KeyRange{Start: bounds[i], End: bounds[i+1]})
		}
		n := r.IntN(10)
		parts := cutRanges(ranges, cuts, n)
		require.LessOrEqual(t, len(parts), max(n, len(ranges)))
		if len(ranges) == 0 {
			require.Empty(t, parts)
			continue
		}
		at := bounds[0]
		for _, p := range parts {
			require.Equal(t, at, p.Start)
			require.False(t, p.Empty())
			at = p.End
		}
		require.Equal(t, bounds[len(bounds)-1], at)
		for _, r := range ranges { // no part lies in two regions
			require.True(t, slices.ContainsFunc(parts, func(p kv.KeyRange) bool { return bytes.Equal(p.Start, r.Start) }))
		}
	}
}

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
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.insert(newRand(t), 4*checksumEntries)
	on := newOnTikv(f)
	store := &summingStore{Store: on.store, Checksummer: on.store}
	opts := on.options()
	opts.Store = store
	idx, wide := indexOn(9, false, 1), indexOn(10, false, 2, 3)
	spec := on.spec(idx, wide)
	_, err := Run(f.ctx, opts, spec)
	require.NoError(t, err)
	each := len(f.rows) / checksumEntries
	require.Greater(t, each, 1)
	require.Len(t, store.sums, 2*each)
	var pairs int64
	for _, sum := range store.sums {
		pairs += sum.Pairs
		require.InEpsilon(t, len(f.rows)/each, sum.Pairs, 0.5)
	}
	require.EqualValues(t, 2*len(f.rows), pairs)
	requireEntries(t, on.wantEntries(idx), on.entries(idx, spec.TS), "index")
}
