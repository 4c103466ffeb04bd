package ddl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fastddl/event"
	"fastddl/kv"
)

const holdPrefix = "ddl-job-"

// holdName names the hold of a job in a term. A hold replaces one of the same
// name, and an owner whose term has ended must not replace the hold of the next.
func holdName(jobID, term int64) string { return fmt.Sprintf("%s%d-%d", holdPrefix, jobID, term) }

// jobOfHold returns the job that a hold belongs to.
func jobOfHold(name string) (jobID int64, ok bool) {
	job, _, ok := strings.Cut(strings.TrimPrefix(name, holdPrefix), "-")
	if !ok || !strings.HasPrefix(name, holdPrefix) {
		return 0, false
	}
	return parseID(job)
}

// releaseTTL is the life of a hold that is taken over only to be released.
const releaseTTL = time.Minute

// releaseHolds releases the holds of jobs that another process, or an earlier
// term, has taken and that are not to be kept.
func (d *DDL) releaseHolds(ctx context.Context, keep func(jobID int64, name string) bool) error {
	store := d.cat.Store()
	holds, err := store.GCHolds(ctx)
	if err != nil {
		return fmt.Errorf("list GC holds: %w", err)
	}
	for name, ts := range holds {
		id, ok := jobOfHold(name)
		if !ok || keep(id, name) {
			continue
		}
		if err := releaseHold(ctx, store, name, ts); err != nil {
			return fmt.Errorf("GC hold %s: %w", name, err)
		}
	}
	return nil
}

func releaseHold(ctx context.Context, store kv.Store, name string, ts uint64) error {
	hold, err := store.HoldGC(ctx, name, ts, releaseTTL)
	if errors.Is(err, kv.ErrSnapshotTooOld) {
		// Garbage collection has passed it, so it is not in force any more.
		return nil
	}
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	if err := hold.Release(ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// takeHold makes garbage collection keep what the job needs at its snapshot,
// and takes the place of holds from earlier terms.
func (t *task) takeHold(ctx context.Context, ts uint64) error {
	own := holdName(t.id, t.d.term)
	hold, err := t.d.cat.Store().HoldGC(ctx, own, ts, t.d.opts.HoldTTL)
	if err != nil {
		return fmt.Errorf("hold GC: %w", err)
	}
	t.hold = hold
	return t.d.releaseHolds(ctx, func(jobID int64, name string) bool { return jobID != t.id || name == own })
}

// dropHold releases the job's own hold, if there is one.
func (t *task) dropHold(ctx context.Context) error {
	if t.hold == nil {
		return nil
	}
	if err := t.hold.Release(ctx); err != nil {
		return fmt.Errorf("release GC hold: %w", err)
	}
	t.hold = nil
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
