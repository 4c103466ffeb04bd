package ddl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fastddl/event"
	"fastddl/kv"
)

const holdPrefix = "ddl-job-"

func holdName(jobID int64) string { return fmt.Sprintf("%s%d", holdPrefix, jobID) }

// releaseTTL is the life of a hold that is taken over only to be released.
const releaseTTL = time.Minute

// releaseHold releases the hold of a job, which another process may have taken.
func releaseHold(ctx context.Context, store kv.Store, jobID int64, ts uint64) error {
	hold, err := store.HoldGC(ctx, holdName(jobID), ts, releaseTTL)
	if errors.Is(err, kv.ErrSnapshotTooOld) {
		// Garbage collection has passed it, so it is not in force any more.
		return nil
	}
	if err != nil {
		return fmt.Errorf("take over GC hold of job %d: %w", jobID, err)
	}
	if err := hold.Release(ctx); err != nil {
		return fmt.Errorf("release GC hold of job %d: %w", jobID, err)
	}
	return nil
}

// takeHold makes garbage collection keep what the job needs at its snapshot.
func (t *task) takeHold(ctx context.Context, ts uint64) error {
	hold, err := t.d.cat.Store().HoldGC(ctx, holdName(t.id), ts, t.d.opts.HoldTTL)
	if err != nil {
		return fmt.Errorf("hold GC: %w", err)
	}
	t.hold = hold
	return nil
}

// keepHold renews the hold while ctx lasts. If it is lost, the work that needs
// it ends with the reason.
func (t *task) keepHold(ctx context.Context, lost context.CancelCauseFunc) {
	tick := time.NewTicker(t.d.opts.HoldTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := t.hold.Renew(ctx, t.d.opts.HoldTTL)
		switch {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, kv.ErrSnapshotTooOld):
			lost(err)
			return
		default:
			// There is time for two more attempts before the hold ends.
			t.emit(event.Retry{Job: event.Job{ID: t.id}, Op: "renew GC hold", Attempt: 1, Err: err})
		}
	}
}
