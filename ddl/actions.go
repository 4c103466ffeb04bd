package ddl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/domain"
	"github.com/pingcap/tidb/pkg/infoschema"
	"github.com/pingcap/tidb/pkg/meta/model"
	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/ddl/job"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/internal/errs"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

// fileTries is how often a job fails to remove its files before it ends without that, which
// is what its statement and other DDL on the table wait for.
const fileTries = 10

// do executes an action. It runs beside the goroutine that owns the machine, and
// only reads the record.
func (t *task) do(ctx context.Context, act job.Action, to job.Step) (outcome, error) {
	if leavesSubtasks(act) {
		if err := t.scheduler.Recall(ctx); err != nil {
			return outcome{}, err
		}
	}
	r := t.shown.Load()
	t.view.Waiting()
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
	case job.ActAwaitWindow:
		return outcome{}, t.awaitWindow(ctx, r)
	case job.ActReleaseHold:
		return t.makeReady(ctx, r, to)
	case job.ActAwaitPublication:
		return outcome{}, t.awaitPublication(ctx, r)
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

// changeSchema writes the schema of the next step and publishes it.
func (t *task) changeSchema(ctx context.Context, r *job.Record, to job.Step) (outcome, error) {
	analyzed := to == job.StepPublic && to != r.Step && t.writeStatistics(ctx, r)
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
		if err := t.maySchemaChange(x, after, r.Step); err != nil {
			return err
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
			if err := schema.Apply(x, after, schema.Subject{TableInfo: table, Referred: referred, Analyzed: analyzed}); err != nil {
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
	t.view.SetPlan(t.plan(r))
	t.assertHeld(r)
	t.sealedTS = 0
	t.imports.Add(1)
	defer t.imports.Add(-1)
	settings := t.statisticsSettings(ctx, r)
	var result backfill.Result
	var missed bool
	err = t.watched(kv.WithPermit(session.Charged(ctx, r.ResourceGroup), t.lease.Permit), func(ctx context.Context) error {
		return t.whileSpace(ctx, func(ctx context.Context) (err error) {
			result, err = t.d.opts.Backfiller.Backfill(ctx, BackfillTask{
				Spec: backfill.Spec{
					Task: task, Checkpoint: checkpoint, Compared: r.Compare, Differed: r.Differed, Leftovers: r.Leftovers, Verify: r.Verify, Since: r.StartTS,
					Statistics: settings,
				},
				TempDir: t.d.opts.TempDir, Settings: &t.live, SaveCheckpoint: t.saveCheckpoint, Scheduler: t.scheduler.ForWork(r),
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
	t.view.SetVerified(verifiedBy(result))
	return t.write(ctx, to, func(_ *session.Txn, after *job.Record) error {
		after.RowCount, after.Counted, after.Deferred = result.Rows, result.Counted, result.Deferred
		after.Given = result.Given
		after.Compare = after.Compare || missed
		return nil
	})
}

// park makes the pause durable and waits for a request.
func (t *task) park(ctx context.Context, r *job.Record) (outcome, error) {
	if r.State != model.JobStatePaused {
		return t.write(ctx, r.Step, func(x *session.Txn, after *job.Record) error {
			after.State, after.PausedTS = model.JobStatePaused, x.TS
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
	t.d.reports.Unreported(t.d.contained("the size of an index", func() error { return t.measureIndexes(ctx, r) }))
	if r.RollingBack() {
		t.removeStatistics(ctx, r)
	}
	o, err := t.write(ctx, to, func(x *session.Txn, after *job.Record) error {
		after.EndTS = x.TS
		table, err := schema.ReadTable(x, after)
		if err != nil {
			return err
		}
		// Before the history, which is written past SQL: a statement that fails takes what was written so with it.
		t.reportEnd(x, after)
		return schema.ArchiveRow(x, after, t.ownSettings(), table)
	})
	if err == nil {
		t.d.versions.Forget(ctx, r, t.d.opts.Logger)
		t.d.keepHistoryShort()
	}
	return o, err
}
