// Package generatedtest has a compiler of a few expressions, for tests of
// packages that know nothing of SQL.
package generatedtest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/generated"
)

// ErrNegative is what Half fails with.
var ErrNegative = errors.New("argument is negative")

// Compiler knows lower(`c`), `c` + 1 and half(`c`) over any column c.
type Compiler struct{}

var _ generated.Compiler = Compiler{}

// Infer implements generated.Compiler.
func (Compiler) Infer(tbl *model.TableInfo, expr, _ string) (*types.FieldType, error) {
	_, col, err := parse(tbl, expr)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(expr, "lower(") {
		return col.FieldType.Clone(), nil
	}
	return types.NewFieldType(mysql.TypeLonglong), nil
}

// Compile implements generated.Compiler.
func (Compiler) Compile(tbl *model.TableInfo, col *model.ColumnInfo) (generated.Expression, error) {
	eval, of, err := parse(tbl, col.GeneratedExprString)
	if err != nil {
		return nil, err
	}
	return expression{eval, of.Offset}, nil
}

type evalFunc func(types.Datum) (types.Datum, error)

type expression struct {
	eval evalFunc
	at   int
}

// Eval implements generated.Expression.
func (e expression) Eval(row []types.Datum) (types.Datum, error) {
	if row[e.at].IsNull() {
		return types.Datum{}, nil
	}
	return e.eval(row[e.at])
}

func parse(tbl *model.TableInfo, expr string) (evalFunc, *model.ColumnInfo, error) {
	_, rest, _ := strings.Cut(expr, "`")
	name, _, _ := strings.Cut(rest, "`")
	col := model.FindColumnInfo(tbl.Columns, strings.ToLower(name))
	if col == nil {
		return nil, nil, fmt.Errorf("no column %q in %s", name, expr)
	}
	quoted := "`" + name + "`"
	switch expr {
	case "lower(" + quoted + ")":
		return lower, col, nil
	case quoted + " + 1":
		return plusOne, col, nil
	case "half(" + quoted + ")":
		return half, col, nil
	}
	return nil, nil, fmt.Errorf("unknown expression %s", expr)
}

func lower(d types.Datum) (types.Datum, error) {
	return types.NewStringDatum(strings.ToLower(d.GetString())), nil
}

func plusOne(d types.Datum) (types.Datum, error) { return types.NewIntDatum(d.GetInt64() + 1), nil }

// half fails for negative numbers.
func half(d types.Datum) (types.Datum, error) {
	if d.GetInt64() < 0 {
		return types.Datum{}, ErrNegative
	}
	return types.NewIntDatum(d.GetInt64() / 2), nil
}
