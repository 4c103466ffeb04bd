package ddl

import (
	"context"
	"fmt"
	"time"

	"fastddl/catalog"
	"fastddl/event"
	"fastddl/kv"
)

// cleaner deletes dropped data when no snapshot can read it any more.
type cleaner struct {
	cat      *catalog.Catalog
	bus      *event.Bus
	interval time.Duration
	wakeup   chan struct{}
}

func newCleaner(cat *catalog.Catalog, bus *event.Bus, interval time.Duration) *cleaner {
	return &cleaner{cat: cat, bus: bus, interval: interval, wakeup: make(chan struct{}, 1)}
}

// wake makes the cleaner look for work.
func (c *cleaner) wake() {
	select {
	case c.wakeup <- struct{}{}:
	default:
	}
}

// run deletes what may be deleted until ctx ends. It looks again when woken and,
// while there is something that may not be deleted yet, every interval.
func (c *cleaner) run(ctx context.Context) {
	again := time.NewTimer(0)
	defer again.Stop()
	for attempt := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-c.wakeup:
		case <-again.C:
		}
		left, err := c.clean(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.bus.Emit(event.Retry{Op: "delete dropped data", Attempt: attempt, Err: err})
			attempt++
		} else {
			attempt = 1
		}
		if left > 0 || err != nil {
			again.Reset(c.interval)
		}
	}
}

// clean deletes the ranges that may be deleted and returns how many are left.
func (c *cleaner) clean(ctx context.Context) (left int, err error) {
	ranges, err := loadDeleteRanges(ctx, c.cat)
	if err != nil || len(ranges) == 0 {
		return 0, err
	}
	safePoint, err := c.cat.Store().GCSafePoint(ctx)
	if err != nil {
		return len(ranges), err
	}
	for _, r := range ranges {
		if r.TS >= safePoint {
			left++
			continue
		}
		if err := c.delete(ctx, r); err != nil {
			return len(ranges), err
		}
	}
	return left, nil
}

// delete deletes one range. Deleting it again after a crash does nothing.
func (c *cleaner) delete(ctx context.Context, r deleteRange) error {
	if err := c.cat.Store().DeleteRange(ctx, kv.KeyRange{Start: r.Range.Start, End: r.Range.End}); err != nil {
		return fmt.Errorf("delete dropped data of job %d: %w", r.JobID, err)
	}
	_, err := c.cat.Update(ctx, func(_ context.Context, m *catalog.Mutation) error {
		return m.Structure().HDel(deleteRangesHash, idField(r.ID))
	})
	return err
}
