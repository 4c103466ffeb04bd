package backfill

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"fastddl/ingest"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

// Verified is a time at which every entry of the indexes was found to be what the rows
// give, and none too many. The zero value is never.
type Verified struct {
	TS uint64
	// Rows is how many rows were scanned for that.
	Rows int64
}

// unchanged says that rows and indexes are what they were when they were verified. Whatever
// it cannot be sure of is a change: then everything is compared.
//
// A key without a version since has the value that it had, so two ranges without one are as
// equal as they were. That the scan then saw all rows is what the count adds.
func (c *comparison) unchanged(ctx context.Context) (bool, error) {
	store, ok := c.opts.Store.(kv.ChangeFinder)
	if !ok || c.verified.TS == 0 {
		return false, nil
	}
	changed, err := store.Changed(ctx, c.ranges(), c.verified.TS, c.task.TS)
	switch {
	case errors.Is(err, kv.ErrSnapshotTooOld):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("backfill: compare: %w", err)
	case changed:
		return false, nil
	}
	keys, err := c.countRows(ctx)
	if err != nil {
		return false, fmt.Errorf("backfill: compare: %w", err)
	}
	return keys == c.verified.Rows, nil
}

// ranges are those of the rows and of all indexes.
func (c *comparison) ranges() []kv.KeyRange {
	var ranges []kv.KeyRange
	for _, id := range c.physicals {
		ranges = append(ranges, recordRange(id))
	}
	for _, idx := range c.task.Indexes {
		for _, id := range indexIDs(c.task.Table, idx, c.physicals) {
			ranges = append(ranges, indexRange(id, idx.ID))
		}
	}
	return ranges
}

// countRows counts the rows by their keys.
func (c *comparison) countRows(ctx context.Context) (int64, error) {
	var keys, done atomic.Int64
	err := c.execute(ctx, ingest.ShareOptions{ReadOnly: true}, func(ctx context.Context) error {
		c.enter(stageCompare, func() float64 { return float64(done.Load()) / float64(max(1, len(c.counts))) })
		return parallel.Do(ctx, len(c.counts), c.share.Workers, func(ctx context.Context, i int) error {
			pacer, end := c.startVerifying()
			defer end()
			defer done.Add(1)
			n, err := c.countKeys(ctx, c.snap, c.counts[i], pacer)
			keys.Add(n)
			return err
		})
	})
	return keys.Load(), err
}
