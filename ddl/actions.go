package ddl

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/pingcap/tidb/pkg/domain"
	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/config"
	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/internal/errs"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

const (
	// watchInterval is how often a working job looks at its row in TiDB's queue, and
	// shows its progress there.
	watchInterval = 2 * time.Second
	// fileTries is how often a job fails to remove its files before it ends without that, which
	// is what its statement and other DDL on the table wait for.
	fileTries = 10
)

// do executes an action. It runs beside the goroutine that owns the machine, and
// only reads the record.
func (t *task) do(ctx context.Context, act job.Action, to job.Step) (outcome, error) {
	if leavesSubtasks(act) {
		if err := t.scheduler.Recall(ctx); err != nil {
			return outcome{}, err
		}
	}
	r := t.shown.Load()
	switch act {
	case job.ActAwaitTurn:
		return outcome{}, t.waiting(ctx, func(ctx context.Context) error { return t.awaitTurn(ctx, r) })
	case job.ActAwaitVersion:
		return outcome{}, t.awaitVersion(ctx, r)
	case job.ActRepublish, job.ActChangeSchema:
		return t.changeSchema(ctx, r, to)
	case job.ActTakeSnapshot:
		return t.takeSnapshot(ctx, r, to)
	case job.ActAwaitOlder:
		if err := t.awaitOlder(ctx, r); err != nil {
			return outcome{}, err
		}
		ts, err := t.d.opts.Builds.CurrentTS(ctx)
		if err != nil {
			return outcome{}, fmt.Errorf("take timestamp: %w", err)
		}
		t.settledTS = ts
		return outcome{}, nil
	case job.ActBackfill:
		return t.backfill(ctx, r, to)
	case job.ActCompare:
		return t.compare(ctx, r, to)
	case job.ActFinish:
		return t.finish(ctx, r, to)
	case job.ActSleep:
		t.view.SetRetry()
		defer t.view.SetWait("")
		if !sleep.For(ctx, t.machine.BackoffTime()) {
			return outcome{}, context.Cause(ctx)
		}
		return outcome{}, nil
	case job.ActPark:
		return t.park(ctx, r)
	}
	return outcome{}, job.Permanent(fmt.Errorf("unknown action %q", act))
}

// leavesSubtasks says that an action changes what the subtasks of a job depend on, so that no node
// may build one meanwhile.
func leavesSubtasks(act job.Action) bool {
	switch act {
	case job.ActAwaitTurn, job.ActAwaitVersion, job.ActRepublish, job.ActAwaitOlder, job.ActBackfill, job.ActSleep:
		return false
	}
	return true
}

// write makes the record of a step durable, with what change does in the same
// transaction.
func (t *task) write(ctx context.Context, to job.Step, change func(x *session.Txn, after *job.Record) error) (outcome, error) {
	settings := t.ownSettings()
	r := t.machine.Record()
	public := !r.Step.Revertible() && !r.RollingBack()
	var after *job.Record
	err := t.d.sessions.InTxn(ctx, func(x *session.Txn) error {
		after = t.machine.Prepare(to)
		if after.StartTS == 0 && to != job.StepQueued {
			after.StartTS = x.TS
		}
		if to == job.StepFinished {
			if err := change(x, after); err != nil {
				return err
			}
			assertWritten(r, after, t.lease.Name())
			if after.Nodes.Shared {
				if err := dist.DeleteSubtasks(x, after.ID); err != nil {
					return err
				}
			}
			return records.Archive(x, after)
		}
		intact, err := schema.EnsureRow(x, after, public)
		if err != nil {
			return err
		}
		if err := change(x, after); err != nil {
			return err
		}
		if intact {
			err = schema.UpdateRow(x, after, settings)
		} else {
			err = schema.InsertRow(x, after, settings)
		}
		if err != nil {
			return err
		}
		assertWritten(r, after, t.lease.Name())
		return records.Replace(x, after)
	})
	if errors.Is(err, schema.ErrRowTaken) {
		return outcome{}, job.Permanent(dbterror.ErrCancelledDDLJob.FastGenByArgs())
	}
	if err != nil {
		return outcome{}, err
	}
	return outcome{record: after}, nil
}

// writeRecord makes a record durable as it is, with what also does.
func (t *task) writeRecord(ctx context.Context, after *job.Record, also func(x *session.Txn) error) error {
	return t.d.sessions.InTxn(ctx, func(x *session.Txn) error {
		if err := records.Replace(x, after); err != nil {
			return err
		}
		return also(x)
	})
}

// changeSchema writes the schema of the next step and publishes it.
func (t *task) changeSchema(ctx context.Context, r *job.Record, to job.Step) (outcome, error) {
	return t.write(ctx, to, func(x *session.Txn, after *job.Record) error {
		table, err := schema.ReadTable(x, after)
		if err != nil {
			return err
		}
		if table == nil && (after.RollingBack() || !r.Step.Revertible()) {
			if table, err = schema.FollowTable(x, after); err != nil {
				return err
			}
			if table == nil {
				after.SchemaVersion = 0 // there is nothing left to undo or to drop, and no server to wait for
				return nil
			}
		}
		if table == nil {
			return job.Permanent(infoschema.ErrTableNotExists.GenWithStackByArgs(after.DB, after.Table))
		}
		if to != r.Step {
			if to == job.StepDeleteOnly {
				if table.Name.L != after.Table { // a job ahead has renamed it; others are kept off the old name
					return job.Permanent(infoschema.ErrTableNotExists.GenWithStackByArgs(after.DB, after.Table))
				}
				after.Compare = after.Compare || table.TTLInfo != nil // as of now
			}
			before := statesOf(table)
			if after.RollingBack() {
				t.assertNoImport(after)
			}
			referred := t.d.opts.Domain.InfoSchema().GetTableReferredForeignKeys(r.DB, table.Name.L)
			if err := schema.Apply(x, after, schema.Subject{TableInfo: table, Referred: referred}); err != nil {
				return err
			}
			if to == job.StepDeleteOnly {
				if err := t.stillSupported(after, table); err != nil {
					return err
				}
			}
			assertStates(after, before, statesOf(table))
		}
		return schema.Publish(x, after, table, t.d.opts.Domain.DDL().OwnerManager().ID())
	})
}

// stillSupported fails if a job that was ahead has made a table of it whose indexes cannot be built: one that TiDB has
// given up in the middle leaves the partitions being changed. When the statement is executed again, it is left to TiDB.
func (t *task) stillSupported(r *job.Record, table *model.TableInfo) error {
	err := t.d.opts.Backfiller.Supported(table, schema.IndexesOf(r, table))
	if err == nil {
		return nil
	}
	t.d.opts.Logger.Warn("an index cannot be built after what a job ahead has done", zap.Int64("job", t.id), zap.Error(err))
	return job.Permanent(domain.ErrInfoSchemaChanged.GenWithStackByArgs())
}

// takeSnapshot takes S. Garbage collection is held at it before it is recorded, so
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

// backfill imports the entries of the job's indexes at S.
func (t *task) backfill(ctx context.Context, r *job.Record, to job.Step) (outcome, error) {
	task, err := t.d.buildTask(ctx, r, r.SnapshotTS)
	if err != nil {
		return outcome{}, err
	}
	checkpoint, err := t.d.records.Checkpoint(ctx, t.id)
	if err != nil {
		return outcome{}, err
	}
	if err := t.awaitSpace(ctx); err != nil {
		return outcome{}, err
	}
	t.assertHeld(r)
	t.imports.Add(1)
	defer t.imports.Add(-1)
	var result backfill.Result
	var missed bool
	err = t.watched(kv.WithPermit(session.Charged(ctx, r.ResourceGroup), t.lease.Permit), func(ctx context.Context) error {
		return t.whileSpace(ctx, func(ctx context.Context) (err error) {
			result, err = t.d.opts.Backfiller.Backfill(ctx, BackfillTask{
				Spec:    backfill.Spec{Task: task, Checkpoint: checkpoint, Compared: r.Compare, Differed: r.Differed, Leftovers: r.Leftovers},
				TempDir: t.d.opts.TempDir, Settings: &t.live, SaveCheckpoint: t.saveCheckpoint, Crew: t.scheduler.Crew(r),
			})
			if err == nil {
				missed, err = t.missedWriters(ctx, r, result.Rows)
			}
			return err
		})
	})
	if errs.NoSpace(err) {
		t.tempFull++
		t.d.opts.Logger.Warn("an index build has found no room and waits", zap.Int64("job", t.id), zap.Error(err))
		return outcome{}, errNoSpace
	}
	t.tempFull = 0
	if errors.Is(err, kv.ErrSnapshotTooOld) {
		return outcome{}, errHoldLost // also if the hold is still renewed
	}
	if err != nil {
		return t.recheck(ctx, task, err)
	}
	return t.write(ctx, to, func(_ *session.Txn, after *job.Record) error {
		after.RowCount, after.Counted, after.Deferred = result.Rows, result.Counted, result.Deferred
		after.Given = result.Given
		after.Compare = after.Compare || missed
		return nil
	})
}

// buildTask describes the job's indexes at a snapshot.
func (d *DDL) buildTask(ctx context.Context, r *job.Record, ts uint64) (backfill.Task, error) {
	var table *model.TableInfo
	err := d.sessions.InTxn(ctx, func(x *session.Txn) (err error) {
		table, err = schema.ReadTable(x, r)
		return err
	})
	if err != nil {
		return backfill.Task{}, err
	}
	if table == nil {
		return backfill.Task{}, job.Permanent(infoschema.ErrTableNotExists.GenWithStackByArgs(r.DB, r.Table))
	}
	loc, err := r.Location.GetLocation()
	if err != nil {
		return backfill.Task{}, zoneError(err)
	}
	indexes := schema.IndexesOf(r, table)
	if len(indexes) != len(r.IndexIDs) {
		return backfill.Task{}, job.Permanent(fmt.Errorf("table %s has lost an index that was being built", table.Name.O))
	}
	return backfill.Task{
		JobID: r.ID, Table: table, Indexes: indexes, TS: ts,
		SQLMode: r.SQLMode, Location: loc, Functions: r.Functions,
	}, nil
}

// zoneError is what it means for a job that the time zone of its session cannot be had: it
// is undone if there is no such zone, but not because its file cannot be read just now.
func zoneError(err error) error {
	err = fmt.Errorf("time zone of the session: %w", err)
	if errors.As(err, new(syscall.Errno)) {
		return err
	}
	return job.Permanent(err)
}

// watched runs fn, and ends it if another node takes the job, or its row in TiDB's queue is taken,
// where the progress is shown meanwhile.
func (t *task) watched(ctx context.Context, fn func(ctx context.Context) error) error {
	return t.watchedBy(ctx, t.showProgress, fn)
}

// waiting is watched for what makes no progress.
func (t *task) waiting(ctx context.Context, fn func(ctx context.Context) error) error {
	return t.watchedBy(ctx, func(x *session.Txn) (intact bool, err error) { return schema.RowIntact(x, t.shown.Load()) }, fn)
}

// watchedBy runs fn, and look now and then, which says whether the job's row is as it was.
func (t *task) watchedBy(ctx context.Context, look func(x *session.Txn) (intact bool, err error), fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_ = t.d.contained("the watch of the queue", func() error { t.watchRow(ctx, cancel, look); return nil })
	}()
	err := fn(ctx)
	cause := context.Cause(ctx)
	cancel(nil)
	<-watching
	switch {
	case err == nil:
		return nil
	case errors.Is(cause, records.ErrLost):
		return records.ErrLost
	case errors.Is(cause, schema.ErrRowTaken) || errors.Is(err, schema.ErrRowTaken):
		return job.Permanent(dbterror.ErrCancelledDDLJob.FastGenByArgs())
	}
	return err
}

// showProgress writes how far the job is into its row.
func (t *task) showProgress(x *session.Txn) (intact bool, err error) {
	r := *t.shown.Load()
	r.RowCount = max(r.RowCount, t.view.Rows())
	if intact, err = schema.RowIntact(x, &r); err != nil || !intact {
		return intact, err
	}
	return true, schema.UpdateRow(x, &r, t.ownSettings())
}

func (t *task) watchRow(ctx context.Context, cancel context.CancelCauseFunc, look func(x *session.Txn) (intact bool, err error)) {
	for sleep.For(ctx, watchInterval) {
		intact := true
		err := t.inOwnTxn(ctx, func(x *session.Txn) (err error) {
			intact, err = look(x)
			return err
		})
		switch {
		case errors.Is(err, records.ErrLost):
			cancel(records.ErrLost)
			return
		case err == nil && !intact:
			cancel(schema.ErrRowTaken)
			return
		}
	}
}

// park makes the pause durable and waits for a request.
func (t *task) park(ctx context.Context, r *job.Record) (outcome, error) {
	if r.State != model.JobStatePaused {
		return t.write(ctx, r.Step, func(_ *session.Txn, after *job.Record) error {
			after.State = model.JobStatePaused
			return nil
		})
	}
	return outcome{}, t.waiting(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// finish cleans up after the job and moves it to the history.
func (t *task) finish(ctx context.Context, r *job.Record, to job.Step) (outcome, error) {
	if err := t.d.removeFiles(t.id); err != nil {
		if t.machine.Failures() < fileTries {
			return outcome{}, err
		}
		t.d.opts.Logger.Warn("the files of an index build that has ended stay until the next start", zap.Int64("job", t.id), zap.Error(err))
	}
	if err := t.dropHold(ctx, r); err != nil {
		return outcome{}, err
	}
	o, err := t.write(ctx, to, func(x *session.Txn, after *job.Record) error {
		after.EndTS = x.TS
		table, err := schema.ReadTable(x, after)
		if err != nil {
			return err
		}
		// Before the history, which is written past SQL: a statement that fails takes what was written so with it.
		t.d.reportEnd(x, after)
		return schema.ArchiveRow(x, after, t.ownSettings(), table)
	})
	if err == nil {
		t.d.versions.Forget(ctx, r, t.d.opts.Logger)
		t.d.keepHistoryShort(ctx)
	}
	return o, err
}
