package backfill

import (
	"bytes"
	"slices"

	"fastddl/kv"
)

// checksumEntries is how many entries a store sums up at least by one request, if it is
// asked for parts of what it has in one piece: it sums up a request on one core.
const checksumEntries = 10_000

// keepCuts keeps keys at which the entries of a target can be cut into parts of about the
// same size, by a sample of them. Many targets need no cuts.
func (b *build) keepCuts(prefix []byte, sample [][]byte) {
	if !b.storeSums() || len(sample) == 0 || len(b.task.Indexes)*len(b.physicals) >= storeRequests {
		return
	}
	sorted := slices.SortedFunc(slices.Values(sample), bytes.Compare)
	for i := 1; i < storeRequests; i++ {
		b.cuts = append(b.cuts, slices.Concat(prefix, sorted[len(sorted)*i/storeRequests]))
	}
}

// cutRanges cuts ranges, which adjoin, at some of the keys inside them, so that there are
// about n. They still cover the same.
func cutRanges(ranges []kv.KeyRange, cuts [][]byte, n int) []kv.KeyRange {
	more := n - len(ranges)
	if more <= 0 || len(ranges) == 0 {
		return ranges
	}
	whole := kv.KeyRange{Start: ranges[0].Start, End: ranges[len(ranges)-1].End}
	var inside [][]byte
	for _, key := range cuts {
		if whole.Contains(key) && bytes.Compare(key, whole.Start) > 0 {
			inside = append(inside, key)
		}
	}
	keys := make([][]byte, 0, more+len(ranges))
	for i := 1; i <= more && len(inside) > 0; i++ {
		keys = append(keys, inside[len(inside)*i/(more+1)])
	}
	for _, r := range ranges[1:] {
		keys = append(keys, r.Start)
	}
	slices.SortFunc(keys, bytes.Compare)
	var parts []kv.KeyRange
	for _, key := range slices.CompactFunc(keys, bytes.Equal) {
		parts = append(parts, kv.KeyRange{Start: whole.Start, End: key})
		whole.Start = key
	}
	return append(parts, whole)
}
