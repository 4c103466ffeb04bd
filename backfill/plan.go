package backfill

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"fastddl/kv"
)

// task is a range of rows to scan, with a weight that says how much of the
// whole it is: the estimated bytes, where the store knows them.
type task struct {
	kv.KeyRange
	weight float64
}

// planRows cuts all rows of the table into tasks, in key order.
func (x *execution) planRows(ctx context.Context) ([]task, error) {
	snap, err := x.opts.Store.Snapshot(ctx, x.task.TS)
	if err != nil {
		return nil, fmt.Errorf("backfill: plan: %w", err)
	}
	defer snap.Close()
	var tasks []task
	for _, id := range x.physicals {
		some, err := planRange(ctx, x.opts.Store, snap, recordRange(id), x.opts.TaskBytes, 1)
		if err != nil {
			return nil, fmt.Errorf("backfill: plan: %w", err)
		}
		tasks = append(tasks, some...)
	}
	return tasks, nil
}

// planRange cuts r into tasks, within the keys that exist at the snapshot.
func planRange(ctx context.Context, store kv.Store, snap kv.Snapshot, r kv.KeyRange, targetBytes uint64, atLeast int) ([]task, error) {
	bounds, err := keyBounds(snap, r)
	if err != nil || bounds.Empty() {
		return nil, err
	}
	ranges, err := store.Ranges(ctx, bounds)
	if err != nil {
		return nil, err
	}
	tasks := planTasks(ranges, bounds, targetBytes, atLeast)
	return tasks, checkCover(bounds, tasks)
}

// checkCover makes sure that no key of r is left out: tasks follow each other from
// its start to its end.
func checkCover(r kv.KeyRange, tasks []task) error {
	at := r.Start
	for _, t := range tasks {
		if !bytes.Equal(t.Start, at) {
			return fmt.Errorf("backfill: ranges of the store leave out [%x, %x)", at, t.Start)
		}
		at = t.End
	}
	if !bytes.Equal(at, r.End) {
		return fmt.Errorf("backfill: ranges of the store leave out [%x, %x)", at, r.End)
	}
	return nil
}

// keyBounds returns the range from the first key of r to the last; empty if
// there is none.
func keyBounds(snap kv.Snapshot, r kv.KeyRange) (kv.KeyRange, error) {
	none := kv.KeyRange{Start: r.Start, End: r.Start}
	first, err := snap.Iter(r)
	if err != nil {
		return none, err
	}
	defer first.Close()
	if !first.Valid() {
		return none, nil
	}
	last, err := snap.IterReverse(r)
	if err != nil {
		return none, err
	}
	defer last.Close()
	return kv.KeyRange{
		Start: append([]byte(nil), first.Key()...),
		End:   kv.NextKey(last.Key()),
	}, nil
}

// planTasks cuts the store's natural ranges into tasks of about targetBytes,
// within the bounds of the keys that exist, and into at least atLeast tasks, if
// the keys allow it. A range of unknown size weighs as much as an average one.
func planTasks(ranges []kv.SizedRange, bounds kv.KeyRange, targetBytes uint64, atLeast int) []task {
	var known, clipped []kv.SizedRange
	var sum uint64
	for _, r := range ranges {
		r.KeyRange = r.Intersect(bounds)
		if r.Empty() {
			continue
		}
		clipped = append(clipped, r)
		if r.Bytes > 0 {
			known = append(known, r)
			sum += r.Bytes
		}
	}
	average := float64(1)
	if len(known) > 0 {
		average = float64(sum) / float64(len(known))
	}
	var tasks []task
	for _, r := range clipped {
		weight, n := average, (atLeast+len(clipped)-1)/len(clipped)
		if r.Bytes > 0 {
			weight = float64(r.Bytes)
			n = max(n, int(min(1<<16, (r.Bytes+targetBytes-1)/targetBytes)))
		}
		tasks = append(tasks, splitTask(task{r.KeyRange, weight}, n)...)
	}
	return tasks
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

// interpolate returns at most n-1 ascending keys strictly inside r that divide
// it evenly, if keys are taken as numbers. For integer handles they are. No key
// is longer than both bounds.
func interpolate(r kv.KeyRange, n int) [][]byte {
	var cuts [][]byte
	last := r.Start
	for i := 1; i < n; i++ {
		if key, ok := between(r, uint64(i), uint64(n)); ok && bytes.Compare(key, last) > 0 {
			cuts = append(cuts, key)
			last = key
		}
	}
	return cuts
}

// between returns the key that lies i n-ths into r, as interpolate says, for 0 < i < n; ok
// is false if there is none strictly inside.
func between(r kv.KeyRange, i, n uint64) (key []byte, ok bool) {
	if r.End == nil {
		return nil, false
	}
	common := commonPrefix(r.Start, r.End)
	lo, hi := number(r.Start[common:]), number(r.End[common:])
	if hi <= lo {
		return nil, false
	}
	key = append(bytes.Clone(r.Start[:common]), make([]byte, 8)...)
	binary.BigEndian.PutUint64(key[common:], lo+fraction(hi-lo, i, n))
	key = key[:min(len(key), max(len(r.Start), len(r.End)))]
	return key, bytes.Compare(key, r.Start) > 0 && bytes.Compare(key, r.End) < 0
}

// position returns how far key lies in r, between 0 and 1.
func position(r kv.KeyRange, key []byte) float64 {
	if r.End == nil || bytes.Compare(key, r.Start) <= 0 {
		return 0
	}
	if bytes.Compare(key, r.End) >= 0 {
		return 1
	}
	common := commonPrefix(r.Start, r.End)
	lo, hi, at := number(r.Start[common:]), number(r.End[common:]), number(key[common:])
	if hi <= lo || at <= lo {
		return 0
	}
	return min(1, float64(at-lo)/float64(hi-lo))
}

// number is the first eight bytes of b as a number, padded with zeros.
func number(b []byte) uint64 {
	var p [8]byte
	copy(p[:], b)
	return binary.BigEndian.Uint64(p[:])
}

// fraction returns x*i/n without overflow, for i < n.
func fraction(x, i, n uint64) uint64 {
	hi, lo := bits.Mul64(x, i)
	q, _ := bits.Div64(hi, lo, n)
	return q
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
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
