package server

import (
	"context"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/executor"
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/planner/core/resolve"
	"github.com/pingcap/tidb/pkg/privilege/conn"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/pingcap/tidb/pkg/util/sqlexec"

	"fastddl/internal/asttree"
)

// guardedSession is the session of a client as TiDB's server has it. It declares every method by
// which SQL, a statement or the name of a table enters, and lets nothing pass that has no user or
// that the guard refuses: TestGuardedSession fails for a method that TiDB adds. What it prepares
// is checked before, because TiDB plans and evaluates then.
type guardedSession struct {
	sessiontypes.Session
	guard *fileGuard
}

// errNoUser refuses what comes over a connection on which no user is logged in.
var errNoUser = dbterror.ClassServer.NewStdErr(errno.ErrAccessDenied, mysql.Message("Access denied: no user is logged in on this connection", nil))

// refusedLinger is how long a connection that has lost its user stays open, so that its client
// reads why. It can do nothing meanwhile.
const refusedLinger = 100 * time.Millisecond

// checkUser refuses what a session without a user does, and ends its connection. TiDB makes a
// new session for COM_CHANGE_USER and COM_RESET_CONNECTION and keeps it when the user is refused
// (pkg/server/conn.go, handleChangeUser), and a session without a user may do everything there
// (pkg/privilege/privileges, RequestVerification). MySQL ends the connection.
func (s *guardedSession) checkUser() error {
	if s.GetSessionVars().User != nil {
		return nil
	}
	s.guard.endConnection(s.GetSessionVars().ConnectionID)
	return errNoUser.GenWithStackByArgs()
}

// endConnection ends a client's connection after refusedLinger.
func (g *fileGuard) endConnection(id uint64) {
	if kill := g.kill.Load(); kill != nil {
		time.AfterFunc(refusedLinger, func() { (*kill)(id) })
	}
}

// Auth implements sessiontypes.Session.
func (s *guardedSession) Auth(user *auth.UserIdentity, authentication, salt []byte, authConn conn.AuthConn) error {
	err := s.Session.Auth(user, authentication, salt, authConn)
	if err != nil {
		s.guard.endConnection(s.GetSessionVars().ConnectionID)
	}
	return err
}

// AuthWithoutVerification implements sessiontypes.Session. COM_RESET_CONNECTION passes the user of the session before.
func (s *guardedSession) AuthWithoutVerification(user *auth.UserIdentity) bool {
	if user == nil {
		s.guard.endConnection(s.GetSessionVars().ConnectionID)
		return false
	}
	return s.Session.AuthWithoutVerification(user)
}

// FieldList implements sessiontypes.Session.
func (s *guardedSession) FieldList(table string) ([]*resolve.ResultField, error) {
	if err := s.checkUser(); err != nil {
		return nil, err
	}
	return s.Session.FieldList(table)
}

// Parse implements sessiontypes.Session.
func (s *guardedSession) Parse(ctx context.Context, sql string) ([]ast.StmtNode, error) {
	if err := s.checkUser(); err != nil {
		return nil, err
	}
	stmts, err := s.Session.Parse(ctx, sql)
	if err != nil {
		return nil, err
	}
	for _, stmt := range stmts {
		// TiDB's connection executes BATCH by itself, and gives what it makes of it to the session only.
		if batch, ok := stmt.(*ast.NonTransactionalDMLStmt); ok {
			if err := s.check(batch); err != nil {
				return nil, err
			}
		}
	}
	return stmts, nil
}

// ExecuteStmt implements sessiontypes.Session.
func (s *guardedSession) ExecuteStmt(ctx context.Context, stmt ast.StmtNode) (sqlexec.RecordSet, error) {
	if err := s.checkUser(); err != nil {
		return nil, err
	}
	if err := s.check(stmt); err != nil {
		return nil, err
	}
	return s.Session.ExecuteStmt(ctx, stmt)
}

// Execute implements sessiontypes.Session. BATCH reads by it.
func (s *guardedSession) Execute(ctx context.Context, sql string) ([]sqlexec.RecordSet, error) {
	stmts, err := s.Parse(ctx, sql)
	if err != nil {
		return nil, err
	}
	for _, stmt := range stmts {
		if err := s.check(stmt); err != nil {
			return nil, err
		}
	}
	return s.Session.Execute(ctx, sql)
}

// ExecuteInternal implements sessiontypes.Session. The statements are TiDB's own, with values of clients.
func (s *guardedSession) ExecuteInternal(ctx context.Context, sql string, args ...any) (sqlexec.RecordSet, error) {
	if err := s.checkUser(); err != nil {
		return nil, err
	}
	stmt, err := s.GetRestrictedSQLExecutor().ParseWithParams(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	if err := s.check(stmt); err != nil {
		return nil, err
	}
	return s.Session.ExecuteInternal(ctx, sql, args...)
}

// GetSQLExecutor implements sessionctx.Context.
func (s *guardedSession) GetSQLExecutor() sqlexec.SQLExecutor { return s }

// check refuses a statement that the guard forbids, or its user may not execute, wherever it stands.
func (s *guardedSession) check(stmt ast.Node) error {
	queries := false
	err := asttree.Visit(stmt, func(n ast.Node) error {
		queries = queries || readsInside(n)
		if t, ok := n.(*ast.TableName); ok {
			return s.checkValueTable(t)
		}
		if _, ok := n.(ast.StmtNode); !ok { // of which there are thousands in a long INSERT
			return nil
		}
		if err := s.guard.checkNode(n); err != nil {
			return err
		}
		if err := s.checkJobTables(n); err != nil {
			return err
		}
		if err := s.checkRights(s.forgottenRights(n)); err != nil {
			return err
		}
		if err := s.checkTexts(n); err != nil {
			return err
		}
		return s.checkMoves(n)
	})
	if err == nil && queries {
		err = s.checkQueries(stmt)
	}
	return err
}

// PrepareStmt implements sessiontypes.Session.
func (s *guardedSession) PrepareStmt(sql string) (uint32, int, []*resolve.ResultField, error) {
	if err := s.checkUser(); err != nil {
		return 0, 0, nil, err
	}
	if err := s.checkText(sql); err != nil {
		return 0, 0, nil, err
	}
	return s.Session.PrepareStmt(sql)
}

// ExecutePreparedStmt implements sessiontypes.Session.
func (s *guardedSession) ExecutePreparedStmt(ctx context.Context, id uint32, params []expression.Expression) (sqlexec.RecordSet, error) {
	if err := s.checkUser(); err != nil {
		return nil, err
	}
	if err := s.checkPrepared(&ast.ExecuteStmt{PrepStmt: s.GetSessionVars().PreparedStmts[id]}); err != nil {
		return nil, err
	}
	return s.Session.ExecutePreparedStmt(ctx, id, params)
}

// checkPrepared refuses to execute a prepared statement that its user may not execute any more.
func (s *guardedSession) checkPrepared(stmt *ast.ExecuteStmt) error {
	prepared := stmt.PrepStmt // as plannercore.GetPreparedStmt, which changes the statement
	if prepared == nil {
		vars := s.GetSessionVars()
		prepared = vars.PreparedStmts[vars.PreparedStmtNameToID[stmt.Name]]
	}
	found, ok := prepared.(*plannercore.PlanCacheStmt)
	if !ok || found.PreparedAst == nil {
		return nil
	}
	return s.check(found.PreparedAst.Stmt)
}

// Value implements sessionctx.Context. PLAN REPLAYER LOAD leaves a session for TiDB's connection, by which it executes what the
// client's file has: it is this one.
func (s *guardedSession) Value(key fmt.Stringer) any {
	value := s.Session.Value(key)
	if load, ok := value.(*executor.PlanReplayerLoadInfo); ok {
		load.Ctx = s
	}
	return value
}
