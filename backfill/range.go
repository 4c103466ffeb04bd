package backfill

import (
	"bytes"
	"math"
	"slices"

	"github.com/pingcap/tidb/pkg/tablecodec"

	"fastddl/kv"
)

// task is a range of rows to scan, with a weight that says how much of the
// whole it is: the estimated bytes, where the store knows them.
type task struct {
	kv.KeyRange
	weight float64
}

// physicalID is the physical table that a task's rows are of.
func (t task) physicalID() int64 { return tablecodec.DecodeTableID(t.Start) }

// entryRange is a part of an index.
type entryRange struct {
	kv.KeyRange
	index int // in the task
}

func totalWeight(tasks []task) float64 {
	var sum float64
	for _, t := range tasks {
		sum += t.weight
	}
	return sum
}

// splitTask cuts a task into at most n of about equal extent.
func splitTask(t task, n int) []task {
	cuts := interpolate(t.KeyRange, n)
	tasks := make([]task, 0, len(cuts)+1)
	each := t.weight / float64(len(cuts)+1)
	start := t.Start
	for _, c := range cuts {
		tasks = append(tasks, task{kv.KeyRange{Start: start, End: c}, each})
		start = c
	}
	return append(tasks, task{kv.KeyRange{Start: start, End: t.End}, each})
}

// cutGrain is in how many pieces a task can be cut by a share of it.
const cutGrain = 1 << 16

// cutTask cuts a task where a share of it is done; ok is false if that is none of it or
// all, or if its keys lie too close together.
func cutTask(t task, share float64) (head, tail task, ok bool) {
	if share <= 0 || share >= 1 {
		return task{}, task{}, false
	}
	cut, ok := between(t.KeyRange, uint64(min(max(1, math.Round(share*cutGrain)), cutGrain-1)), cutGrain)
	if !ok {
		return task{}, task{}, false
	}
	return task{kv.KeyRange{Start: t.Start, End: cut}, t.weight * share}, task{kv.KeyRange{Start: cut, End: t.End}, t.weight * (1 - share)}, true
}

// mergeTasks joins adjacent tasks, in key order.
func mergeTasks(tasks []task) []task {
	var merged []task
	for _, t := range tasks {
		if n := len(merged); n > 0 && bytes.Equal(merged[n-1].End, t.Start) {
			merged[n-1].End = t.End
			merged[n-1].weight += t.weight
			continue
		}
		merged = append(merged, t)
	}
	return merged
}

// fewer joins adjacent ones of all, which are in key order and have ranges, so that about most
// are left, as far as they adjoin. add takes over what else one has, or says that the two must
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

// fewerTasks is fewer of tasks.
func fewerTasks(tasks []task, most int) []task {
	return fewer(tasks, most, func(t *task) *kv.KeyRange { return &t.KeyRange }, func(into, from *task) bool {
		into.weight += from.weight
		return true
	})
}

// fewerRanges is fewer of ranges.
func fewerRanges(ranges []kv.KeyRange, most int) []kv.KeyRange {
	return fewer(ranges, most, func(r *kv.KeyRange) *kv.KeyRange { return r }, func(_, _ *kv.KeyRange) bool { return true })
}

// fewerEntries is fewer of ranges of entries. The last range of an index ends where the index
// with the next ID begins.
func fewerEntries(ranges []entryRange, most int) []entryRange {
	return fewer(ranges, most, func(r *entryRange) *kv.KeyRange { return &r.KeyRange }, func(into, from *entryRange) bool {
		return into.index == from.index
	})
}

// sortTasks puts tasks into key order.
func sortTasks(tasks []task) {
	slices.SortFunc(tasks, func(a, b task) int { return bytes.Compare(a.Start, b.Start) })
}
