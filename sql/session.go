package sql

import (
	"context"
	"crypto/tls"
	"strings"

	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/extension"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/server"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/kv"
)

// driver wraps the sessions of pkg/server's clients.
type driver struct {
	server.IDriver
	layer *Layer
}

// OpenCtx implements server.IDriver.
func (d *driver) OpenCtx(
	connID uint64, capability uint32, collation uint8, db string, tlsState *tls.ConnectionState, ext *extension.SessionExtensions,
) (*server.TiDBContext, error) {
	c, err := d.IDriver.OpenCtx(connID, capability, collation, db, tlsState, ext)
	if err != nil {
		return nil, err
	}
	c.Session = &clientSession{Session: c.Session, layer: d.layer}
	return c, nil
}

// clientSession is a session of TiDB's whose statements are measured, and whose
// ADMIN statements reach our jobs.
type clientSession struct {
	sessiontypes.Session
	layer *Layer
}

// ExecuteStmt implements session.Session.
func (s *clientSession) ExecuteStmt(ctx context.Context, stmt ast.StmtNode) (sqlexec.RecordSet, error) {
	what := s.prepared(stmt)
	if admin, ok := what.(*ast.AdminStmt); ok {
		return s.executeAdmin(ctx, stmt, admin)
	}
	if !isForeground(what) {
		rows, err := s.Session.ExecuteStmt(ctx, stmt)
		return rows, numbered(err)
	}
	end := s.layer.opts.Foreground.Begin()
	handed := false
	defer func() { // also after a panic: a KILL in the middle of a commit is one
		if !handed {
			end()
		}
	}()
	rows, err := s.Session.ExecuteStmt(ctx, stmt)
	if rows == nil || err != nil {
		return rows, numbered(err)
	}
	handed = true
	return &measuredRows{RecordSet: rows, end: end}, nil
}

// errDiskFull is MySQL's number for a write that has no room.
var errDiskFull = dbterror.ClassServer.NewStdErr(mysql.ErrDiskFull, mysql.Message("%s", nil))

// numbered gives the embedded store's refusal of a write, which TiDB knows as a text only, its
// number.
func numbered(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if at := strings.Index(text, kv.ErrDiskFull.Error()); at >= 0 {
		return errDiskFull.FastGenByArgs(strings.TrimPrefix(text[at:], "kv: "))
	}
	return err
}

// ExecutePreparedStmt implements session.Session.
func (s *clientSession) ExecutePreparedStmt(ctx context.Context, id uint32, params []expression.Expression) (sqlexec.RecordSet, error) {
	found, err := s.GetSessionVars().GetPreparedStmtByID(id)
	stmt, ok := found.(*plannercore.PlanCacheStmt)
	if err != nil || !ok {
		return s.Session.ExecutePreparedStmt(ctx, id, params)
	}
	return s.ExecuteStmt(ctx, &ast.ExecuteStmt{BinaryArgs: params, PrepStmt: stmt, PrepStmtId: id})
}

// Close implements session.Session. A KILL that has come while the session was idle would
// still be pending here, and TiDB panics with it when it releases the memory of the open
// transaction (pingcap/tidb#63956), which ends the process: so it is taken back first, and
// one that comes this very moment is contained.
func (s *clientSession) Close() {
	for range 2 { // what is closed already is left alone
		s.GetSessionVars().SQLKiller.Reset()
		err := s.tryClose()
		if err == nil {
			return
		}
		s.layer.opts.Logger.Warn("panic while a session was closed", zap.Uint64("conn", s.GetSessionVars().ConnectionID), zap.Error(err))
	}
}

func (s *clientSession) tryClose() (err error) {
	defer errs.Contain(&err)
	s.Session.Close()
	return nil
}

// prepared returns what a statement executes: the prepared one of EXECUTE.
func (s *clientSession) prepared(stmt ast.StmtNode) ast.StmtNode {
	execute, ok := stmt.(*ast.ExecuteStmt)
	if !ok {
		return stmt
	}
	found := execute.PrepStmt
	if found == nil {
		vars := s.GetSessionVars()
		id, ok := vars.PreparedStmtNameToID[execute.Name]
		if !ok {
			return stmt
		}
		found = vars.PreparedStmts[id]
	}
	if p, ok := found.(*plannercore.PlanCacheStmt); ok && p.PreparedAst != nil {
		return p.PreparedAst.Stmt
	}
	return stmt
}

// isForeground says that index builds give way to a statement: not to those that
// only wait for one, or ask for it.
func isForeground(stmt ast.StmtNode) bool {
	_, isDDL := stmt.(ast.DDLNode)
	return !isDDL
}

// measuredRows are rows whose statement runs until they are closed.
type measuredRows struct {
	sqlexec.RecordSet
	end func()
}

// Close implements sqlexec.RecordSet.
func (r *measuredRows) Close() error {
	if r.end != nil {
		r.end()
		r.end = nil
	}
	return r.RecordSet.Close()
}

// Finish is called by the server before Close, where it is there.
func (r *measuredRows) Finish() error {
	if rows, ok := r.RecordSet.(interface{ Finish() error }); ok {
		return rows.Finish()
	}
	return nil
}

// OnFetchReturned is called by the server after each fetch of a cursor.
func (r *measuredRows) OnFetchReturned() {
	if rows, ok := r.RecordSet.(interface{ OnFetchReturned() }); ok {
		rows.OnFetchReturned()
	}
}

// TryDetach implements sqlexec.DetachableRecordSet. Rows that are fetched later do
// not count as a running statement.
func (r *measuredRows) TryDetach() (sqlexec.RecordSet, bool, error) {
	rows, ok := r.RecordSet.(sqlexec.DetachableRecordSet)
	if !ok {
		return nil, false, nil
	}
	detached, ok, err := rows.TryDetach()
	if ok && r.end != nil {
		r.end()
		r.end = nil
	}
	return detached, ok, err
}

// Execute implements session.Session: it runs all statements of a text.
func (s *clientSession) Execute(ctx context.Context, text string) ([]sqlexec.RecordSet, error) {
	stmts, err := s.Parse(ctx, text)
	if err != nil {
		return nil, err
	}
	var results []sqlexec.RecordSet
	for _, stmt := range stmts {
		rows, err := s.ExecuteStmt(ctx, stmt)
		if err != nil {
			return results, err
		}
		if rows != nil {
			results = append(results, rows)
		}
	}
	return results, nil
}
