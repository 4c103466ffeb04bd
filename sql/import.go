package sql

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	pingcaperrors "github.com/pingcap/errors"
	tidbexec "github.com/pingcap/tidb/pkg/executor"
	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/expression"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/sessiontxn"
	tidbutil "github.com/pingcap/tidb/pkg/util"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/pingcap/tidb/pkg/util/dbterror/plannererrors"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/internal/errs"
	"fastddl/load/jobs"
)

// This file executes IMPORT INTO as TiDB's executor does (ImportIntoExec in pkg/executor/import_into.go), but for the import itself: TiDB's
// asks its distributed task framework and the stores of a cluster.

// executeImport executes the statements about imports, where they are ours; done is false of others.
func (s *clientSession) executeImport(ctx context.Context, stmt ast.StmtNode) (done bool, rows sqlexec.RecordSet, err error) {
	if s.layer.imports == nil {
		return false, nil, nil
	}
	switch x := stmt.(type) {
	case *ast.ImportIntoStmt:
		rows, err = s.importInto(ctx, x)
	case *ast.ImportIntoActionStmt:
		err = s.cancelImport(ctx, x)
	case *ast.ShowStmt:
		if x.Tp != ast.ShowImportJobs {
			return false, nil, nil
		}
		rows, err = s.showImports(ctx, x)
	default:
		nested := false
		s.executes(stmt, func(inner ast.StmtNode) {
			_, into := inner.(*ast.ImportIntoStmt)
			nested = nested || into
		})
		if explain, ok := stmt.(*ast.ExplainStmt); !nested || ok && !explain.Analyze {
			return false, nil, nil
		}
		err = errNestedImport.FastGenByArgs()
	}
	return true, rows, err
}

// errNestedImport refuses EXPLAIN ANALYZE and TRACE, which would have TiDB's executor import.
var errNestedImport = dbterror.ClassExecutor.NewStdErr(mysql.ErrNotSupportedYet, mysql.Message("IMPORT INTO inside of another statement is not supported", nil))

// importInto executes IMPORT INTO.
func (s *clientSession) importInto(ctx context.Context, stmt *ast.ImportIntoStmt) (sqlexec.RecordSet, error) {
	vars := s.GetSessionVars()
	if vars.InTxn() {
		return nil, errors.New("cannot run IMPORT INTO in explicit transaction") // validateStatementInTxn in pkg/session/session.go
	}
	planned, err := s.planImport(ctx, stmt)
	if err != nil {
		return nil, err
	}
	if waited, err := s.awaitDDL(ctx, stmt.Table); err != nil {
		return nil, err
	} else if waited {
		if planned, err = s.planImport(ctx, stmt); err != nil {
			return nil, err
		}
	}
	plan, ok := planned.Plan.(*plannercore.ImportInto)
	if !ok {
		return nil, fmt.Errorf("IMPORT INTO was planned as %T", planned.Plan)
	}
	req, err := s.importRequest(ctx, stmt, plan)
	if err != nil {
		return nil, err
	}
	s.SetProcessInfo(stmt.SecureText(), time.Now(), mysql.ComQuery, 0)
	imported, err := s.layer.imports.Import(ctx, s.Session, req)
	if err != nil {
		return nil, importError(err)
	}
	for _, warning := range imported.Warnings {
		vars.StmtCtx.AppendWarning(warning)
	}
	if req.Query != nil {
		vars.StmtCtx.SetAffectedRows(uint64(imported.Rows))
		vars.StmtCtx.SetMessage(fmt.Sprintf("Records: %d, ID: %d", imported.Rows, imported.RowID))
		return nil, nil
	}
	shown, err := s.layer.imports.Find(internalImport(ctx), imported.ID, vars.User.String(), false, vars.Location())
	if err != nil {
		return nil, err
	}
	return importRows(planned, []jobs.Shown{shown}), nil
}

// planImport has TiDB plan a statement, which checks it and the user's privileges. It begins the statement in the session, and no transaction.
func (s *clientSession) planImport(ctx context.Context, stmt ast.StmtNode) (*tidbexec.ExecStmt, error) {
	if err := s.PrepareTxnCtx(ctx); err != nil {
		return nil, err
	}
	if err := tidbexec.ResetContextOfStmt(s.Session, stmt); err != nil {
		return nil, err
	}
	if err := sessiontxn.GetTxnManager(s.Session).OnStmtStart(ctx, stmt); err != nil {
		return nil, err
	}
	compiler := tidbexec.Compiler{Ctx: s.Session}
	compiled, err := compiler.Compile(ctx, stmt)
	if !s.GetSessionVars().InTxn() {
		s.RollbackTxn(ctx)
	}
	return compiled, err
}

// importRequest makes the checks of TiDB's executor, in its order, and returns what is asked of package jobs.
func (s *clientSession) importRequest(ctx context.Context, stmt *ast.ImportIntoStmt, plan *plannercore.ImportInto) (jobs.Request, error) {
	none := jobs.Request{}
	is := s.layer.dom.InfoSchema()
	target, ok := is.TableByID(ctx, plan.Table.TableInfo.ID)
	if !ok {
		return none, fmt.Errorf("Can not get table %d", plan.Table.TableInfo.ID)
	}
	if !target.Meta().IsBaseTable() {
		return none, plannererrors.ErrNonUpdatableTable.GenWithStackByArgs(target.Meta().Name.O, "IMPORT")
	}
	db, ok := is.SchemaByName(plan.Table.Schema)
	if !ok || tidbutil.IsMemOrSysDB(plan.Table.Schema.L) {
		return none, fmt.Errorf("IMPORT INTO does not support system tables")
	}
	ctx = tidbkv.WithInternalSourceType(ctx, tidbkv.InternalImportInto)
	importPlan, err := importer.NewImportPlan(ctx, s.Session, plan, target)
	if err != nil {
		return none, err
	}
	args := importer.ASTArgsFromImportPlan(plan)
	if err := tidbexec.ValidateImportIntoColAssignmentsWithEncodeCtx(importPlan, args.ColumnAssignments); err != nil {
		return none, err
	}
	s.adaptPlan(importPlan)
	controller, err := importer.NewLoadDataController(importPlan, target, args)
	if err != nil {
		return none, err
	}
	req := jobs.Request{
		Schema: db, Table: target.Meta(), Plan: importPlan, Statement: stmt.Text(), Shown: stmt.SecureText(),
	}
	req.Verify, _ = s.GetSessionVars().GetSystemVar(config.Verify)
	if stmt.Select == nil {
		if err := controller.InitDataFiles(ctx); err != nil {
			return none, err
		}
	} else {
		req.Query = s.queryOf(stmt.Select)
	}
	if err := s.layer.ddl.WithSystemSession(func(sctx sessionctx.Context) error {
		return controller.CheckRequirements(ctx, sctx.GetSQLExecutor())
	}); err != nil {
		return none, err
	}
	return req, nil
}

// adaptPlan takes out of a plan what an embedded store has not: other systems' tasks in etcd, and sorting in the cloud.
func (s *clientSession) adaptPlan(plan *importer.Plan) {
	plan.DisablePrecheck = true
	if plan.IsGlobalSort() {
		plan.CloudStorageURI = ""
		s.GetSessionVars().StmtCtx.AppendNote(pingcaperrors.NewNoStackErrorf("cloud_storage_uri is ignored: the embedded store sorts in its own temp folder"))
	}
}

// queryOf returns the function that sends the rows of a query to an import. It leaves no transaction behind, which the import would wait for
// if the query has read its table.
func (s *clientSession) queryOf(query ast.ResultSetNode) func(context.Context, chan<- importer.QueryRow) error {
	return func(ctx context.Context, rows chan<- importer.QueryRow) (err error) {
		stmt, ok := query.(ast.StmtNode)
		if !ok {
			return fmt.Errorf("the query of IMPORT INTO is a %T", query)
		}
		// The limit is for what a client reads, not for a query within a statement.
		vars := s.GetSessionVars()
		limit := vars.SelectLimit
		set, err := func() (sqlexec.RecordSet, error) {
			vars.SelectLimit = math.MaxUint64
			defer func() { vars.SelectLimit = limit }() // also of a panic, which ends the statement, not the session
			return s.Session.ExecuteStmt(ctx, stmt)
		}()
		if err != nil {
			return err
		}
		defer func() {
			err = errs.Combine(err, set.Close())
			if s.GetSessionVars().InTxn() { // autocommit is off
				s.RollbackTxn(context.WithoutCancel(ctx))
			}
		}()
		fields := fieldTypes(set.Fields())
		for id := int64(0); ; {
			req := set.NewChunk(nil)
			if err := set.Next(ctx, req); err != nil {
				return err
			}
			if req.NumRows() == 0 {
				return nil
			}
			for at := range req.NumRows() {
				id++
				select {
				case rows <- importer.QueryRow{ID: id, Data: req.GetRow(at).GetDatumRow(fields)}:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			if err := s.GetSessionVars().SQLKiller.HandleSignal(); err != nil {
				return err
			}
		}
	}
}

// importError is the error of an import with the code of TiDB's error in it, and the place in the files that it names.
func importError(err error) error {
	known := job.FindTerror(err)
	if known == nil || err == error(known) {
		return clientError(err)
	}
	return known.FastGen("%s", strings.ReplaceAll(err.Error(), known.Error(), terror.ToSQLError(known).Message))
}

// internalImport marks what is done with ctx as IMPORT INTO in TiDB's metrics.
func internalImport(ctx context.Context) context.Context {
	return tidbkv.WithInternalSourceType(ctx, tidbkv.InternalImportInto)
}

// cancelImport executes CANCEL IMPORT JOB.
func (s *clientSession) cancelImport(ctx context.Context, stmt *ast.ImportIntoActionStmt) error {
	if _, err := s.planImport(ctx, stmt); err != nil {
		return err
	}
	return clientError(s.layer.imports.Cancel(internalImport(ctx), stmt.JobID, s.GetSessionVars().User.String(), s.has("", "", mysql.SuperPriv)))
}

// showImports executes SHOW IMPORT JOBS and SHOW IMPORT JOB.
func (s *clientSession) showImports(ctx context.Context, stmt *ast.ShowStmt) (sqlexec.RecordSet, error) {
	all := *stmt
	all.Where, all.Pattern = nil, nil
	plan, err := s.planImport(ctx, &all)
	if err != nil {
		return nil, err
	}
	user, super, zone := s.GetSessionVars().User.String(), s.has("", "", mysql.SuperPriv), s.GetSessionVars().Location()
	var shown []jobs.Shown
	if stmt.ImportJobID != nil {
		one, err := s.layer.imports.Find(internalImport(ctx), *stmt.ImportJobID, user, super, zone)
		if err != nil {
			return nil, err
		}
		shown = []jobs.Shown{one}
	} else if shown, err = s.layer.imports.List(internalImport(ctx), user, super, zone); err != nil {
		return nil, err
	}
	rows := importRows(plan, shown)
	if stmt.Where == nil {
		return rows, nil
	}
	return s.filterRows(rows, stmt.Where)
}

// filterRows keeps the rows that meet a condition.
func (s *clientSession) filterRows(rows *memoryRows, where ast.ExprNode) (sqlexec.RecordSet, error) {
	schema, names := inputOf(rows.fields)
	condition, err := expression.BuildSimpleExpr(s.GetExprCtx(), where, expression.WithInputSchemaAndNames(schema, names, nil))
	if err != nil {
		return nil, err
	}
	kept := rows.rows[:0]
	for _, row := range rows.rows {
		meets, _, err := expression.EvalBool(s.GetExprCtx().GetEvalCtx(), expression.CNFExprs{condition}, chunk.MutRowFromDatums(row).ToRow())
		if err != nil {
			return nil, err
		}
		if meets {
			kept = append(kept, row)
		}
	}
	rows.rows = kept
	return rows, nil
}

// importRows shows imports in TiDB's columns, which a planned statement has.
func importRows(planned *tidbexec.ExecStmt, imports []jobs.Shown) *memoryRows {
	m := new(memoryRows)
	for i, column := range planned.Plan.Schema().Columns {
		m.fields = append(m.fields, resultField(planned.OutputNames[i].ColName.O, *column.RetType))
	}
	fields := fieldTypes(m.fields)
	for _, shown := range imports {
		row := chunk.NewChunkWithCapacity(fields, 1)
		tidbexec.FillOneImportJobInfo(shown.JobInfo, row, shown.Rows)
		m.rows = append(m.rows, row.GetRow(0).GetDatumRow(fields))
	}
	return m
}

// unfinishedImports are the imports that have not ended, by their rows in TiDB's queue.
func (s *clientSession) unfinishedImports() map[int64]jobs.Unfinished {
	if s.layer.imports == nil {
		return nil
	}
	all := make(map[int64]jobs.Unfinished)
	for _, i := range s.layer.imports.Unfinished() {
		all[i.RowID] = i
	}
	return all
}

// isImport says that a job of TiDB's queue is an import that has not ended.
func (s *clientSession) isImport(id int64) bool {
	return s.layer.imports != nil && s.layer.imports.Owns(id)
}

// commandImport executes ADMIN CANCEL, PAUSE or RESUME DDL JOBS of an import.
func (s *clientSession) commandImport(ctx context.Context, id int64, admin *ast.AdminStmt) error {
	if admin.Tp == ast.AdminCancelDDLJobs {
		return s.layer.imports.CancelRow(ctx, id)
	}
	return fmt.Errorf("job %d is an IMPORT INTO, which can be cancelled only", id)
}
