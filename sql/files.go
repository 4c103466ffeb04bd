package sql

import (
	"errors"
	"os"
	"path/filepath"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	gmstypes "github.com/dolthub/go-mysql-server/sql/types"
	"github.com/pingcap/tidb/pkg/errno"

	"fastddl/sql/sqlerr"
)

// serverFiles is what statements may do with files of the server's machine:
// LOAD DATA without LOCAL, SELECT INTO OUTFILE and DUMPFILE, LOAD_FILE.
type serverFiles struct {
	engine *Engine
	// dir is the folder that they are confined to; empty is none, and then they
	// must not touch any file.
	dir string
}

const loadFileName = "load_file"

// check refuses a plan that reads or writes files where it must not. It does not
// look into the plan's children.
func (f serverFiles) check(ctx *gms.Context, node gms.Node) error {
	switch n := node.(type) {
	case *plan.LoadData:
		if !n.Local {
			return f.checkFile(ctx, n.File)
		}
	case *plan.Into:
		for _, name := range []string{n.Outfile, n.Dumpfile} {
			if name == "" {
				continue
			}
			if err := f.checkFile(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f serverFiles) checkFile(ctx *gms.Context, name string) error {
	if !f.privileged(ctx) {
		return sqlerr.New(errno.ErrSpecificAccessDenied, "FILE")
	}
	if !f.inside(name) {
		return sqlerr.New(errno.ErrOptionPreventsStatement, "--secure-file-priv")
	}
	return nil
}

// privileged says whether the user has the privilege FILE.
func (f serverFiles) privileged(ctx *gms.Context) bool {
	return f.engine.gms.Analyzer.Catalog.MySQLDb.UserHasPrivileges(ctx,
		gms.NewPrivilegedOperation(gms.PrivilegeCheckSubject{}, gms.PrivilegeType_File))
}

// inside says whether a file, which need not exist, lies in the folder that
// statements are confined to, links resolved.
func (f serverFiles) inside(name string) bool {
	if f.dir == "" || name == "" {
		return false
	}
	dir, err := resolve(f.dir)
	if err != nil {
		return false
	}
	file, err := resolve(name)
	if os.IsNotExist(err) {
		var parent string
		if parent, err = resolve(filepath.Dir(name)); err == nil {
			file = filepath.Join(parent, filepath.Base(name))
		}
	}
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(dir, file)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

// resolve returns the absolute path of what exists, without links.
func resolve(name string) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// function returns the function LOAD_FILE.
func (f serverFiles) function() gms.Function {
	return gms.Function1{Name: loadFileName, Fn: func(_ *gms.Context, name gms.Expression) gms.Expression {
		return &loadFile{UnaryExpressionStub: expression.UnaryExpressionStub{Child: name}, files: f}
	}}
}

// loadFile is LOAD_FILE(name). As in MySQL it is NULL for whatever cannot be
// read.
type loadFile struct {
	expression.UnaryExpressionStub
	files serverFiles
}

var (
	_ gms.FunctionExpression         = (*loadFile)(nil)
	_ gms.CollationCoercible         = (*loadFile)(nil)
	_ gms.NonDeterministicExpression = (*loadFile)(nil)
)

// FunctionName implements sql.FunctionExpression.
func (*loadFile) FunctionName() string { return loadFileName }

// Description implements sql.FunctionExpression.
func (*loadFile) Description() string { return "returns the content of a file of the server." }

// String implements sql.Expression.
func (l *loadFile) String() string { return loadFileName + "(" + l.Child.String() + ")" }

// Type implements sql.Expression.
func (*loadFile) Type(*gms.Context) gms.Type { return gmstypes.LongBlob }

// IsNullable implements sql.Expression.
func (*loadFile) IsNullable(*gms.Context) bool { return true }

// IsNonDeterministic implements sql.NonDeterministicExpression.
func (*loadFile) IsNonDeterministic() bool { return true }

// CollationCoercibility implements sql.CollationCoercible.
func (*loadFile) CollationCoercibility(*gms.Context) (collation gms.CollationID, coercibility byte) {
	return gms.Collation_binary, 5
}

// WithChildren implements sql.Expression.
func (l *loadFile) WithChildren(_ *gms.Context, children ...gms.Expression) (gms.Expression, error) {
	if len(children) != 1 {
		return nil, gms.ErrInvalidChildrenNumber.New(l, len(children), 1)
	}
	return &loadFile{UnaryExpressionStub: expression.UnaryExpressionStub{Child: children[0]}, files: l.files}, nil
}

// Eval implements sql.Expression.
func (l *loadFile) Eval(ctx *gms.Context, row gms.Row) (any, error) {
	value, err := l.Child.Eval(ctx, row)
	if err != nil || value == nil {
		return nil, err
	}
	name, _, err := gmstypes.LongText.Convert(ctx, value)
	if err != nil {
		return nil, err
	}
	text, ok := name.(string)
	if !ok || !l.files.privileged(ctx) || !l.files.inside(text) {
		return nil, nil
	}
	packet, err := ctx.GetSessionVariable(ctx, "max_allowed_packet")
	if err != nil {
		return nil, err
	}
	limit, ok := packet.(int64)
	if !ok {
		return nil, nil
	}
	data, err := readUpTo(text, limit)
	if err != nil {
		return nil, nil
	}
	return data, nil
}

var errNotReadable = errors.New("not a regular file, or too large")

// readUpTo reads a regular file that is not larger than limit.
func readUpTo(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, errNotReadable
	}
	return os.ReadFile(name)
}
