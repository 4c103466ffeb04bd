package sql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	tidbexec "github.com/pingcap/tidb/pkg/executor"
	"github.com/pingcap/tidb/pkg/executor/importer"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/table"
	tidbutil "github.com/pingcap/tidb/pkg/util"
	contextutil "github.com/pingcap/tidb/pkg/util/context"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/pingcap/tidb/pkg/util/dbterror/plannererrors"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"github.com/pingcap/tidb/pkg/util/sqlkiller"

	"fastddl/config"
	"fastddl/internal/errs"
	"fastddl/load/conflict"
	"fastddl/load/jobs"
	"fastddl/load/rows"
)

// This file executes LOAD DATA of files that are too large for one transaction: TiDB's own executor reads the file and makes the rows, into a
// table that hands them to an import (loadedtable.go).

// errLoadTooLarge is TiDB's error of a file that does not fit into a transaction, with why it was not imported.
var errLoadTooLarge = dbterror.ClassExecutor.NewStdErr(errno.ErrTxnTooLarge, mysql.Message(
	"LOAD DATA of a file that is too large for one transaction: it is imported without one, but not here: %s. "+
		"Nothing was loaded; split the file, or import it by IMPORT INTO or fastddl load", nil))

// loadData executes LOAD DATA: as TiDB does, in one transaction, if the file is small enough for that, otherwise by an import. Without LOCAL
// TiDB reads files from object storage only; that stays TiDB's.
func (s *clientSession) loadData(ctx context.Context, load *ast.LoadDataStmt) (set sqlexec.RecordSet, end func(), err error) {
	build, ok := s.Value(tidbexec.LoadDataReaderBuilderKey).(tidbexec.LoadDataReaderBuilder)
	if load.FileLocRef != ast.FileLocClient || !ok {
		return s.executeByTiDB(ctx, load, load)
	}
	size := s.newLoadSize(ctx, load)
	var begun *begunFile
	why := notImported("")
	// TiDB asks for the file when it has checked the statement.
	set, end, err = s.loadByTiDB(ctx, load, build, func(name string) (io.ReadCloser, error) {
		file, err := build(name)
		if err != nil {
			return nil, err
		}
		if begun, err = size.begin(name, file, s.GetSessionVars().StmtCtx.MemTracker); err != nil {
			return nil, err
		}
		if size.large() {
			if why = s.whyNotImported(); why == "" {
				return nil, errToImport
			}
		}
		return begun, nil
	})
	if begun == nil || !size.large() {
		return set, end, err
	}
	defer func() {
		if closed := begun.Close(); err == nil {
			err = closed
		}
	}()
	if why == "" {
		if err = s.loadLarge(ctx, load, begun); !errors.As(err, &why) {
			return nil, nil, err
		}
		opened := false
		set, end, err = s.loadByTiDB(ctx, load, build, func(string) (io.ReadCloser, error) {
			if opened { // after a conflict, in autocommit
				return nil, errReadOnce
			}
			opened = true
			return begun, nil
		})
	}
	if tidbkv.ErrTxnTooLarge.Equal(err) {
		err = errLoadTooLarge.FastGenByArgs(string(why))
	}
	return set, end, err
}

// errToImport ends TiDB's execution of a statement whose file is imported.
var errToImport = errors.New("the file of LOAD DATA is imported")

// errReadOnce ends a second attempt: a client's file is read once.
var errReadOnce = errors.New("the transaction of LOAD DATA met a conflict, and the client's file cannot be read again: nothing was loaded")

// loadByTiDB has TiDB execute LOAD DATA with the file that open returns, and sets the session's way to its files back to build.
func (s *clientSession) loadByTiDB(ctx context.Context, load *ast.LoadDataStmt, build, open tidbexec.LoadDataReaderBuilder) (sqlexec.RecordSet, func(), error) {
	s.Session.SetValue(tidbexec.LoadDataReaderBuilderKey, open)
	defer s.Session.SetValue(tidbexec.LoadDataReaderBuilderKey, build)
	return s.executeByTiDB(ctx, load, load)
}

// notImported is why a file is not imported: TiDB loads it, and its limits decide whether it fits. Nothing was read of the file before.
type notImported string

func (n notImported) Error() string { return "not imported: " + string(n) }

// whyNotImported returns what of the session is against an import.
func (s *clientSession) whyNotImported() notImported {
	vars := s.GetSessionVars()
	switch {
	case !vars.IsAutocommit():
		return "autocommit is off"
	case vars.InTxn():
		return "a transaction is open"
	case !variable.EnableMDL.Load():
		return "tidb_enable_metadata_lock is OFF"
	}
	return ""
}

// loadLarge imports a file, or fails with notImported. The file is on disk before anything is asked of the table or the store: a client may
// be slow to send it.
func (s *clientSession) loadLarge(ctx context.Context, load *ast.LoadDataStmt, file *begunFile) error {
	// A table that cannot be imported into is known before the file is.
	if _, err := s.planLoad(ctx, load); err != nil {
		return err
	}
	vars := s.GetSessionVars()
	s.SetProcessInfo(load.Text(), time.Now(), mysql.ComQuery, 0)
	if err := file.keep(ctx, s.layer.imports.NewFileSpool(), &vars.SQLKiller); err != nil {
		return err
	}
	if _, err := s.awaitDDL(ctx, load.Table); err != nil {
		return err
	}
	l, err := s.planLoad(ctx, load)
	if err != nil {
		return err
	}
	l.file = file
	return l.run(ctx, load)
}

// planLoad plans the import of a file.
func (s *clientSession) planLoad(ctx context.Context, load *ast.LoadDataStmt) (*dataLoad, error) {
	planned, err := s.planImport(ctx, load)
	if err != nil {
		return nil, err
	}
	plan, ok := planned.Plan.(*plannercore.LoadData)
	if !ok {
		return nil, fmt.Errorf("LOAD DATA was planned as %T", planned.Plan)
	}
	return s.newLoad(ctx, plan)
}

// dataLoad is a LOAD DATA that is imported.
type dataLoad struct {
	s      *clientSession
	db     *model.DBInfo
	table  *loadedTable
	worker *tidbexec.LoadDataWorker
	file   *begunFile
	result conflict.Result
	// failed is why the rows could not be made, nil if the import has failed first.
	failed error
}

// newLoad makes what imports a file by a plan, if it can be imported.
func (s *clientSession) newLoad(ctx context.Context, plan *plannercore.LoadData) (*dataLoad, error) {
	is := s.layer.dom.InfoSchema()
	target, ok := is.TableByID(ctx, plan.Table.TableInfo.ID)
	if !ok || plan.Table.TableInfo.TempTableType != model.TempTableNone {
		return nil, notImported("the table is a temporary one")
	}
	info := target.Meta()
	if !info.IsBaseTable() {
		return nil, plannererrors.ErrNonUpdatableTable.GenWithStackByArgs(info.Name.O, "LOAD")
	}
	db, ok := is.SchemaByName(plan.Table.Schema)
	switch {
	case !ok || tidbutil.IsMemOrSysDB(plan.Table.Schema.L):
		return nil, notImported("the table is one of the system")
	case info.TempTableType != model.TempTableNone:
		return nil, notImported("the table is a temporary one")
	case info.TableCacheStatusType != model.TableCacheStatusDisable:
		return nil, notImported("the table is cached")
	}
	some, err := s.layer.ddl.Sessions().Query(ctx, `SELECT 1 FROM %n.%n USE INDEX() LIMIT 1`, db.Name.O, info.Name.O)
	if err != nil {
		return nil, fmt.Errorf("look whether the table is empty: %w", err)
	}
	if len(some) > 0 {
		return nil, notImported("the table is not empty")
	}
	l := &dataLoad{s: s, db: db, table: &loadedTable{Table: target, vars: s.GetSessionVars()}}
	policy := conflict.First // LOCAL means IGNORE
	if plan.OnDuplicate == ast.OnDuplicateKeyHandlingReplace {
		policy = conflict.Last
	}
	l.table.feed = rows.NewFeed(policy)
	if l.worker, err = tidbexec.NewLoadDataWorker(s.Session, plan, l.table); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(l.worker.GetController().InsertColumns, func(c *table.Column) bool { return c.Name.L == model.ExtraHandleName.L }) {
		return nil, notImported("it sets " + model.ExtraHandleName.O)
	}
	// The feed decides about equal keys. TiDB's executor would look for them in the store.
	l.worker.GetController().OnDuplicate = ast.OnDuplicateKeyHandlingError
	return l, nil
}

// run imports the file.
func (l *dataLoad) run(ctx context.Context, load *ast.LoadDataStmt) error {
	vars := l.s.GetSessionVars()
	controller := l.worker.GetController()
	plan := controller.Plan
	plan.TotalFileSize = l.file.size
	plan.User = vars.User.String()
	plan.Parameters = &importer.ImportParameters{FileLocation: load.Path, Format: importer.DataFormatCSV}
	req := jobs.Request{
		Schema: l.db, Table: l.table.Meta(), Plan: plan, Statement: load.Text(), Shown: load.Text(),
		Load: &jobs.LoadData{Controller: controller, Feed: l.table.feed, Send: l.send},
	}
	req.Verify, _ = vars.GetSystemVar(config.Verify)
	imported, err := l.s.layer.imports.Import(ctx, l.s.Session, req)
	switch {
	case err != nil && l.failed != nil:
		return l.failed
	case err != nil:
		return importError(err)
	}
	for _, warning := range imported.Warnings {
		vars.StmtCtx.AppendWarning(warning)
	}
	l.report()
	return nil
}

// send has TiDB's executor make the rows of the file. It leaves no transaction behind, which the import would wait for.
func (l *dataLoad) send(ctx context.Context, feed *rows.Feed) (err error) {
	defer func() {
		if ctx.Err() == nil {
			l.failed = err
		}
		l.s.RollbackTxn(context.WithoutCancel(ctx))
	}()
	l.table.ctx = ctx
	l.file.stop = func() error { return context.Cause(ctx) }
	if err := l.s.PrepareTxnCtx(ctx); err != nil {
		return err
	}
	if err := l.worker.LoadLocal(ctx, io.NopCloser(l.file)); err != nil {
		return err
	}
	end, stop := untilKilled(ctx, &l.s.GetSessionVars().SQLKiller)
	defer stop()
	l.result, err = feed.End(end)
	return err
}

// untilKilled returns a context that ends with the statement, until stop is called.
func untilKilled(ctx context.Context, killer *sqlkiller.SQLKiller) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { cancel(awaitKill(ctx, killer)) }()
	return ctx, func() { cancel(nil) }
}

// awaitKill returns why a statement is killed, or nil when ctx ends.
func awaitKill(ctx context.Context, killer *sqlkiller.SQLKiller) (err error) {
	defer errs.Contain(&err)
	tick := time.NewTicker(killInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := killer.HandleSignal(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// report shows the client what was loaded, as LoadDataWorker.setResult does of TiDB.
func (l *dataLoad) report() {
	sc := l.s.GetSessionVars().StmtCtx
	warnings := sc.GetWarnings()
	for _, dropped := range l.result.Warnings {
		warnings = append(warnings, contextutil.SQLWarn{Level: contextutil.WarnLevelWarning, Err: dropped})
	}
	if len(warnings) > math.MaxUint16 {
		warnings = warnings[:math.MaxUint16]
	}
	sc.SetWarnings(warnings)
	sc.SetAffectedRows(uint64(l.result.Affected))
	records := sc.RecordRows()
	sc.SetMessage(fmt.Sprintf(mysql.MySQLErrName[mysql.ErrLoadInfo].Raw,
		records, l.result.Deleted, records-uint64(l.result.Copied), len(warnings)))
}
