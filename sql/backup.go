package sql

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	tidbexecutor "github.com/pingcap/tidb/pkg/executor"
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/planner/core/base"
	"github.com/pingcap/tidb/pkg/planner/core/resolve"
	"github.com/pingcap/tidb/pkg/privilege"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"
	"github.com/pingcap/tidb/pkg/util/dbterror/plannererrors"
	"github.com/pingcap/tidb/pkg/util/hint"
	"github.com/pingcap/tidb/pkg/util/sem"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/kv/backup"
)

var (
	errBackupOption = dbterror.ClassExecutor.NewStdErr(errno.ErrNotSupportedYet,
		mysql.Message("the option %s of BACKUP is not supported on the embedded store: RATE_LIMIT is", nil))
	errBackupLocation = dbterror.ClassExecutor.NewStdErr(errno.ErrNotSupportedYet,
		mysql.Message("BACKUP to anything but a folder of the server is not supported on the embedded store", nil))
	warnLinked = dbterror.ClassExecutor.NewStdErr(errno.ErrUnknown,
		mysql.Message("the backup shares its files with the store by links, and with them the fate of the disk: copy %s to another one", nil))
)

// LocalPath is the path that a location of TiDB's, a URL or a path, names on the server; "" if it is elsewhere.
func LocalPath(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return location
	}
	switch u.Scheme {
	case "", "file", "local":
		return cmp.Or(u.Path, location)
	}
	return ""
}

// ImportedFile is the file, or the pattern of files, of the server that IMPORT INTO reads; "" if the location is elsewhere. Plain says that
// TiDB reads it there: it opens the folder by a URL with the query and the fragment of the location, and escapes in it, and makes a
// folder of that name if there is none (LoadDataController.InitDataStore, NewLocalStorage).
func ImportedFile(location string) (file string, plain bool) {
	if LocalPath(location) == "" {
		return "", true
	}
	folder := filepath.Dir(location)
	u, err := url.Parse(location)
	plain = err == nil && *u == url.URL{Path: u.Path, RawPath: u.RawPath} && (&url.URL{Path: folder}).String() == folder
	return location, plain
}

// takesBackup says that BACKUP DATABASE * is ours: on the embedded store.
func (s *clientSession) takesBackup(stmt *ast.BRIEStmt) bool {
	return s.layer.opts.Backups != nil && stmt.Kind == ast.BRIEKindBackup && len(stmt.Schemas) == 0 && len(stmt.Tables) == 0
}

// backup executes BACKUP DATABASE *, with the privileges and the result of TiDB's (buildBRIE and BRIEExec in pkg/executor/brie.go).
func (s *clientSession) backup(ctx context.Context, stmt *ast.BRIEStmt) (sqlexec.RecordSet, error) {
	plan, err := s.planBackup(ctx, stmt)
	if err != nil {
		return nil, err
	}
	if sem.IsEnabled() {
		return nil, plannererrors.ErrNotSupportedWithSem.GenWithStackByArgs("local storage")
	}
	req := backup.Request{Dir: LocalPath(stmt.Storage), Destination: stmt.Storage, Client: s.GetSessionVars().ConnectionID}
	if req.Dir == "" {
		return nil, errBackupLocation.GenWithStackByArgs()
	}
	for _, option := range stmt.Options {
		if option.Tp != ast.BRIEOptionRateLimit {
			return nil, errBackupOption.GenWithStackByArgs(option.Tp.String())
		}
		req.BytesPerSecond = option.UintValue
	}
	vars := s.GetSessionVars()
	s.SetProcessInfo(stmt.Text(), time.Now(), byte(atomic.LoadUint32(&vars.CommandValue)), 0)
	taken, err := s.layer.opts.Backups.Take(ctx, req)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err() // it was killed
	case err != nil:
		return nil, exeerrors.ErrBRIEBackupFailed.GenWithStackByArgs(err)
	}
	if taken.Linked {
		vars.StmtCtx.AppendWarning(warnLinked.FastGenByArgs(taken.Dir))
	}
	return &memoryRows{fields: fieldsOf(plan), rows: [][]types.Datum{
		types.MakeDatums(stmt.Storage, uint64(taken.Bytes), taken.TS, s.datetime(taken.Queued), s.datetime(taken.Begun)),
	}}, nil
}

// planBackup has TiDB plan the statement and checks that the user may execute it.
func (s *clientSession) planBackup(ctx context.Context, stmt *ast.BRIEStmt) (base.Plan, error) {
	if err := tidbexecutor.ResetContextOfStmt(s.Session, stmt); err != nil {
		return nil, err
	}
	builder, _ := plannercore.NewPlanBuilder().Init(s.Session.GetPlanCtx(), s.layer.dom.InfoSchema(), hint.NewQBHintHandler(nil))
	plan, err := builder.Build(ctx, resolve.NewNodeW(stmt))
	if err != nil {
		return nil, err
	}
	if manager := privilege.GetPrivilegeManager(s.Session); manager != nil {
		if err := plannercore.CheckPrivilege(s.GetSessionVars().ActiveRoles, manager, builder.GetVisitInfo()); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// fieldsOf are the columns of a plan's result.
func fieldsOf(plan base.Plan) []*resolve.ResultField {
	fields := make([]*resolve.ResultField, len(plan.OutputNames()))
	for i, name := range plan.OutputNames() {
		fields[i] = resultField(name.ColName.O, *plan.Schema().Columns[i].RetType)
	}
	return fields
}

// datetime is a time as a value of SQL, in the session's time zone.
func (s *clientSession) datetime(t time.Time) types.Time {
	if t.IsZero() {
		return types.ZeroDatetime
	}
	return types.NewTime(types.FromGoTime(t.In(s.GetSessionVars().Location())), mysql.TypeDatetime, types.DefaultFsp)
}

// showBackups executes SHOW BACKUPS: TiDB checks it, and has no backups to show.
func (s *clientSession) showBackups(ctx context.Context, stmt ast.StmtNode, show *ast.ShowStmt) (sqlexec.RecordSet, error) {
	rows, err := s.Session.ExecuteStmt(ctx, stmt)
	if err != nil || rows == nil {
		return rows, err
	}
	fields := rows.Fields()
	if err := rows.Close(); err != nil {
		return nil, err
	}
	const columns = 9 // fetchShowBRIE in pkg/executor/brie.go
	if len(fields) != columns {
		return nil, fmt.Errorf("SHOW BACKUPS has %d columns, not %d", len(fields), columns)
	}
	shown := &memoryRows{fields: fields}
	for _, t := range s.layer.opts.Backups.Tasks() {
		var message any
		if t.Err != nil {
			message = t.Err.Error()
		}
		shown.rows = append(shown.rows, types.MakeDatums(t.ID, t.Destination, t.State, t.Percent,
			s.datetime(t.Queued), s.datetime(t.Begun), s.datetime(t.Ended), t.Client, message))
	}
	return shown, s.filter(shown, show)
}

// filter removes the rows that do not meet the condition of a SHOW statement; a pattern is for the first column (buildShow in
// pkg/planner/core/planbuilder.go).
func (s *clientSession) filter(m *memoryRows, show *ast.ShowStmt) error {
	condition := show.Where
	if show.Pattern != nil {
		like := *show.Pattern
		like.Expr = &ast.ColumnNameExpr{Name: &ast.ColumnName{Name: m.fields[0].ColumnAsName}}
		condition = &like
	}
	if condition == nil {
		return nil
	}
	schema, names := inputOf(m.fields)
	expr, err := expression.BuildSimpleExpr(s.GetExprCtx(), condition, expression.WithInputSchemaAndNames(schema, names, nil))
	if err != nil {
		return err
	}
	all := m.rows
	m.rows = nil
	for _, row := range all {
		meets, _, err := expression.EvalBool(s.GetExprCtx().GetEvalCtx(), expression.CNFExprs{expr}, chunk.MutRowFromDatums(row).ToRow())
		if err != nil {
			return errors.Join(err, m.Close())
		}
		if meets {
			m.rows = append(m.rows, row)
		}
	}
	return nil
}
