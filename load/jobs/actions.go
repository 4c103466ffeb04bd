package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
	"go.uber.org/zap"

	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/internal/sleep"
)

// act executes the action of a step.
func (t *task) act(ctx context.Context, step Step) error {
	switch step {
	case StepQueued:
		return t.hold(ctx)
	case StepDraining:
		return t.drain(ctx)
	case StepLoading:
		return t.load(ctx)
	case StepSwapped:
		return t.finish(ctx)
	case StepUndoing:
		return t.undo(ctx)
	}
	return fmt.Errorf("unknown step %q of an import", step)
}

// turnInterval is how often an import looks whether the DDL ahead of it has ended.
const turnInterval = 100 * time.Millisecond

// hold waits until no earlier DDL has the table, and closes that to writers: first here, then by a schema version.
func (t *task) hold(ctx context.Context) error {
	for {
		ahead, err := schema.JobAhead(ctx, t.j.sessions, t.record().Import.Queued())
		if err != nil {
			return err
		}
		if ahead == 0 {
			break
		}
		if !sleep.For(ctx, turnInterval) {
			return context.Cause(ctx)
		}
	}
	if err := t.j.Exclusion.exclude(t.record()); err != nil {
		return err
	}
	return t.advance(ctx, func(x *session.Txn, after *Record) error {
		if err := schema.HoldTable(x, &after.Import, t.ownerID()); err != nil {
			return err
		}
		after.Step = StepDraining
		if after.ImportID == 0 {
			return nil
		}
		return importer.StartJob(x.Ctx, x.Session.GetSQLExecutor(), after.ImportID, importer.JobStepImporting)
	})
}

// ownerID is that of TiDB's DDL on this server.
func (t *task) ownerID() string { return t.j.opts.Domain.DDL().OwnerManager().ID() }

// drain waits for the transactions that used the table before, and makes sure that it is empty. Nothing can be added to it from then on.
func (t *task) drain(ctx context.Context) error {
	r := t.record()
	if err := t.j.versions.AwaitImport(ctx, &r.Import, false); err != nil {
		return err
	}
	if err := t.checkEmpty(ctx); err != nil {
		return err
	}
	return t.advance(ctx, func(x *session.Txn, after *Record) error {
		after.Step = StepLoading
		return schema.ForgetVersion(x, after.Import.Queued())
	})
}

// errNotEmpty is TiDB's error (checkTableEmpty in pkg/executor/importer/precheck.go).
var errNotEmpty = exeerrors.ErrLoadDataPreCheckFailed.FastGenByArgs("target table is not empty")

// checkEmpty fails if the table has rows now.
func (t *task) checkEmpty(ctx context.Context) error {
	i := &t.record().Import
	rows, err := t.j.sessions.Query(ctx, `SELECT 1 FROM %n.%n USE INDEX() LIMIT 1`, i.DB, i.Table)
	if err != nil {
		return fmt.Errorf("look whether the table is empty: %w", err)
	}
	if len(rows) > 0 {
		return errNotEmpty
	}
	return nil
}

// load writes the rows, and replaces the table by the one that has them.
func (t *task) load(ctx context.Context) error {
	r := t.record()
	from, done, err := t.queryRows()
	if err != nil {
		return err
	}
	defer done()
	table, autoIDs, checkpoint, err := t.begin(ctx)
	if err != nil {
		return err
	}
	controller, plan, err := t.controller(ctx)
	if err != nil {
		return err
	}
	loaded, err := t.j.opts.Loader.Load(ctx, Task{
		ID: t.rowID, Controller: controller, Query: from.rows, Feed: from.feed, Table: table, AutoIDs: autoIDs,
		Threads: r.Threads, MaxErrors: maxErrors(plan), Verify: r.Verify, Checkpoint: checkpoint, SaveCheckpoint: t.saveCheckpoint,
		Progress: t.follow,
	})
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		t.recordErrors(ctx, plan, err)
		return err
	}
	if err := t.checkEmpty(ctx); err != nil { // a writer that was not excluded: its rows would be lost
		return fmt.Errorf("rows were added to the table during the import: %w", err)
	}
	t.writeStatistics(ctx, table, &loaded)
	t.warnings = loaded.Warnings
	return t.advance(ctx, func(x *session.Txn, after *Record) error {
		after.Step, after.Rows, after.SourceBytes = StepSwapped, loaded.Rows, t.progress().Read
		return schema.Swap(x, &after.Import, loaded.AutoIDs, t.ownerID())
	})
}

// begin returns the definition that the rows are encoded for, the values that the table has given out, and the last checkpoint.
func (t *task) begin(ctx context.Context) (table *model.TableInfo, autoIDs model.AutoIDGroup, checkpoint []byte, err error) {
	r := t.record()
	err = t.j.sessions.InTxn(ctx, func(x *session.Txn) error {
		old, err := schema.ReadTable(x, r.Import.Queued())
		if err != nil {
			return err
		}
		if old == nil {
			return fmt.Errorf("table %s.%s is gone", r.Import.DB, r.Import.Table)
		}
		if table, err = r.Import.WithNewIDs(old); err != nil {
			return err
		}
		if autoIDs, err = x.Meta.GetAutoIDAccessors(r.Import.DBID, r.Import.TableID).Get(); err != nil {
			return fmt.Errorf("read the automatic values of %s: %w", r.Import.Table, err)
		}
		rows, err := x.Query(`SELECT checkpoint FROM mysql.fastddl_import_job WHERE job_id = %?`, t.rowID)
		if err != nil || len(rows) == 0 || rows[0].IsNull(0) {
			return err
		}
		checkpoint = rows[0].GetBytes(0)
		return nil
	})
	return table, autoIDs, checkpoint, err
}

// saveCheckpoint makes progress durable.
func (t *task) saveCheckpoint(ctx context.Context, data []byte) error {
	return t.j.sessions.InTxn(ctx, func(x *session.Txn) error {
		return x.Exec(`UPDATE mysql.fastddl_import_job SET checkpoint = %? WHERE job_id = %?`, data, t.rowID)
	})
}

// controller is TiDB's of the statement, made as its own tasks make it (taskexecutor in pkg/disttask/importinto). They parse the statement
// without its SQL mode.
func (t *task) controller(ctx context.Context) (*importer.LoadDataController, *importer.Plan, error) {
	if t.query != nil && t.query.controller != nil {
		return t.query.controller, t.query.controller.Plan, nil
	}
	r := t.record()
	plan, err := r.decodePlan()
	if err != nil {
		return nil, nil, err
	}
	table, ok := t.j.opts.Domain.InfoSchema().TableByID(ctx, r.Import.TableID)
	if !ok {
		return nil, nil, fmt.Errorf("table %s.%s is gone", r.Import.DB, r.Import.Table)
	}
	plan.TableInfo, plan.DesiredTableInfo = table.Meta(), table.Meta()
	p := parser.New()
	p.SetSQLMode(plan.SQLMode)
	stmt, err := p.ParseOneStmt(r.Statement, r.Charset, r.Collation)
	if err != nil {
		return nil, nil, fmt.Errorf("parse the statement of import %d: %w", t.rowID, err)
	}
	into, ok := stmt.(*ast.ImportIntoStmt)
	if !ok {
		return nil, nil, fmt.Errorf("the statement of import %d is a %T", t.rowID, stmt)
	}
	c, err := importer.NewLoadDataController(plan, table, &importer.ASTArgs{
		FileLocRef: ast.FileLocServerOrRemote, ColumnsAndUserVars: into.ColumnsAndUserVars, ColumnAssignments: into.ColumnAssignments,
		OnDuplicate: ast.OnDuplicateKeyHandlingReplace,
	})
	if err != nil {
		return nil, nil, err
	}
	if r.FromQuery {
		return c, plan, nil
	}
	return c, plan, c.InitDataFiles(ctx)
}

// finish waits until all servers have the new table, and ends the import.
func (t *task) finish(ctx context.Context) error {
	r := t.record()
	if err := t.j.versions.AwaitImport(ctx, &r.Import, true); err != nil {
		return err
	}
	t.refreshStatistics(ctx)
	return t.end(ctx, func(x *session.Txn) error {
		if r.ImportID != 0 {
			if err := importer.FinishJob(x.Ctx, x.Session.GetSQLExecutor(), r.ImportID, &importer.JobSummary{ImportedRows: uint64(r.Rows)}); err != nil {
				return err
			}
		}
		return schema.EndImport(x, &r.Import, r.Import.TableID, r.Import.PartitionIDs)
	})
}

// undo gives what was written to garbage collection, and ends the import.
func (t *task) undo(ctx context.Context) error {
	r := t.record()
	t.removeStatistics(ctx)
	return t.end(ctx, func(x *session.Txn) error {
		if err := t.reportFailure(x, r); err != nil {
			return err
		}
		return schema.UndoImport(x, &r.Import)
	})
}

// reportFailure writes the end of an import that has failed to TiDB's table.
func (t *task) reportFailure(x *session.Txn, r *Record) error {
	if r.ImportID == 0 {
		return nil
	}
	conn := x.Session.GetSQLExecutor()
	if r.Cancelled {
		return importer.CancelJob(x.Ctx, conn, r.ImportID)
	}
	if err := importer.StartJob(x.Ctx, conn, r.ImportID, ""); err != nil { // only what runs fails
		return err
	}
	return importer.FailJob(x.Ctx, conn, r.ImportID, session.ValidText(r.Error))
}

// end removes the files and the record of an import, with what else is to be done then, and lets writers in.
func (t *task) end(ctx context.Context, also func(x *session.Txn) error) error {
	if err := t.j.removeFiles(t.rowID); err != nil {
		t.j.opts.Logger.Warn("the files of an import stay until the next start", zap.Int64("job", t.rowID), zap.Error(err))
	}
	r := t.record()
	err := t.j.sessions.InTxn(ctx, func(x *session.Txn) error {
		now, err := read(x, t.rowID)
		if err != nil {
			return err
		}
		if now == nil || now.Revision != r.Revision {
			return errMoved
		}
		if err := also(x); err != nil {
			return err
		}
		if err := x.Exec(`DELETE FROM mysql.fastddl_import_job WHERE job_id = %?`, t.rowID); err != nil {
			return err
		}
		return t.hook(x.Ctx, "within", r.Step)
	})
	if err != nil {
		return err
	}
	t.ended = true
	t.j.versions.Forget(ctx, r.Import.Queued(), t.j.opts.Logger)
	return nil
}
