package keyrange

import (
	"bytes"
	"math"
	"slices"

	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/kv"
)

// Weighted is a range of rows to scan, with a weight that says how much of the
// whole it is: the estimated bytes, where the store knows them.
type Weighted struct {
	kv.KeyRange
	Weight float64
}

// PhysicalID is the physical table that a task's rows are of.
func (t Weighted) PhysicalID() int64 { return tablecodec.DecodeTableID(t.Start) }

// Indexed is a range of an index.
type Indexed struct {
	kv.KeyRange
	Index int // in the task
}

// TotalWeight returns the sum of the weights.
func TotalWeight(tasks []Weighted) float64 {
	var sum float64
	for _, t := range tasks {
		sum += t.Weight
	}
	return sum
}

// Split cuts a task into at most n of about equal extent.
func Split(t Weighted, n int) []Weighted {
	cuts := interpolate(t.KeyRange, n)
	tasks := make([]Weighted, 0, len(cuts)+1)
	each := t.Weight / float64(len(cuts)+1)
	start := t.Start
	for _, c := range cuts {
		tasks = append(tasks, Weighted{kv.KeyRange{Start: start, End: c}, each})
		start = c
	}
	return append(tasks, Weighted{kv.KeyRange{Start: start, End: t.End}, each})
}

// cutGrain is in how many pieces a task can be cut by a share of it.
const cutGrain = 1 << 16

// CutAt cuts a task where a share of it is done; ok is false if that is none of it or
// all, or if its keys lie too close together.
func CutAt(t Weighted, share float64) (head, tail Weighted, ok bool) {
	if share <= 0 || share >= 1 {
		return Weighted{}, Weighted{}, false
	}
	cut, ok := between(t.KeyRange, uint64(min(max(1, math.Round(share*cutGrain)), cutGrain-1)), cutGrain)
	if !ok {
		return Weighted{}, Weighted{}, false
	}
	return Weighted{kv.KeyRange{Start: t.Start, End: cut}, t.Weight * share}, Weighted{kv.KeyRange{Start: cut, End: t.End}, t.Weight * (1 - share)}, true
}

// Merge joins adjacent tasks, in key order.
func Merge(tasks []Weighted) []Weighted {
	var merged []Weighted
	for _, t := range tasks {
		if n := len(merged); n > 0 && bytes.Equal(merged[n-1].End, t.Start) {
			merged[n-1].End = t.End
			merged[n-1].Weight += t.Weight
			continue
		}
		merged = append(merged, t)
	}
	return merged
}

// fewer joins adjacent ones of all, which are in key order and have ranges, so that about most
// are left, as far as they adjoin. add adds what else one has, or says that the two must
// stay apart: ranges of two indexes, or of two tables, may adjoin too.
func fewer[T any](all []T, most int, keys func(*T) *kv.KeyRange, add func(into, from *T) bool) []T {
	each := (len(all) + most - 1) / most
	if each <= 1 {
		return all
	}
	var joined []T
	parts := 0 // of the last one
	for i := range all {
		if n := len(joined); n > 0 && parts < each && bytes.Equal(keys(&joined[n-1]).End, keys(&all[i]).Start) && add(&joined[n-1], &all[i]) {
			keys(&joined[n-1]).End = keys(&all[i]).End
			parts++
			continue
		}
		joined, parts = append(joined, all[i]), 1
	}
	return joined
}

// FewerWeighted is fewer of tasks.
func FewerWeighted(tasks []Weighted, most int) []Weighted {
	return fewer(tasks, most, func(t *Weighted) *kv.KeyRange { return &t.KeyRange }, func(into, from *Weighted) bool {
		into.Weight += from.Weight
		return true
	})
}

// FewerRanges is fewer of ranges.
func FewerRanges(ranges []kv.KeyRange, most int) []kv.KeyRange {
	return fewer(ranges, most, func(r *kv.KeyRange) *kv.KeyRange { return r }, func(_, _ *kv.KeyRange) bool { return true })
}

// FewerIndexed is fewer of ranges of entries. The last range of an index ends where the index
// with the next ID begins.
func FewerIndexed(ranges []Indexed, most int) []Indexed {
	return fewer(ranges, most, func(r *Indexed) *kv.KeyRange { return &r.KeyRange }, func(into, from *Indexed) bool {
		return into.Index == from.Index
	})
}

// Sort puts tasks into key order.
func Sort(tasks []Weighted) {
	slices.SortFunc(tasks, func(a, b Weighted) int { return bytes.Compare(a.Start, b.Start) })
}
