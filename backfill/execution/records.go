package execution

import (
	"context"
	"fmt"

	"fastddl/backfill/encode"
	"fastddl/backfill/keyrange"
	"fastddl/flow"
	"fastddl/kv"
)

const (
	// VerifyRangeBytes is the size of the ranges that an index is read back in.
	VerifyRangeBytes = 4 << 20
	// CountRangeRows is the size of the ranges that rows are counted in.
	CountRangeRows = 50_000
	// VerifyBatch is how many entries are read between two checks of ctx and the
	// pace.
	VerifyBatch = 1024
	// RangesPerWorker evens out ranges of different cost.
	RangesPerWorker = 4
	// LongPlaces is at how many places at one time rows are read that may be long.
	LongPlaces = 4
)

// RowCountError says that a scan of a table did not return all its rows.
type RowCountError struct {
	Table string
	// Scanned is how many rows the scan returned, Keys how many records the table has.
	Scanned, Keys int64
	// OfBatch says that both are those of a batch, whose records the store has counted.
	OfBatch bool
}

func (e *RowCountError) Error() string {
	if e.OfBatch {
		return fmt.Sprintf("backfill: a scan of table %s has returned %d rows of %d that the store has visited", e.Table, e.Scanned, e.Keys)
	}
	return fmt.Sprintf("backfill: table %s has %d rows, but %d were scanned", e.Table, e.Keys, e.Scanned)
}

// ScannedRangesError says that the ranges that a scan of a table has read are not those that it was to read.
type ScannedRangesError struct{ Table string }

func (e *ScannedRangesError) Error() string {
	return fmt.Sprintf("backfill: ranges of table %s were scanned twice, not at all, or without being due", e.Table)
}

// RecordRanges returns the ranges of the records of all physical tables.
func (x *Execution) RecordRanges() []kv.KeyRange {
	ranges := make([]kv.KeyRange, len(x.Physicals))
	for i, id := range x.Physicals {
		ranges[i] = encode.RecordRange(id)
	}
	return ranges
}

// PlanCounts cuts the table's records into at most n ranges for each physical table.
// They cover everything and do not depend on the store's ranges.
func (x *Execution) PlanCounts(snap kv.Snapshot, n int) ([]kv.KeyRange, error) {
	var ranges []kv.KeyRange
	for _, r := range x.RecordRanges() {
		cut, err := keyrange.CutWhole(snap, r, n)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, cut...)
	}
	return ranges, nil
}

// StoreCounts cuts the table's records where the store cuts them, for a store that counts
// them itself. No key is read for it, and they cover everything all the same.
func (x *Execution) StoreCounts(ctx context.Context) ([]kv.KeyRange, error) {
	var ranges []kv.KeyRange
	for _, r := range x.RecordRanges() {
		cut, err := keyrange.OfStore(ctx, x.Opts.Store, r)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, cut...)
	}
	return ranges, nil
}

// CountKeys counts the records in r.
func (x *Execution) CountKeys(ctx context.Context, snap kv.Snapshot, r kv.KeyRange, pacer *flow.Pacer) (int64, error) {
	if err := pacer.Pace(ctx); err != nil {
		return 0, err
	}
	return snap.Count(ctx, r)
}

// TrailingCount counts the records of a range while that is scanned, CountRangeRows at a time:
// few enough that a worker can yield to the foreground in between.
type TrailingCount struct {
	Count func(ctx context.Context, r kv.KeyRange) error
	Start []byte // what lies before is counted
	rows  int    // that were scanned since
}

// Scanned adds the next batch.
func (c *TrailingCount) Scanned(ctx context.Context, batch *kv.RowBatch) error {
	if c.rows += batch.NumRows(); c.rows < CountRangeRows {
		return nil
	}
	return c.Until(ctx, kv.NextKey(batch.LastKey))
}

// Until counts up to end, before which all was scanned.
func (c *TrailingCount) Until(ctx context.Context, end []byte) error {
	err := c.Count(ctx, kv.KeyRange{Start: c.Start, End: end})
	c.Start, c.rows = end, 0
	return err
}
