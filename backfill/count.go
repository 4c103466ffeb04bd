package backfill

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"fastddl/flow"
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
// what the build does. Where a range has just been scanned its blocks are still in memory,
// so that it is counted by whoever has scanned it: a large table is read from disk once. What
// is left when all rows are scanned is what nobody says to have scanned in this run. One goroutine
// begins with that, in the time in which merging and importing wait for the disk, and
// verification does the rest with all workers, beside that goroutine where the store counts itself.
type rowCount struct {
	b       *build
	snap    kv.Snapshot
	planned bool
	parts   []kv.KeyRange // that are left when all rows are scanned
	taken   atomic.Int64  // parts that somebody counts or has counted
	keys    atomic.Int64  // in the parts that were counted

	mu     sync.Mutex
	beside []kv.KeyRange // ranges that were counted beside the scan

	stop chan struct{} // closed when the goroutine is not to take another part; nil without one
	done chan error
}

// openCount makes the build have a count, of which nothing is planned yet.
func (b *build) openCount(ctx context.Context) error {
	if b.count != nil {
		return nil
	}
	snap, err := b.opts.Store.Snapshot(ctx, b.task.TS)
	if err == nil {
		b.count = &rowCount{b: b, snap: snap}
	}
	return err
}

// countBeside has the scan count what it reads, if the rows are to be counted and the store
// does not do that itself.
func (b *build) countBeside(ctx context.Context) error {
	if b.storeSums() || !b.counts {
		return nil
	}
	return b.openCount(ctx)
}

// scanned counts the records in r, which have just been scanned.
func (c *rowCount) scanned(ctx context.Context, r kv.KeyRange) error {
	n, err := c.snap.Count(ctx, r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keys.Add(n)
	c.beside = append(c.beside, r)
	return nil
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
	left, once := without(b.recordRanges(), c.beside)
	if once && len(left) == 0 {
		c.planned = true
		return c, nil
	}
	var parts []kv.KeyRange
	if b.storeSums() {
		parts, err = b.storeCounts(ctx)
	} else {
		n := max(tasksPerWorker*b.opts.MaxWorkers, int(rows/countTaskRows/int64(len(b.physicals))))
		parts, err = b.planCounts(c.snap, n)
	}
	if err != nil {
		return nil, err
	}
	if left, once = without(parts, c.beside); !once { // what was counted twice is not known to be counted
		c.keys.Store(0)
		left = parts
	}
	c.parts, c.planned = left, true
	return c, nil
}

// storeSums says that the store sums up and counts itself.
func (x *execution) storeSums() bool {
	_, ok := x.opts.Store.(kv.Checksummer)
	return ok
}

// recordRanges are those of all physical tables.
func (x *execution) recordRanges() []kv.KeyRange {
	ranges := make([]kv.KeyRange, len(x.physicals))
	for i, id := range x.physicals {
		ranges[i] = recordRange(id)
	}
	return ranges
}

// without returns what of ranges lies in none of done, in key order. It reports false if some of
// done overlap.
func without(ranges, done []kv.KeyRange) (left []kv.KeyRange, once bool) {
	byStart := func(a, b kv.KeyRange) int { return bytes.Compare(a.Start, b.Start) }
	done = slices.DeleteFunc(slices.Clone(done), kv.KeyRange.Empty) // tasks are split until there is nothing left
	slices.SortFunc(done, byStart)
	ranges = slices.SortedFunc(slices.Values(ranges), byStart)
	for i := 1; i < len(done); i++ {
		if bytes.Compare(done[i].Start, done[i-1].End) < 0 {
			return nil, false
		}
	}
	for _, r := range ranges {
		for len(done) > 0 && bytes.Compare(done[0].End, r.Start) <= 0 {
			done = done[1:]
		}
		for _, d := range done {
			if bytes.Compare(d.Start, r.End) >= 0 {
				break
			}
			if bytes.Compare(r.Start, d.Start) < 0 {
				left = append(left, kv.KeyRange{Start: r.Start, End: d.Start})
			}
			r.Start = d.End
		}
		if !r.Empty() {
			left = append(left, r)
		}
	}
	return left, true
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
	return errs.Combine(err, c.snap.Close())
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
	return c.left(), err
}

// left is how many parts nobody has taken yet.
func (c *rowCount) left() int { return max(0, len(c.parts)-int(c.taken.Load())) }

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
	for _, r := range x.recordRanges() {
		some, err := cutWhole(snap, r, n)
		if err != nil {
			return nil, err
		}
		parts = append(parts, some...)
	}
	return parts, nil
}

// cutWhole cuts all of r into at most n parts, by the keys that it has.
func cutWhole(snap kv.Snapshot, r kv.KeyRange, n int) (parts []kv.KeyRange, err error) {
	if n == 1 {
		return []kv.KeyRange{r}, nil
	}
	bounds, err := keyBounds(snap, r)
	if err != nil {
		return nil, err
	}
	start := r.Start
	for _, cut := range interpolate(bounds, n) {
		parts = append(parts, kv.KeyRange{Start: start, End: cut})
		start = cut
	}
	return append(parts, kv.KeyRange{Start: start, End: r.End}), nil
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

// storeRanges cuts r where the store cuts it.
func storeRanges(ctx context.Context, store kv.Store, r kv.KeyRange) ([]kv.KeyRange, error) {
	pieces, err := store.Ranges(ctx, r)
	if err != nil {
		return nil, err
	}
	return cutPieces(r, pieces)
}

// cutPieces cuts what r consists of into what one request may concern.
func cutPieces(r kv.KeyRange, pieces []kv.SizedRange) ([]kv.KeyRange, error) {
	var tasks []task
	for _, piece := range pieces {
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
func (x *execution) countKeys(ctx context.Context, snap kv.Snapshot, r kv.KeyRange, pacer *flow.Pacer) (int64, error) {
	if err := pacer.Pace(ctx); err != nil {
		return 0, err
	}
	return snap.Count(ctx, r)
}
