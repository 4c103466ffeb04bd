package builder

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/generated"
)

// expressionFlags are how an expression is stored, as in TiDB.
const expressionFlags = format.RestoreStringSingleQuotes |
	format.RestoreKeyWordLowercase | format.RestoreNameBackQuotes | format.RestoreSpacesAroundBinaryOperation |
	format.RestoreWithoutSchemaName | format.RestoreWithoutTableName

// impureFunctions give other results at another time, or in another session.
var impureFunctions = set(
	"benchmark", "connection_id", "curdate", "current_date", "current_role", "current_time", "current_timestamp",
	"current_user", "curtime", "database", "encrypt", "found_rows", "from_unixtime", "get_lock", "getvar", "icu_version",
	"is_free_lock", "is_used_lock", "last_insert_id", "lastval", "load_file", "localtime", "localtimestamp",
	"master_pos_wait", "name_const", "nextval", "now", "rand", "random_bytes", "release_all_locks", "release_lock",
	"row", "row_count", "schema", "session_user", "setval", "setvar", "sleep", "source_pos_wait", "sysdate",
	"system_user", "unix_timestamp", "user", "utc_date", "utc_time", "utc_timestamp", "uuid", "uuid_short", "values",
	"version",
)

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, name := range names {
		m[name] = true
	}
	return m
}

// expressionErrors are what is wrong with expressions of one kind.
type expressionErrors struct {
	function, rowValue, autoIncrement *terror.Error
}

var (
	columnErrors = expressionErrors{
		dbterror.ErrGeneratedColumnFunctionIsNotAllowed, dbterror.ErrGeneratedColumnRowValueIsNotAllowed,
		dbterror.ErrGeneratedColumnRefAutoInc,
	}
	indexErrors = expressionErrors{
		dbterror.ErrFunctionalIndexFunctionIsNotAllowed, dbterror.ErrFunctionalIndexRowValueIsNotAllowed,
		dbterror.ErrExpressionIndexCanNotRefer,
	}
)

// expression is what is stored of an expression over a table's columns.
type expression struct {
	text    string
	columns map[string]struct{} // in lower case
}

// newExpression refuses what an expression of the generated column or index of
// the given name must not contain.
func newExpression(expr ast.ExprNode, name string, errs *expressionErrors) (*expression, error) {
	c := &expressionChecker{name: name, errs: errs, columns: make(map[string]struct{})}
	expr.Accept(c)
	if c.err != nil {
		return nil, c.err
	}
	var text strings.Builder
	if err := expr.Restore(format.NewRestoreCtx(expressionFlags, &text)); err != nil {
		return nil, err
	}
	return &expression{text: text.String(), columns: c.columns}, nil
}

type expressionChecker struct {
	name    string
	errs    *expressionErrors
	columns map[string]struct{}
	err     error
}

// Enter implements ast.Visitor.
func (c *expressionChecker) Enter(n ast.Node) (ast.Node, bool) {
	if c.err == nil {
		c.err = c.check(n)
	}
	return n, c.err != nil
}

// Leave implements ast.Visitor.
func (c *expressionChecker) Leave(n ast.Node) (ast.Node, bool) { return n, c.err == nil }

func (c *expressionChecker) check(n ast.Node) error {
	switch n := n.(type) {
	case *ast.ColumnName:
		c.columns[n.Name.L] = struct{}{}
	case *ast.FuncCallExpr:
		switch {
		case n.FnName.L == ast.Grouping:
			return dbterror.ErrInvalidGroupFuncUse
		case impureFunctions[n.FnName.L]:
			return c.errs.function.FastGenByArgs(c.name)
		}
	case *ast.SubqueryExpr, *ast.ValuesExpr, *ast.VariableExpr, *ast.DefaultExpr, *ast.MatchAgainst, ast.ParamMarkerExpr:
		return c.errs.function.FastGenByArgs(c.name)
	case *ast.AggregateFuncExpr:
		return dbterror.ErrInvalidGroupFuncUse
	case *ast.WindowFuncExpr:
		return dbterror.ErrWindowInvalidWindowFuncUse.FastGenByArgs(n.Name)
	case *ast.RowExpr:
		return c.errs.rowValue.FastGenByArgs(c.name)
	case *ast.FuncCastExpr:
		if n.Tp.IsArray() {
			return Unsupported("multi-valued indexes")
		}
	}
	return nil
}

// generated makes the column one that is computed.
func (b *columnBuilder) generated(opt *ast.ColumnOption) error {
	if b.env.Expressions == nil {
		return Unsupported("generated columns")
	}
	x, err := newExpression(opt.Expr, b.col.Name.O, &columnErrors)
	if err != nil {
		return err
	}
	b.col.GeneratedExprString, b.col.GeneratedStored, b.col.Dependences = x.text, opt.Stored, x.columns
	return nil
}

// checkGenerated refuses options that a generated column cannot have.
func (b *columnBuilder) checkGenerated() error {
	if !b.col.IsGenerated() {
		return nil
	}
	switch {
	case b.hasDefault:
		return dbterror.ErrWrongUsage.FastGenByArgs("DEFAULT", "generated column")
	case mysql.HasAutoIncrementFlag(b.col.GetFlag()):
		return dbterror.ErrWrongUsage.FastGenByArgs("AUTO_INCREMENT", "generated column")
	case b.onUpdateNow:
		return dbterror.ErrWrongUsage.FastGenByArgs("ON UPDATE", "generated column")
	case mysql.HasPriKeyFlag(b.col.GetFlag()) && !b.col.GeneratedStored:
		return dbterror.ErrUnsupportedOnGeneratedColumn.FastGenByArgs("Defining a virtual generated column as primary key")
	}
	return nil
}

// CheckGenerated checks the generated columns of tbl from an offset on, which
// may refer to columns before them, and that all can be computed.
func CheckGenerated(env *Env, tbl *model.TableInfo, from int) error {
	for _, col := range tbl.Columns[from:] {
		if !col.IsGenerated() || col.Hidden {
			continue
		}
		deps, err := dependencies(tbl, col.Name.O, col.Dependences, &columnErrors)
		if err != nil {
			return err
		}
		for _, dep := range deps {
			if dep.IsGenerated() && dep.Offset >= col.Offset {
				return dbterror.ErrGeneratedColumnNonPrior.FastGenByArgs()
			}
		}
	}
	_, err := generated.Compile(tbl, env.Expressions)
	return err
}

// dependencies returns the columns that an expression refers to, by their names
// in lower case.
func dependencies(tbl *model.TableInfo, name string, columns map[string]struct{}, errs *expressionErrors) ([]*model.ColumnInfo, error) {
	var deps []*model.ColumnInfo
	for _, dep := range sortedKeys(columns) {
		col := model.FindColumnInfo(tbl.Columns, dep)
		switch {
		case col == nil || col.Hidden:
			return nil, dbterror.ErrBadField.FastGenByArgs(dep, "generated column function")
		case mysql.HasAutoIncrementFlag(col.GetFlag()):
			return nil, errs.autoIncrement.FastGenByArgs(name)
		case col.GetType() == mysql.TypeTimestamp:
			return nil, Unsupported("expression on TIMESTAMP column " + col.Name.O + ", whose values depend on the time zone")
		}
		deps = append(deps, col)
	}
	return deps, nil
}

func sortedKeys(m map[string]struct{}) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// ExpressionSpec is a key part that is an expression.
type ExpressionSpec struct {
	Text string `json:"text"`
	// Type is the type of the expression's values, and Columns the types of the
	// columns that it refers to, by their names in lower case.
	Type    *types.FieldType            `json:"type"`
	Columns map[string]*types.FieldType `json:"columns"`
}

func newExpressionSpec(expr ast.ExprNode, index string) (*ExpressionSpec, error) {
	inner := expr
	for {
		p, ok := inner.(*ast.ParenthesesExpr)
		if !ok {
			break
		}
		inner = p.Expr
	}
	if _, ok := inner.(*ast.ColumnNameExpr); ok {
		return nil, dbterror.ErrFunctionalIndexOnField
	}
	x, err := newExpression(expr, index, &indexErrors)
	if err != nil {
		return nil, err
	}
	if len(x.columns) == 0 {
		return nil, Unsupported("expression index without columns")
	}
	spec := &ExpressionSpec{Text: x.text, Columns: make(map[string]*types.FieldType)}
	for name := range x.columns {
		spec.Columns[name] = nil
	}
	return spec, nil
}

// Resolve finds out the types of the key parts that are expressions over the
// columns of tbl.
func (s *IndexSpec) Resolve(env *Env, tbl *model.TableInfo) error {
	for i := range s.Columns {
		x := s.Columns[i].Expr
		if x == nil {
			continue
		}
		if env.Expressions == nil {
			return Unsupported("expression index")
		}
		deps, err := dependencies(tbl, s.Name, x.names(), &indexErrors)
		if err != nil {
			return err
		}
		for _, dep := range deps {
			x.Columns[dep.Name.L] = dep.FieldType.Clone()
		}
		if x.Type, err = env.Expressions.Infer(tbl, x.Text, env.Collation); err != nil {
			return err
		}
	}
	return nil
}

func (x *ExpressionSpec) names() map[string]struct{} {
	names := make(map[string]struct{}, len(x.Columns))
	for name := range x.Columns {
		names[name] = struct{}{}
	}
	return names
}

// hiddenColumnPrefix begins the names of hidden columns, as in TiDB.
const hiddenColumnPrefix = "_V$"

// hiddenColumn returns the hidden column for part i of an index, without an ID.
// added are hidden columns of the index's parts before it.
func (x *ExpressionSpec) hiddenColumn(tbl *model.TableInfo, index string, i int, state model.SchemaState,
	added []*model.ColumnInfo) (*model.ColumnInfo, error) {
	for name, ft := range x.Columns {
		col := model.FindColumnInfo(tbl.Columns, name)
		if col == nil || col.Hidden {
			return nil, dbterror.ErrBadField.FastGenByArgs(name, "generated column function")
		}
		if ft == nil || !col.FieldType.Equal(ft) {
			// It is another column than when the statement was planned.
			return nil, ErrSchemaChanged.FastGenByArgs()
		}
	}
	return &model.ColumnInfo{
		Name:                hiddenColumnName(index, i, slices.Concat(tbl.Columns, added)),
		Offset:              len(tbl.Columns) + len(added),
		FieldType:           *x.Type.Clone(),
		State:               state,
		Version:             model.CurrLatestColumnInfoVersion,
		Hidden:              true,
		GeneratedExprString: x.Text,
		Dependences:         x.names(),
	}, nil
}

// hiddenColumnName names a hidden column after part i of its index, as TiDB does
// unless the name is taken.
func hiddenColumnName(index string, i int, taken []*model.ColumnInfo) pmodel.CIStr {
	for ; ; i++ {
		name := pmodel.NewCIStr(fmt.Sprintf("%s_%s_%d", hiddenColumnPrefix, index, i))
		if model.FindColumnInfo(taken, name.L) == nil {
			return name
		}
	}
}

// HiddenColumns returns the hidden columns of an index.
func HiddenColumns(tbl *model.TableInfo, idx *model.IndexInfo) []*model.ColumnInfo {
	var out []*model.ColumnInfo
	for _, ic := range idx.Columns {
		if col := tbl.Columns[ic.Offset]; col.Hidden {
			out = append(out, col)
		}
	}
	return out
}

// RenameHiddenColumns names the hidden columns of an index after its name.
func RenameHiddenColumns(tbl *model.TableInfo, idx *model.IndexInfo) {
	for i, ic := range idx.Columns {
		col := tbl.Columns[ic.Offset]
		if !col.Hidden {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(tbl.Columns), func(other *model.ColumnInfo) bool { return other == col })
		col.Name = hiddenColumnName(idx.Name.O, i, others)
		ic.Name = col.Name
	}
}
