package keyrange

import (
	"bytes"
	"context"
	"slices"

	"fastddl/kv"
)

const (
	// StoreRequestBytes is about how much a store counts or sums up by one request: TiKV gives
	// one a minute, and begins anew when that was not enough.
	StoreRequestBytes = 64 << 20
	// maxPieces bounds the requests that a range is cut into for that.
	maxPieces = 64
)

// OfStore cuts r where the store cuts it.
func OfStore(ctx context.Context, store kv.Store, r kv.KeyRange) ([]kv.KeyRange, error) {
	pieces, err := store.Ranges(ctx, r)
	if err != nil {
		return nil, err
	}
	return CutPieces(r, pieces)
}

// CutPieces cuts what r consists of into what one request may concern.
func CutPieces(r kv.KeyRange, pieces []kv.SizedRange) ([]kv.KeyRange, error) {
	var tasks []Weighted
	for _, piece := range pieces {
		n := int(min(maxPieces, 1+piece.Bytes/StoreRequestBytes))
		tasks = append(tasks, Split(Weighted{piece.KeyRange, float64(piece.Bytes)}, n)...)
	}
	parts := make([]kv.KeyRange, len(tasks))
	for i, t := range tasks {
		parts[i] = t.KeyRange
	}
	return parts, checkCover(r, tasks)
}

// CutWhole cuts all of r into at most n parts, by the keys that it has.
func CutWhole(snap kv.Snapshot, r kv.KeyRange, n int) (parts []kv.KeyRange, err error) {
	if n == 1 {
		return []kv.KeyRange{r}, nil
	}
	bounds, err := keyBounds(snap, r)
	if err != nil {
		return nil, err
	}
	start := r.Start
	for _, cut := range interpolate(bounds, n) {
		parts = append(parts, kv.KeyRange{Start: start, End: cut})
		start = cut
	}
	return append(parts, kv.KeyRange{Start: start, End: r.End}), nil
}

// Without returns what of ranges lies in none of done, in key order. It reports false if some of
// done overlap.
func Without(ranges, done []kv.KeyRange) (left []kv.KeyRange, once bool) {
	byStart := func(a, b kv.KeyRange) int { return bytes.Compare(a.Start, b.Start) }
	done = slices.DeleteFunc(slices.Clone(done), kv.KeyRange.Empty) // tasks are split until there is nothing left
	slices.SortFunc(done, byStart)
	ranges = slices.SortedFunc(slices.Values(ranges), byStart)
	for i := 1; i < len(done); i++ {
		if bytes.Compare(done[i].Start, done[i-1].End) < 0 {
			return nil, false
		}
	}
	for _, r := range ranges {
		for len(done) > 0 && bytes.Compare(done[0].End, r.Start) <= 0 {
			done = done[1:]
		}
		for _, d := range done {
			if bytes.Compare(d.Start, r.End) >= 0 {
				break
			}
			if bytes.Compare(r.Start, d.Start) < 0 {
				left = append(left, kv.KeyRange{Start: r.Start, End: d.Start})
			}
			r.Start = d.End
		}
		if !r.Empty() {
			left = append(left, r)
		}
	}
	return left, true
}

// CutRanges cuts ranges, which adjoin, at some of the keys inside them, so that there are
// about n. They still cover the same.
func CutRanges(ranges []kv.KeyRange, cuts [][]byte, n int) []kv.KeyRange {
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

// Sampled returns ranges at whose beginning rows are to be sampled, at most
// places.
func Sampled(tasks []Weighted, places int) []kv.KeyRange {
	each := max(1, places/len(tasks))
	step := (len(tasks) + places - 1) / places
	var ranges []kv.KeyRange
	for i := 0; i < len(tasks); i += step {
		for _, t := range Split(tasks[i], each) {
			ranges = append(ranges, t.KeyRange)
		}
	}
	// The first goes to the end of its task: a table with few rows ends there.
	ranges[0].End = tasks[0].End
	return ranges
}
