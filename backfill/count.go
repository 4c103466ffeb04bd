package backfill

import (
	"context"
	"fmt"
	"sync/atomic"

	"fastddl/ingest"
	"fastddl/internal/errs"
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

// rowCount counts a table's records at the timestamp of a build. They do not depend on
// what the build does, so one goroutine begins when all rows are scanned, in the time in
// which merging and importing wait for the disk; verification does what is left with all
// workers.
type rowCount struct {
	b     *build
	snap  kv.Snapshot
	parts []kv.KeyRange
	taken atomic.Int64 // parts that somebody counts or has counted
	keys  atomic.Int64 // in the parts that were counted

	stop chan struct{} // closed when the goroutine is not to take another part; nil without one
	done chan error
}

// planCount returns the count of the build's rows, of which there are about as many as
// rows says.
func (b *build) planCount(ctx context.Context, rows int64) (_ *rowCount, err error) {
	if b.count != nil {
		return b.count, nil
	}
	c := &rowCount{b: b}
	if c.snap, err = b.opts.Store.Snapshot(ctx, b.task.TS); err != nil {
		return nil, err
	}
	if _, ok := b.opts.Store.(kv.Checksummer); ok {
		c.parts, err = b.storeCounts(ctx)
	} else {
		n := max(tasksPerWorker*b.opts.MaxWorkers, int(rows/countTaskRows/int64(len(b.physicals))))
		c.parts, err = b.planCounts(c.snap, n)
	}
	if err != nil {
		return nil, errs.Also(err, c.snap.Close())
	}
	b.count = c
	return c, nil
}

// beginCount lets the rows be counted in the background, if they are to be counted.
func (b *build) beginCount(ctx context.Context) error {
	if !b.counts {
		return nil
	}
	c, err := b.planCount(ctx, b.progress.done())
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
	return errs.Also(err, c.snap.Close())
}

// begin counts in the background until finish is called.
func (c *rowCount) begin(ctx context.Context) {
	c.stop, c.done = make(chan struct{}), make(chan error, 1)
	go func() { c.done <- c.untilStopped(ctx) }()
}

func (c *rowCount) untilStopped(ctx context.Context) (err error) {
	defer errs.Contain(&err)
	for {
		select {
		case <-c.stop:
			return nil
		default:
		}
		if more, err := c.step(ctx); err != nil || !more {
			return err
		}
	}
}

// finish ends what begin has begun and returns how many parts are left for step.
func (c *rowCount) finish() (left int, err error) {
	if c.stop != nil {
		close(c.stop)
		err = <-c.done
		c.stop = nil
	}
	return max(0, len(c.parts)-int(c.taken.Load())), err
}

// step counts the next part, if there is one.
func (c *rowCount) step(ctx context.Context) (more bool, err error) {
	i := int(c.taken.Add(1)) - 1
	if i >= len(c.parts) {
		return false, nil
	}
	pacer, end := c.b.startVerifying()
	defer end()
	n, err := c.b.countKeys(ctx, c.snap, c.parts[i], pacer)
	c.keys.Add(n)
	return true, err
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
	for _, piece := range ranges {
		n := int(min(maxPieces, 1+piece.Bytes/storeRequestBytes))
		tasks = append(tasks, splitTask(task{piece.KeyRange, float64(piece.Bytes)}, n)...)
	}
	parts := make([]kv.KeyRange, len(tasks))
	for i, t := range tasks {
		parts[i] = t.KeyRange
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
