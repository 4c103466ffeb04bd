package backfill

import (
	"context"
	"fmt"

	"fastddl/ingest"
	"fastddl/kv"
)

// RowCountError says that a scan of a table did not hand out all its rows.
type RowCountError struct {
	Table string
	// Scanned were handed out, Keys are there.
	Scanned, Keys int64
}

func (e *RowCountError) Error() string {
	return fmt.Sprintf("backfill: table %s has %d rows, but %d were scanned", e.Table, e.Keys, e.Scanned)
}

// planCounts cuts the table's records into at most n parts for each physical table.
// They cover everything, whatever the store takes for its ranges.
func (x *execution) planCounts(snap kv.Snapshot, n int) ([]kv.KeyRange, error) {
	var parts []kv.KeyRange
	for _, id := range x.physicals {
		r := recordRange(id)
		bounds, err := keyBounds(snap, r)
		if err != nil {
			return nil, err
		}
		start := r.Start
		for _, cut := range interpolate(bounds, n) {
			parts = append(parts, kv.KeyRange{Start: start, End: cut})
			start = cut
		}
		parts = append(parts, kv.KeyRange{Start: start, End: r.End})
	}
	return parts, nil
}

// storeCounts cuts the table's records where the store cuts them, for a store that counts
// them itself. No key is read for it, and they cover everything all the same.
func (x *execution) storeCounts(ctx context.Context) ([]kv.KeyRange, error) {
	var parts []kv.KeyRange
	for _, id := range x.physicals {
		some, err := storeRanges(ctx, x.opts.Store, recordRange(id))
		if err != nil {
			return nil, err
		}
		parts = append(parts, some...)
	}
	return parts, nil
}

// storeRanges cuts r where the store cuts it.
func storeRanges(ctx context.Context, store kv.Store, r kv.KeyRange) ([]kv.KeyRange, error) {
	ranges, err := store.Ranges(ctx, r)
	if err != nil {
		return nil, err
	}
	var tasks []task
	parts := make([]kv.KeyRange, len(ranges))
	for i, piece := range ranges {
		parts[i] = piece.KeyRange
		tasks = append(tasks, task{KeyRange: piece.KeyRange})
	}
	return parts, checkCover(r, tasks)
}

// countKeys counts the records in r.
func (x *execution) countKeys(ctx context.Context, snap kv.Snapshot, r kv.KeyRange, pacer *ingest.Pacer) (int64, error) {
	if err := pacer.Pace(ctx); err != nil {
		return 0, err
	}
	return snap.Count(ctx, r)
}
