package keyrange

import (
	"bytes"
	"context"
	"fmt"

	"fastddl/kv"
)

// Plan cuts r into tasks, within the keys that exist at the snapshot.
func Plan(ctx context.Context, store kv.Store, snap kv.Snapshot, r kv.KeyRange, targetBytes uint64, atLeast int) ([]Weighted, error) {
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
func checkCover(r kv.KeyRange, tasks []Weighted) error {
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
func planTasks(ranges []kv.SizedRange, bounds kv.KeyRange, targetBytes uint64, atLeast int) []Weighted {
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
	var tasks []Weighted
	for _, r := range clipped {
		weight, n := average, (atLeast+len(clipped)-1)/len(clipped)
		if r.Bytes > 0 {
			weight = float64(r.Bytes)
			n = max(n, int(min(1<<16, (r.Bytes+targetBytes-1)/targetBytes)))
		}
		tasks = append(tasks, Split(Weighted{r.KeyRange, weight}, n)...)
	}
	return tasks
}
