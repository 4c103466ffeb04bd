package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/extension"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/planner/core/resolve"
	tidbserver "github.com/pingcap/tidb/pkg/server"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
)

// errSecureFilePriv is MySQL's error for a file outside of secure-file-priv.
var errSecureFilePriv = dbterror.ClassServer.NewStdErr(errno.ErrOptionPreventsStatement,
	mysql.Message("The MySQL server is running with the --secure-file-priv option so it cannot execute this statement", nil))

// What TiDB does by way of TiKV's and PD's own protocols is refused on the embedded store.
var (
	errNoImport = dbterror.ClassServer.NewStdErr(errno.ErrNotSupportedYet,
		mysql.Message("IMPORT INTO is not supported on the embedded store: use LOAD DATA LOCAL INFILE", nil))
	errNoBackup = dbterror.ClassServer.NewStdErr(errno.ErrNotSupportedYet,
		mysql.Message("%s is not supported on the embedded store: copy its folder, or dump it and load the dump", nil))
)

// fileGuard makes the sessions of a driver keep to one folder of the server's
// machine. TiDB itself lets everybody with the privilege FILE write anywhere.
type fileGuard struct {
	tidbserver.IDriver
	// folder is secure-file-priv, without symbolic links; empty allows no file.
	folder string
	// embedded refuses what works on TiKV only.
	embedded bool
	// peers are those that have logged in.
	peers loggedIn
}

func newFileGuard(driver tidbserver.IDriver, folder string, embedded bool) (*fileGuard, error) {
	g := &fileGuard{IDriver: driver, embedded: embedded}
	if folder == "" {
		return g, nil
	}
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	g.folder, err = filepath.EvalSymlinks(absolute)
	return g, err
}

// registerSecureFilePriv makes secure-file-priv a variable that can be read, as in MySQL:
// NULL closes all files.
func registerSecureFilePriv(folder string) {
	value := "NULL"
	if folder != "" {
		value = filepath.Clean(folder) + string(filepath.Separator)
	}
	variable.RegisterSysVar(&variable.SysVar{Scope: variable.ScopeNone, Name: "secure_file_priv", Value: value})
}

// OpenCtx implements tidbserver.IDriver.
func (g *fileGuard) OpenCtx(
	connID uint64, capability uint32, collation uint8, db string, tlsState *tls.ConnectionState, ext *extension.SessionExtensions,
) (*tidbserver.TiDBContext, error) {
	c, err := g.IDriver.OpenCtx(connID, capability, collation, db, tlsState, ext)
	if err != nil {
		return nil, err
	}
	c.Session = &guardedSession{Session: c.Session, guard: g}
	return c, nil
}

// allows reports whether statements may use the file with the given name.
func (g *fileGuard) allows(name string) bool {
	if g.folder == "" {
		return false
	}
	file, err := resolveFile(name)
	if err != nil {
		return false
	}
	inside, err := filepath.Rel(g.folder, file)
	return err == nil && inside != "." && inside != ".." && !strings.HasPrefix(inside, ".."+string(filepath.Separator))
}

// resolveFile returns the name of a file without symbolic links. The file need not
// exist, but its folder; a link that leads nowhere is an error.
func resolveFile(name string) (string, error) {
	absolute, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(absolute); err == nil {
		return filepath.EvalSymlinks(absolute)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(absolute))
	return filepath.Join(folder, filepath.Base(absolute)), err
}

// check returns an error if stmt is none that the store can do, or uses a file that it may
// not.
func (g *fileGuard) check(stmt ast.StmtNode) error {
	if g.embedded {
		switch s := stmt.(type) {
		case *ast.ImportIntoStmt:
			return errNoImport.GenWithStackByArgs()
		case *ast.BRIEStmt:
			return errNoBackup.GenWithStackByArgs(s.Kind.String())
		}
	}
	if file := serverFile(stmt); file != "" && !g.allows(file) {
		return errSecureFilePriv.GenWithStackByArgs()
	}
	return nil
}

// serverFile is the file of the server's machine that a statement reads or
// writes, "" for none.
func serverFile(node ast.Node) string {
	switch s := node.(type) {
	case *ast.SelectStmt:
		if s.SelectIntoOpt != nil {
			return s.SelectIntoOpt.FileName
		}
	case *ast.SetOprStmt:
		for _, selected := range s.SelectList.Selects {
			if file := serverFile(selected); file != "" {
				return file
			}
		}
	case *ast.InsertStmt:
		if s.Select != nil {
			return serverFile(s.Select)
		}
	case *ast.ExplainStmt:
		return serverFile(s.Stmt)
	case *ast.TraceStmt:
		return serverFile(s.Stmt)
	case *ast.ImportIntoStmt:
		return localPath(s.Path)
	case *ast.BRIEStmt:
		return localPath(s.Storage)
	case *ast.LoadDataStmt:
		if s.FileLocRef != ast.FileLocClient {
			return localPath(s.Path)
		}
	}
	return ""
}

// localPath is the path that a URL of TiDB's names on the server, "" if it is
// elsewhere.
func localPath(location string) string {
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

// guardedSession is a session whose statements are checked, prepared ones when
// they are prepared.
type guardedSession struct {
	sessiontypes.Session
	guard *fileGuard
}

// errNobody refuses what comes over a connection on which nobody is logged in.
var errNobody = dbterror.ClassServer.NewStdErr(errno.ErrAccessDenied, mysql.Message("Access denied: no user is logged in on this connection", nil))

// checkUser refuses statements of a session without a user. TiDB makes a new session for
// COM_CHANGE_USER and COM_RESET_CONNECTION and keeps it when the user is refused (pkg/server/conn.go,
// handleChangeUser), and a session without a user may do everything there (pkg/privilege/privileges,
// RequestVerification). MySQL ends the connection.
func (s *guardedSession) checkUser() error {
	if s.GetSessionVars().User == nil {
		return errNobody.GenWithStackByArgs()
	}
	return nil
}

// FieldList implements sessiontypes.Session.
func (s *guardedSession) FieldList(table string) ([]*resolve.ResultField, error) {
	if err := s.checkUser(); err != nil {
		return nil, err
	}
	return s.Session.FieldList(table)
}

// ExecutePreparedStmt implements sessiontypes.Session.
func (s *guardedSession) ExecutePreparedStmt(ctx context.Context, id uint32, params []expression.Expression) (sqlexec.RecordSet, error) {
	if err := s.checkUser(); err != nil {
		return nil, err
	}
	return s.Session.ExecutePreparedStmt(ctx, id, params)
}

// ExecuteStmt implements sessiontypes.Session.
func (s *guardedSession) ExecuteStmt(ctx context.Context, stmt ast.StmtNode) (sqlexec.RecordSet, error) {
	if err := s.checkUser(); err != nil {
		return nil, err
	}
	if err := s.guard.check(stmt); err != nil {
		return nil, err
	}
	rows, err := s.Session.ExecuteStmt(ctx, stmt)
	if prepare, ok := stmt.(*ast.PrepareStmt); ok && err == nil {
		err = s.checkPrepared(s.GetSessionVars().PreparedStmtNameToID[prepare.Name])
	}
	return rows, err
}

// PrepareStmt implements sessiontypes.Session.
func (s *guardedSession) PrepareStmt(sql string) (uint32, int, []*resolve.ResultField, error) {
	if err := s.checkUser(); err != nil {
		return 0, 0, nil, err
	}
	id, params, fields, err := s.Session.PrepareStmt(sql)
	if err == nil {
		err = s.checkPrepared(id)
	}
	return id, params, fields, err
}

// checkPrepared drops the prepared statement id if it uses a file that it may not.
func (s *guardedSession) checkPrepared(id uint32) error {
	found, ok := s.GetSessionVars().PreparedStmts[id].(*plannercore.PlanCacheStmt)
	if !ok || found.PreparedAst == nil {
		return nil
	}
	err := s.guard.check(found.PreparedAst.Stmt)
	if err != nil {
		_ = s.DropPreparedStmt(id) // it is there
	}
	return err
}
