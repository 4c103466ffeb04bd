package ddl

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"fastddl/catalog"
	"fastddl/config"
	"fastddl/event"
	"fastddl/kv"
)

// cleaner deletes dropped data when no snapshot can read it any more, piece by
// piece at the speed that the system variable allows. After each piece the start
// of the range is moved behind it, durably, so that a crash costs one piece.
type cleaner struct {
	cat     *catalog.Catalog
	globals *config.Globals
	bus     *event.Bus
	// update writes what only the owner of the jobs may write.
	update   func(ctx context.Context, fn func(ctx context.Context, m *catalog.Mutation) error) error
	interval time.Duration
	wakeup   chan struct{}

	// The fields below belong to run.
	queue  reclaimQueue
	pace   pace
	loaded bool // the queue holds all ranges that there are
}

func newCleaner(d *DDL) *cleaner {
	return &cleaner{
		cat: d.cat, globals: d.opts.Globals, bus: d.opts.Bus, update: d.update,
		interval: d.opts.CleanInterval, wakeup: make(chan struct{}, 1),
	}
}

// wake makes the cleaner look for work, and at the speed it may have.
func (c *cleaner) wake() {
	select {
	case c.wakeup <- struct{}{}:
	default:
	}
}

// run deletes what may be deleted until ctx ends. It looks again when woken and,
// while there is something that may not be deleted yet, every interval.
func (c *cleaner) run(ctx context.Context) {
	unsubscribe := c.globals.OnChange(func(name, _ string) {
		if name == config.GCMaxDeleteSpeed {
			c.wake()
		}
	})
	defer unsubscribe()
	again := time.NewTimer(0)
	defer again.Stop()
	for attempt := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.wakeup:
			c.loaded = false
		case <-again.C:
		}
		wait, err := c.step(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.bus.Emit(event.Retry{Op: "delete dropped data", Attempt: attempt, Err: err})
			attempt++
			wait, c.loaded = c.interval, false
		} else {
			attempt = 1
		}
		if err != nil || len(c.queue.items) > 0 {
			again.Reset(wait)
		}
	}
}

// step deletes a piece if one may be deleted now. It returns how long to wait
// before the next step.
func (c *cleaner) step(ctx context.Context) (wait time.Duration, err error) {
	if !c.loaded {
		if err := c.load(ctx); err != nil {
			return 0, err
		}
		c.loaded = true
	}
	safePoint, err := c.cat.Store().GCSafePoint(ctx)
	if err != nil {
		return 0, fmt.Errorf("read GC safe point: %w", err)
	}
	it := c.queue.next(safePoint)
	if it == nil {
		return c.interval, nil
	}
	if wait := c.pace.wait(time.Now(), c.globals.Int(config.GCMaxDeleteSpeed)); wait > 0 {
		return wait, nil
	}
	return 0, c.deletePiece(ctx, it)
}

// load brings the queue up to date with the ranges that are stored.
func (c *cleaner) load(ctx context.Context) error {
	ranges, err := loadDeleteRanges(ctx, c.cat)
	if err != nil {
		return err
	}
	fresh := c.queue.forget(ranges)
	for _, r := range fresh {
		pieces, err := c.cat.Store().Ranges(ctx, kv.KeyRange{Start: r.Range.Start, End: r.Range.End})
		if err != nil {
			return fmt.Errorf("plan deletion of dropped data of job %d: %w", r.JobID, err)
		}
		c.queue.add(&reclaimItem{deleteRange: r, pieces: pieces})
	}
	if len(fresh) > 0 {
		c.report(event.SpaceReclaimed{Job: event.Job{ID: fresh[len(fresh)-1].JobID}})
	}
	return nil
}

// deletePiece deletes the first piece of it. Deleting it again after a crash does
// nothing.
func (c *cleaner) deletePiece(ctx context.Context, it *reclaimItem) error {
	piece := it.pieces[0]
	if err := c.cat.Store().DeleteRange(ctx, piece.KeyRange); err != nil {
		return fmt.Errorf("delete dropped data of job %d: %w", it.JobID, err)
	}
	rest := it.deleteRange
	rest.Range.Start = piece.End
	done := len(it.pieces) == 1
	if err := c.save(ctx, rest, done); err != nil {
		return fmt.Errorf("record that dropped data of job %d is deleted: %w", it.JobID, err)
	}
	it.deleteRange = rest
	c.queue.deleted(it)
	c.pace.spend(piece.Bytes)
	c.report(event.SpaceReclaimed{Job: event.Job{ID: it.JobID}, Bytes: piece.Bytes, Done: done})
	return nil
}

// save makes durable what is left of a range.
func (c *cleaner) save(ctx context.Context, rest deleteRange, done bool) error {
	data, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	return c.update(ctx, func(_ context.Context, m *catalog.Mutation) error {
		if done {
			return m.Structure().HDel(deleteRangesHash, idField(rest.ID))
		}
		return m.Structure().HSet(deleteRangesHash, idField(rest.ID), data)
	})
}

// report emits e with what is waiting.
func (c *cleaner) report(e event.SpaceReclaimed) {
	e.PendingRanges, e.PendingBytes = len(c.queue.items), c.queue.bytes
	c.bus.Emit(e)
}
