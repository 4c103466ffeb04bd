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

// countKeys counts the records in r.
func (x *execution) countKeys(ctx context.Context, snap kv.Snapshot, r kv.KeyRange, pacer *ingest.Pacer) (int64, error) {
	if err := pacer.Pace(ctx); err != nil {
		return 0, err
	}
	return snap.Count(ctx, r)
}
