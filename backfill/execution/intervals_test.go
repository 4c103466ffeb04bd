package execution

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/ingest"
	"fastddl/internal/randtest"
)

func intervalKey(i int) []byte { return binary.BigEndian.AppendUint16([]byte("k"), uint16(i)) }

// randomEntries returns the intervals of random entries with random cuts, and the keys of the entries.
func randomEntries(r *rand.Rand) (v Intervals, keys []int) {
	var cuts []int
	for range r.IntN(6) {
		cuts = append(cuts, r.IntN(30))
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for _, c := range cuts {
		v.Cuts = append(v.Cuts, intervalKey(c))
	}
	v.Sums = make([]ingest.Totals, len(cuts)+1)
	from := r.IntN(30)
	for range r.IntN(20) {
		key := from + r.IntN(30-from)
		keys = append(keys, key)
		at, found := slices.BinarySearch(cuts, key)
		if found {
			at++
		}
		v.Sums[at].AddEntry(intervalKey(key), 3)
	}
	return v, keys
}

// TestIntervalsAreAdded: the sum of intervals has of each of its own intervals what both have there, and is cut where both are.
func TestIntervalsAreAdded(t *testing.T) {
	r := randtest.Rand(t)
	joined := 0
	for range 20_000 {
		a, keysA := randomEntries(r)
		b, keysB := randomEntries(r)
		sum := a.Add(b)
		require.Equal(t, sum, sum.Fit(ingest.SumTotals(append(slices.Clone(a.Sums), b.Sums...))))
		for i, got := range sum.Sums {
			var want ingest.Totals
			keys := sum.Keys(i)
			for _, key := range append(slices.Clone(keysA), keysB...) {
				if keys.Contains(intervalKey(key)) {
					want.AddEntry(intervalKey(key), 3)
				}
			}
			require.Equal(t, want, got, "interval %d of %v", i, sum.Cuts)
		}
		for _, cut := range a.Cuts {
			inB := slices.ContainsFunc(b.Cuts, func(c []byte) bool { return slices.Equal(c, cut) })
			if inSum := slices.ContainsFunc(sum.Cuts, func(c []byte) bool { return slices.Equal(c, cut) }); inB {
				require.True(t, inSum)
			} else if !inSum {
				joined++
			}
		}
	}
	require.Positive(t, joined)
}

// TestIntervalsFitTheirTotals: intervals that do not add up to the totals, or are out of order, are not used.
func TestIntervalsFitTheirTotals(t *testing.T) {
	var one, two, both ingest.Totals
	one.AddEntry([]byte("a1"), 1)
	two.AddEntry([]byte("k2"), 1)
	both.Add(one)
	both.Add(two)
	fit := Intervals{Cuts: [][]byte{[]byte("b")}, Sums: []ingest.Totals{one, two}}
	require.Equal(t, fit, fit.Fit(both))
	all := Intervals{Sums: []ingest.Totals{both}}
	for _, v := range []Intervals{
		{}, {Sums: fit.Sums}, {Cuts: fit.Cuts, Sums: []ingest.Totals{one, one}},
		{Cuts: [][]byte{{2}, {1}}, Sums: []ingest.Totals{one, two, {}}}, {Cuts: [][]byte{{2}, {2}}, Sums: []ingest.Totals{one, two, {}}},
	} {
		require.Equal(t, all, v.Fit(both))
	}
}
