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

// jobOfHold returns the job that a hold belongs to, and the term.
func jobOfHold(name string) (jobID, term int64, ok bool) {
	digits, found := strings.CutPrefix(name, holdPrefix)
	if !found {
		return 0, 0, false
	}
	jobDigits, termDigits, _ := strings.Cut(digits, "-")
	jobID, jobOK := parseID(jobDigits)
	term, termOK := parseID(termDigits)
	return jobID, term, jobOK && termOK
}

// releaseTTL is the life of a hold that is taken over only to be released.
const releaseTTL = time.Minute

// releaseHolds releases the holds of jobs that another process, or an earlier
// term, has taken and that are not to be kept.
func (d *DDL) releaseHolds(ctx context.Context, keep func(jobID, term int64) bool) error {
	store := d.cat.Store()
	holds, err := store.GCHolds(ctx)
	if err != nil {
		return fmt.Errorf("list GC holds: %w", err)
	}
	for name, ts := range holds {
		id, term, ok := jobOfHold(name)
		if !ok || keep(id, term) {
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
// and takes the place of holds from earlier terms. One of a later term is the
// next owner's, who relies on it.
func (t *task) takeHold(ctx context.Context, ts uint64) error {
	hold, err := t.d.cat.Store().HoldGC(ctx, holdName(t.id, t.d.term), ts, t.d.opts.HoldTTL)
	if err != nil {
		return fmt.Errorf("hold GC: %w", err)
	}
	t.hold = hold
	return t.d.releaseHolds(ctx, func(jobID, term int64) bool { return jobID != t.id || term >= t.d.term })
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

// holding runs fn, which works with the snapshot at ts, while garbage collection
// is held there. If that has passed ts already, fn is not run, and the job goes
// back to take another snapshot.
func (t *task) holding(ctx context.Context, ts uint64, fn func(ctx context.Context) error) (err error) {
	// Taken anew each time: it may have expired while the job did something else.
	err = t.takeHold(ctx, ts)
	if errors.Is(err, kv.ErrSnapshotTooOld) {
		return t.retakeSnapshot(ctx)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		t.keepHold(ctx, cancel)
	}()
	defer func() {
		if cause := context.Cause(ctx); cause != nil && err != nil {
			err = cause
		}
		cancel(nil)
		<-kept
	}()
	return fn(ctx)
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
