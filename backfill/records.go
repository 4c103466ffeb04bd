package backfill

import (
	"context"
	"fmt"

	"fastddl/ingest"
	"fastddl/kv"
)

const (
	// verifyTaskBytes is the size of the ranges that an index is read back in.
	verifyTaskBytes = 4 << 20
	// countTaskRows is the size of the ranges that rows are counted in.
	countTaskRows = 50_000
	// verifyBatch is how many entries are read between two looks at whether to go
	// on.
	verifyBatch = 1024
	// tasksPerWorker evens out ranges of different cost.
	tasksPerWorker = 4
	// longPlaces is at how many places side by side rows are read that may be long.
	longPlaces = 4
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

// recordRanges are those of all physical tables.
func (x *execution) recordRanges() []kv.KeyRange {
	ranges := make([]kv.KeyRange, len(x.physicals))
	for i, id := range x.physicals {
		ranges[i] = recordRange(id)
	}
	return ranges
}

// planCounts cuts the table's records into at most n parts for each physical table.
// They cover everything, whatever the store takes for its ranges.
func (x *execution) planCounts(snap kv.Snapshot, n int) ([]kv.KeyRange, error) {
	var parts []kv.KeyRange
	for _, r := range x.recordRanges() {
		some, err := cutWhole(snap, r, n)
		if err != nil {
			return nil, err
		}
		parts = append(parts, some...)
	}
	return parts, nil
}

// storeCounts cuts the table's records where the store cuts them, for a store that counts
// them itself. No key is read for it, and they cover everything all the same.
func (x *execution) storeCounts(ctx context.Context) ([]kv.KeyRange, error) {
	var parts []kv.KeyRange
	for _, r := range x.recordRanges() {
		some, err := storeRanges(ctx, x.opts.Store, r)
		if err != nil {
			return nil, err
		}
		parts = append(parts, some...)
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

// trailingCount counts the records of a range while that is scanned, countTaskRows at a time:
// few enough that a worker can yield to the foreground in between.
type trailingCount struct {
	count func(ctx context.Context, r kv.KeyRange) error
	start []byte // what lies before is counted
	rows  int    // that were scanned since
}

// scanned tells of the next batch.
func (c *trailingCount) scanned(ctx context.Context, batch *kv.RowBatch) error {
	if c.rows += batch.NumRows(); c.rows < countTaskRows {
		return nil
	}
	return c.until(ctx, kv.NextKey(batch.LastKey))
}

// until counts up to end, before which all was scanned.
func (c *trailingCount) until(ctx context.Context, end []byte) error {
	err := c.count(ctx, kv.KeyRange{Start: c.start, End: end})
	c.start, c.rows = end, 0
	return err
}
