package keyrange

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/kv"
)

// TestCutRanges: the cut ranges cover the range they were cut from, for any keys.
func TestCutRanges(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(3000) {
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
		parts := CutRanges(ranges, cuts, n)
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
