package server

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/extension"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	tidbserver "github.com/pingcap/tidb/pkg/server"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/util/dbterror"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"

	"fastddl/sql"
)

// errSecureFilePriv is MySQL's error for a file outside of secure-file-priv.
var errSecureFilePriv = dbterror.ClassServer.NewStdErr(errno.ErrOptionPreventsStatement,
	mysql.Message("The MySQL server is running with the --secure-file-priv option so it cannot execute this statement", nil))

// errSecureBackup is errSecureFilePriv for a backup.
var errSecureBackup = dbterror.ClassServer.NewStdErr(errno.ErrOptionPreventsStatement,
	mysql.Message("The MySQL server is running with the --secure-file-priv option so it cannot execute this statement: "+
		"a backup goes into a new folder below that of secure-file-priv, see SHOW VARIABLES LIKE 'secure_file_priv'", nil))

// What TiDB does by way of TiKV's and PD's own protocols is refused on the embedded store.
var (
	errNoBackup = dbterror.ClassServer.NewStdErr(errno.ErrNotSupportedYet,
		mysql.Message("%s is not supported on the embedded store: %s", nil))
)

// fileGuard makes the sessions of a driver keep to one folder of the server's
// machine. TiDB itself lets every user with the privilege FILE write anywhere.
type fileGuard struct {
	tidbserver.IDriver
	// folder is secure-file-priv, without symbolic links; empty allows no file.
	folder string
	// embedded refuses what works on TiKV only.
	embedded bool
	// peers are those that have logged in.
	peers loggedIn
	// kill ends a client's connection; nil while there is no server.
	kill atomic.Pointer[func(connID uint64)]
	// api are the sessions of the API; nil while there is no server.
	api atomic.Pointer[apiSessions]
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

// checkNode returns an error if the node itself is a statement that the store cannot do, or uses a file of the server's machine
// that it may not.
func (g *fileGuard) checkNode(n ast.Node) error {
	if g.embedded {
		if s, ok := n.(*ast.BRIEStmt); ok {
			if what, instead := unsupportedBackup(s); what != "" {
				return errNoBackup.GenWithStackByArgs(what, instead)
			}
		}
	}
	if file := serverFile(n); file != "" && (!g.allows(file) || !g.allowsMatches(n, file)) {
		if _, ok := n.(*ast.BRIEStmt); ok {
			return errSecureBackup.GenWithStackByArgs()
		}
		return errSecureFilePriv.GenWithStackByArgs()
	}
	if s, ok := n.(*ast.ImportIntoStmt); ok {
		if _, plain := sql.ImportedFile(s.Path); !plain {
			return exeerrors.ErrLoadDataInvalidURI.GenWithStackByArgs("IMPORT INTO",
				"a path on the server is absolute, has no query, and its folder's name consists of characters that need no escape in a URL")
		}
	}
	return nil
}

// allowsMatches reports whether IMPORT INTO may read all files that its pattern matches now: one may be a link.
func (g *fileGuard) allowsMatches(n ast.Node, pattern string) bool {
	if _, ok := n.(*ast.ImportIntoStmt); !ok || !strings.ContainsAny(filepath.Base(pattern), "*[") {
		return true
	}
	folder := filepath.Dir(pattern)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return os.IsNotExist(err) // which TiDB says
	}
	for _, e := range entries {
		match, err := filepath.Match(filepath.Base(pattern), e.Name())
		if err == nil && match && !g.allows(filepath.Join(folder, e.Name())) {
			return false
		}
	}
	return true
}

// unsupportedBackup returns what of a statement about backups the embedded store does not do, and what to do instead; "" if it does it.
func unsupportedBackup(s *ast.BRIEStmt) (what, instead string) {
	switch s.Kind {
	case ast.BRIEKindBackup:
		switch {
		case len(s.Schemas)+len(s.Tables) > 0:
			return "BACKUP of single databases or tables", "BACKUP DATABASE * takes all of them in seconds; or dump them"
		case sql.LocalPath(s.Storage) == "":
			scheme, _, _ := strings.Cut(s.Storage, ":")
			return "BACKUP to " + scheme, "BACKUP DATABASE * TO 'local:///FOLDER', and copy the folder"
		}
		return "", ""
	case ast.BRIEKindRestore, ast.BRIEKindRestorePIT:
		return s.Kind.String(), "fastddl restore --from BACKUP --path FOLDER makes a store of a backup, for another server"
	case ast.BRIEKindShowBackupMeta:
		return s.Kind.String(), "fastddl backup verify FOLDER says what a backup is of"
	case ast.BRIEKindShowJob, ast.BRIEKindShowQuery, ast.BRIEKindCancelJob:
		return s.Kind.String(), "SHOW BACKUPS lists backups, and KILL QUERY ends one"
	}
	return s.Kind.String(), "there are no log backups; BACKUP DATABASE * takes seconds"
}

// serverFile is the file of the server's machine that the node itself reads or writes, "" for none.
func serverFile(n ast.Node) string {
	switch s := n.(type) {
	case *ast.SelectStmt:
		if s.SelectIntoOpt != nil {
			return s.SelectIntoOpt.FileName
		}
	case *ast.ImportIntoStmt:
		file, _ := sql.ImportedFile(s.Path)
		return file
	case *ast.BRIEStmt:
		return sql.LocalPath(s.Storage)
	case *ast.LoadDataStmt:
		if s.FileLocRef != ast.FileLocClient {
			return sql.LocalPath(s.Path)
		}
	}
	return ""
}
