package keyrange

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/kv"
)

// TestSetHoldsEachKeyOnce: a set takes ranges in any order, joins those that adjoin, and refuses keys that it has.
func TestSetHoldsEachKeyOnce(t *testing.T) {
	r := backfilltest.Rand(t)
	refused := 0
	for range backfilltest.Rounds(3000) {
		var set Set
		var has [40]bool
		for range 30 {
			from := r.IntN(40)
			to := min(40, from+r.IntN(6))
			var want bool
			if want = !slices.Contains(has[from:to], true); want {
				for i := from; i < to; i++ {
					has[i] = true
				}
			} else {
				refused++
			}
			require.Equal(t, want, set.Add(kv.KeyRange{Start: []byte{byte(from)}, End: []byte{byte(to)}}))
			var ranges Set
			for i := 0; i < 40; i++ {
				if from := i; has[i] {
					for i < 40 && has[i] {
						i++
					}
					ranges = append(ranges, kv.KeyRange{Start: []byte{byte(from)}, End: []byte{byte(i)}})
				}
			}
			require.Equal(t, len(ranges), len(set))
			for i := range ranges {
				require.Equal(t, ranges[i], set[i])
			}
		}
	}
	require.Positive(t, refused)
}
