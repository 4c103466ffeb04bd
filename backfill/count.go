package backfill

import (
	"context"
	"sync"
	"sync/atomic"

	"fastddl/backfill/execution"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// rowCount counts a table's records at the timestamp of a build. They do not depend on
// what the build does. Where a range has just been scanned its blocks are still in memory,
// so that the worker that has scanned it counts it: a large table is read from disk once. What
// is left when all rows are scanned are the ranges that were not scanned in this run. One goroutine
// begins with that, in the time in which merging and importing wait for the disk, and
// verification does the rest with all workers, beside that goroutine where the store counts itself.
type rowCount struct {
	x       *execution.Execution
	snap    kv.Snapshot
	planned bool
	ranges  []kv.KeyRange // that are left when all rows are scanned
	taken   atomic.Int64  // ranges that are being counted or are counted
	keys    atomic.Int64  // in the ranges that were counted

	mu     sync.Mutex
	beside []kv.KeyRange // ranges that were counted beside the scan

	stop chan struct{} // closed when the goroutine is not to take another range; nil without one
	done chan error
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

// finish ends what begin has begun and returns how many ranges are left for step.
func (c *rowCount) finish() (left int, err error) {
	if c.stop != nil {
		close(c.stop)
		err = <-c.done
		c.stop = nil
	}
	return c.left(), err
}

// left is how many ranges are not taken yet.
func (c *rowCount) left() int { return max(0, len(c.ranges)-int(c.taken.Load())) }

// step counts the next range, if there is one.
func (c *rowCount) step(ctx context.Context) (more bool, err error) {
	i := int(c.taken.Add(1)) - 1
	if i >= len(c.ranges) {
		return false, nil
	}
	pacer, end := c.x.StartVerifying()
	defer end()
	n, err := c.x.CountKeys(ctx, c.snap, c.ranges[i], pacer)
	c.keys.Add(n)
	return true, err
}
