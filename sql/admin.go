package sql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	tidbddl "github.com/pingcap/tidb/pkg/ddl"
	tidbexecutor "github.com/pingcap/tidb/pkg/executor"
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/planner/core/resolve"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/hint"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/internal/asttree"
)

// executeAdmin executes an ADMIN statement; stmt is what the client sent, admin or
// EXECUTE of it. Statements that are not about our jobs are TiDB's.
func (s *clientSession) executeAdmin(ctx context.Context, stmt ast.StmtNode, admin *ast.AdminStmt) (sqlexec.RecordSet, error) {
	switch admin.Tp {
	case ast.AdminShowDDLJobs:
		if s.layer.ddl != nil {
			return s.showJobs(ctx, stmt, admin)
		}
	case ast.AdminCancelDDLJobs, ast.AdminPauseDDLJobs, ast.AdminResumeDDLJobs:
		byTable, err := s.checkCommand(ctx, admin.JobIDs)
		if err != nil {
			s.emitCommand(ctx, admin, admin.JobIDs, err, false)
			return nil, err
		}
		rows, err := s.commandJobs(ctx, stmt, admin, byTable)
		if rows == nil || err != nil {
			s.emitCommand(ctx, admin, admin.JobIDs, err, true)
			return nil, err
		}
		return &commandAnswer{RecordSet: rows, tell: func(id int64, err error) { s.emitCommand(ctx, admin, []int64{id}, err, true) }}, nil
	case ast.AdminAlterDDLJob:
		ids := []int64{admin.JobNumber}
		byTable, err := s.checkCommand(ctx, ids)
		if err != nil {
			s.emitCommand(ctx, admin, ids, err, false)
			return nil, err
		}
		rows, err := s.alterJob(ctx, stmt, admin, byTable)
		s.emitCommand(ctx, admin, ids, err, true)
		return rows, err
	}
	return s.Session.ExecuteStmt(ctx, stmt)
}

// commandJobs executes ADMIN CANCEL, PAUSE or RESUME DDL JOBS, after checkCommand.
func (s *clientSession) commandJobs(ctx context.Context, stmt ast.StmtNode, admin *ast.AdminStmt, byTable bool) (sqlexec.RecordSet, error) {
	own := s.layer.ddl
	switch {
	case own == nil:
		return s.Session.ExecuteStmt(ctx, stmt)
	case admin.Tp == ast.AdminCancelDDLJobs:
		return s.command(ctx, stmt, admin, byTable, own.Cancel, tidbddl.CancelJobs)
	case admin.Tp == ast.AdminPauseDDLJobs:
		return s.command(ctx, stmt, admin, byTable, own.Pause, tidbddl.PauseJobs)
	default:
		return s.command(ctx, stmt, admin, byTable, own.Resume, tidbddl.ResumeJobs)
	}
}

// alterJob executes ADMIN ALTER DDL JOBS, after checkCommand.
func (s *clientSession) alterJob(ctx context.Context, stmt ast.StmtNode, admin *ast.AdminStmt, byTable bool) (sqlexec.RecordSet, error) {
	if s.layer.ddl != nil {
		switch ours, err := s.layer.ddl.Owns(ctx, admin.JobNumber); {
		case err != nil:
			return nil, err
		case ours || byTable:
			return nil, s.alter(ctx, admin)
		}
	}
	if own, tidb := splitOptions(admin); len(own) > 0 {
		if _, err := s.plan(ctx, tidb); err != nil { // without the privilege nothing is said of jobs
			return nil, err
		}
		return nil, fmt.Errorf("ddl job %d is not a running index build of fastddl; only those have %s", admin.JobNumber, own[0].Name)
	}
	return s.Session.ExecuteStmt(ctx, stmt)
}

// showJobs executes ADMIN SHOW DDL JOBS. A condition is for what is shown, so it is applied
// after TiDB has read the jobs; that of a prepared statement is TiDB's.
func (s *clientSession) showJobs(ctx context.Context, stmt ast.StmtNode, admin *ast.AdminStmt) (sqlexec.RecordSet, error) {
	where := admin.Where
	if stmt != ast.StmtNode(admin) {
		where = nil
	}
	if where != nil {
		if _, err := s.plan(ctx, admin); err != nil { // in TiDB's words
			return nil, err
		}
		all := asttree.Copy(admin)
		all.Where = nil
		stmt = &all
	}
	end := func() {}
	if where != nil || admin.Where == nil { // what TiDB executes has no condition, whose queries it would execute meanwhile
		end = s.withoutSuper()
	}
	rows, err := s.Session.ExecuteStmt(ctx, stmt)
	end()
	if rows == nil || err != nil {
		return rows, err
	}
	shown := &jobRows{RecordSet: rows, ddl: s.layer.ddl, imports: s.unfinishedImports(), evalCtx: s.GetExprCtx().GetEvalCtx(), sees: s.seesTable}
	if where != nil {
		schema, names := inputOf(rows.Fields())
		shown.condition, err = expression.BuildSimpleExpr(s.GetExprCtx(), where, expression.WithInputSchemaAndNames(schema, names, nil))
		if err != nil {
			return nil, errors.Join(err, rows.Close())
		}
	}
	return shown, nil
}

// inputOf describes rows to an expression over them.
func inputOf(fields []*resolve.ResultField) (*expression.Schema, types.NameSlice) {
	schema := expression.NewSchema()
	var names types.NameSlice
	for i, f := range fields {
		schema.Append(&expression.Column{RetType: &f.Column.FieldType, ID: int64(i + 1), UniqueID: int64(i + 1), Index: i})
		names = append(names, &types.FieldName{ColName: f.ColumnAsName})
	}
	return schema, names
}

// command executes ADMIN CANCEL, PAUSE or RESUME DDL JOBS: ours by own, the others
// by tidb.
func (s *clientSession) command(
	ctx context.Context, stmt ast.StmtNode, admin *ast.AdminStmt, byTable bool,
	own func(ctx context.Context, id int64) error,
	tidb func(ctx context.Context, sctx sessionctx.Context, ids []int64) ([]error, error),
) (sqlexec.RecordSet, error) {
	var ours, others []int64
	for i, id := range admin.JobIDs {
		if slices.Contains(admin.JobIDs[:i], id) {
			continue // a job that is named twice counts once
		}
		owned, err := s.layer.ddl.Owns(ctx, id)
		if err != nil {
			return nil, err
		}
		if owned || byTable || s.isImport(id) {
			ours = append(ours, id)
		} else {
			others = append(others, id)
		}
	}
	if len(ours) == 0 {
		return s.Session.ExecuteStmt(ctx, stmt)
	}
	if _, err := s.plan(ctx, admin); err != nil {
		return nil, err
	}
	results := make(map[int64]error, len(admin.JobIDs))
	for _, id := range ours {
		if s.isImport(id) {
			results[id] = s.commandImport(ctx, id, admin)
		} else {
			results[id] = own(ctx, id)
		}
		if results[id] != nil && ctx.Err() != nil {
			return nil, ctx.Err() // it was killed
		}
	}
	if len(others) > 0 {
		var errs []error
		if err := s.layer.ddl.WithSystemSession(func(sctx sessionctx.Context) (err error) {
			errs, err = tidb(ctx, sctx, others)
			return err
		}); err != nil {
			return nil, err
		}
		for i, id := range others {
			if i < len(errs) {
				results[id] = errs[i]
			}
		}
	}
	return commandRows(admin.JobIDs, results), nil
}

// commandRows is the result of a command, as TiDB gives it.
func commandRows(ids []int64, results map[int64]error) sqlexec.RecordSet {
	rows := &memoryRows{fields: []*resolve.ResultField{textField("JOB_ID", 64), textField("RESULT", 128)}}
	for _, id := range ids {
		text := commandSuccess
		if err := results[id]; err != nil {
			text = commandFailure + err.Error()
		}
		rows.rows = append(rows.rows, types.MakeDatums(strconv.FormatInt(id, 10), text))
	}
	return rows
}

// plan has TiDB plan an ADMIN statement, which checks the values in it, and checks
// that the user may execute it, but for SUPER: see checkCommand. It begins the statement in the session.
func (s *clientSession) plan(ctx context.Context, admin *ast.AdminStmt) (any, error) {
	if err := tidbexecutor.ResetContextOfStmt(s.Session, admin); err != nil {
		return nil, err
	}
	schema := s.layer.dom.InfoSchema()
	node := resolve.NewNodeW(admin)
	builder, _ := plannercore.NewPlanBuilder().Init(s.Session.GetPlanCtx(), schema, hint.NewQBHintHandler(nil))
	plan, err := builder.Build(ctx, node)
	if err != nil {
		return nil, err
	}
	if err := s.checkPlanned(builder); err != nil {
		return nil, err
	}
	return plan, nil
}

// alter executes ADMIN ALTER DDL JOBS for a job of ours.
func (s *clientSession) alter(ctx context.Context, admin *ast.AdminStmt) error {
	own, tidb := splitOptions(admin)
	planned, err := s.plan(ctx, tidb)
	if err != nil {
		return err
	}
	plan, ok := planned.(*plannercore.AlterDDLJob)
	if !ok {
		return fmt.Errorf("ADMIN ALTER DDL JOBS was planned as %T", planned)
	}
	a, err := scheduleOf(own)
	if err != nil {
		return err
	}
	for _, option := range plan.Options {
		if option.Value == nil {
			continue
		}
		switch option.Name {
		case plannercore.AlterDDLJobThread:
			a.Threads, err = intOption(option)
		case plannercore.AlterDDLJobBatchSize:
			a.BatchSize, err = intOption(option)
		case plannercore.AlterDDLJobMaxWriteSpeed:
			var speed int64
			speed, err = plannercore.GetMaxWriteSpeedFromExpression(option)
			a.MaxWriteSpeed = &speed
		}
		if err != nil {
			return err
		}
	}
	if err := s.layer.ddl.Alter(ctx, plan.JobID, a); err != nil {
		return err
	}
	s.noteWindow(plan.JobID, a)
	return nil
}

func intOption(option *plannercore.AlterDDLJobOpt) (*int, error) {
	constant, ok := option.Value.(*expression.Constant)
	if !ok {
		return nil, fmt.Errorf("the value of %s is not a constant", option.Name)
	}
	n := int(constant.Value.GetInt64())
	return &n, nil
}

// textField is a column of a result.
func textField(name string, length int) *resolve.ResultField {
	ft := types.NewFieldTypeBuilder().SetType(mysql.TypeVarchar).SetFlen(length).
		SetCharset(mysql.DefaultCharset).SetCollate(mysql.DefaultCollationName).Build()
	return resultField(name, ft)
}
