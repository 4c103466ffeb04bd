package backfill

import (
	"context"

	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// openCount makes the build have a count, of which nothing is planned yet.
func (b *build) openCount(ctx context.Context) error {
	if b.count != nil {
		return nil
	}
	snap, err := b.opts.Store.Snapshot(ctx, b.Task.TS)
	if err == nil {
		b.count = &rowCount{x: b.Execution, snap: snap}
	}
	return err
}

// countBeside has the scan count what it reads, if the rows are to be counted and the store
// does not do that itself.
func (b *build) countBeside(ctx context.Context, cp *checkpoint) error {
	if b.StoreSums() || !b.counts || b.rowsProven(cp) {
		return nil
	}
	return b.openCount(ctx)
}

// planCount returns the count of the build's rows, of which there are about as many as
// rows says. All rows are scanned.
func (b *build) planCount(ctx context.Context, rows int64) (c *rowCount, err error) {
	if err := b.openCount(ctx); err != nil {
		return nil, err
	}
	c = b.count
	if c.planned {
		return c, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	left, once := keyrange.Without(b.RecordRanges(), c.beside)
	if once && len(left) == 0 {
		c.planned = true
		return c, nil
	}
	var ranges []kv.KeyRange
	if b.StoreSums() {
		ranges, err = b.StoreCounts(ctx)
	} else {
		n := max(execution.RangesPerWorker*b.opts.MaxWorkers, int(rows/execution.CountRangeRows/int64(len(b.Physicals))))
		ranges, err = b.PlanCounts(c.snap, n)
	}
	if err != nil {
		return nil, err
	}
	if left, once = keyrange.Without(ranges, c.beside); !once { // what was counted twice is not known to be counted
		c.keys.Store(0)
		left = ranges
	}
	c.ranges, c.planned = left, true
	return c, nil
}

// beginCount lets the rows be counted in the background, if they are to be counted.
func (b *build) beginCount(ctx context.Context, cp *checkpoint) error {
	if !b.counts || b.rowsProven(cp) {
		return nil
	}
	c, err := b.planCount(ctx, b.Progress.Done())
	if err == nil && c.stop == nil {
		c.begin(ctx)
	}
	return err
}

// endCount ends the counting, finished or not.
func (b *build) endCount() error {
	c := b.count
	if c == nil {
		return nil
	}
	b.count = nil
	_, err := c.finish()
	return errs.Combine(err, c.snap.Close())
}
