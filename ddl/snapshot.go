package ddl

import (
	"context"
	"errors"
	"fmt"

	"fastddl/config"
	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/internal/sleep"
)

// takeSnapshot takes S, when no server uses an earlier schema version (awaitVersion, the
// step before) and no IMPORT INTO runs (awaitImports). Transactions that began before S are
// waited for after it (awaitOlder). Garbage collection is held at it before it is recorded, so
// a recorded S is always held; a hold without a record is replaced.
func (t *task) takeSnapshot(ctx context.Context, r *job.Record, to job.Step) (outcome, error) {
	if err := t.awaitImports(ctx, r); err != nil {
		return outcome{}, err
	}
	ts, err := t.d.opts.Builds.CurrentTS(ctx)
	if err != nil {
		return outcome{}, fmt.Errorf("take snapshot: %w", err)
	}
	if err := t.holdAt(ctx, ts); err != nil {
		return outcome{}, err
	}
	return t.write(ctx, to, func(_ *session.Txn, after *job.Record) error {
		after.SnapshotTS = ts
		return nil
	})
}

// resumeHold takes the hold of a job that was loaded again. If garbage collection
// has passed S meanwhile, another S is taken.
func (t *task) resumeHold(ctx context.Context) error {
	r := t.machine.Record()
	if !t.needsHold(r) && !t.keepsS(r) {
		return nil
	}
	for attempt := int64(1); ; attempt++ {
		err := t.holdAt(ctx, r.SnapshotTS)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errHoldLost):
			t.stopKeeper()
			return t.beginAgain(ctx, err)
		}
		if err := t.retryLater(ctx, "hold GC", attempt, err); err != nil {
			return err
		}
	}
}

// beginAgain goes back to before S, which is not held any more. The job does not go
// on before this is recorded: nothing would notice again that S is lost.
func (t *task) beginAgain(ctx context.Context, why error) error {
	for attempt := int64(1); ; attempt++ {
		if err := t.settle(ctx); err != nil {
			return err
		}
		if r := t.machine.Record(); !t.needsHold(r) || r.RollingBack() {
			return nil
		}
		t.emit(event.Retry{Job: event.Job{ID: t.id}, Op: "snapshot", Attempt: int(attempt), Err: why})
		o, err := t.forgetSnapshot(ctx)
		switch {
		case err == nil:
			t.reached(o.record)
			return nil
		case job.IsPermanent(err):
			t.machine.Failed(err, t.d.opts.Globals.Int(config.ErrorCountLimit))
			return nil
		}
		why = err
		if !sleep.For(ctx, job.Backoff(attempt)) {
			return errStopped
		}
	}
}

// forgetSnapshot records that the job takes another S.
func (t *task) forgetSnapshot(ctx context.Context) (outcome, error) {
	return t.leaveSnapshot(ctx, (*job.Record).ForgetSnapshot)
}

// leaveSnapshot is forgetSnapshot with what changes in the record.
func (t *task) leaveSnapshot(ctx context.Context, change func(after *job.Record)) (outcome, error) {
	if err := t.scheduler.Recall(ctx); err != nil {
		return outcome{}, err
	}
	if err := t.holdAfter(ctx, t.shown.Load()); err != nil {
		return outcome{}, err
	}
	return t.write(ctx, job.StepWriteReorg, func(x *session.Txn, after *job.Record) error {
		change(after)
		if after.Nodes.Shared {
			if err := dist.DeleteSubtasks(x, t.id); err != nil {
				return err
			}
		}
		return records.WriteCheckpoint(x, t.id, nil)
	})
}
