package stmt

import (
	"fmt"
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
	"github.com/pingcap/tidb/pkg/parser/opcode"
	driver "github.com/pingcap/tidb/pkg/types/parser_driver"
)

// filter is the WHERE of ADMIN SHOW DDL JOBS: the condition that TiDB's parser
// read, made into an expression of the engine, so that it compares and converts
// as everywhere else.
type filter struct{ condition gms.Expression }

func newFilter(ctx *gms.Context, catalog gms.Catalog, where ast.ExprNode) (filter, error) {
	if where == nil {
		return filter{}, nil
	}
	condition, err := (&exprBuilder{ctx: ctx, catalog: catalog}).build(where)
	return filter{condition}, err
}

func (f filter) accepts(ctx *gms.Context, row gms.Row) (bool, error) {
	if f.condition == nil {
		return true, nil
	}
	v, err := gms.EvaluateCondition(ctx, f.condition, row)
	return gms.IsTrue(v), err
}

// exprBuilder translates expressions over the columns of JobColumns.
type exprBuilder struct {
	ctx     *gms.Context
	catalog gms.Catalog
}

func (b *exprBuilder) build(e ast.ExprNode) (gms.Expression, error) {
	switch e := e.(type) {
	case *driver.ValueExpr:
		return literal(e)
	case *ast.ParenthesesExpr:
		return b.build(e.Expr)
	case *ast.ColumnNameExpr:
		return column(e.Name)
	case *ast.BinaryOperationExpr:
		return b.binary(e)
	case *ast.UnaryOperationExpr:
		return b.unary(e)
	case *ast.IsNullExpr:
		return b.negated(e.Not, e.Expr, func(x gms.Expression) gms.Expression { return expression.NewIsNull(x) })
	case *ast.IsTruthExpr:
		return b.negated(e.Not, e.Expr, func(x gms.Expression) gms.Expression {
			if e.True != 0 {
				return expression.NewIsTrue(x)
			}
			return expression.NewIsFalse(x)
		})
	case *ast.BetweenExpr:
		args, err := b.buildAll(e.Expr, e.Left, e.Right)
		if err != nil {
			return nil, err
		}
		return not(e.Not, expression.NewBetween(args[0], args[1], args[2])), nil
	case *ast.PatternInExpr:
		return b.in(e)
	case *ast.PatternLikeOrIlikeExpr:
		return b.like(e)
	case *ast.FuncCallExpr:
		return b.call(e)
	}
	return nil, unsupportedCondition(e)
}

func unsupportedCondition(e ast.Node) error {
	var text strings.Builder
	if err := e.Restore(format.NewRestoreCtx(format.DefaultRestoreFlags, &text)); err != nil {
		return notSupported("such a condition in ADMIN SHOW DDL JOBS")
	}
	return notSupported(text.String() + " in ADMIN SHOW DDL JOBS")
}

func not(negate bool, e gms.Expression) gms.Expression {
	if negate {
		return expression.NewNot(e)
	}
	return e
}

func (b *exprBuilder) negated(negate bool, arg ast.ExprNode, f func(gms.Expression) gms.Expression) (gms.Expression, error) {
	x, err := b.build(arg)
	if err != nil {
		return nil, err
	}
	return not(negate, f(x)), nil
}

func (b *exprBuilder) buildAll(nodes ...ast.ExprNode) ([]gms.Expression, error) {
	out := make([]gms.Expression, 0, len(nodes))
	for _, n := range nodes {
		e, err := b.build(n)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func literal(e *driver.ValueExpr) (gms.Expression, error) {
	switch v := e.GetValue().(type) {
	case nil:
		return expression.NewLiteral(nil, types.Null), nil
	case int64:
		return expression.NewLiteral(v, types.Int64), nil
	case uint64:
		return expression.NewLiteral(v, types.Uint64), nil
	case float64:
		return expression.NewLiteral(v, types.Float64), nil
	case string:
		return expression.NewLiteral(v, types.LongText), nil
	case fmt.Stringer: // a decimal
		return expression.NewConvert(expression.NewLiteral(v.String(), types.LongText), expression.ConvertToDouble), nil
	}
	return nil, unsupportedCondition(e)
}

func column(name *ast.ColumnName) (gms.Expression, error) {
	for i, c := range JobColumns {
		if strings.EqualFold(c.Name, name.Name.O) {
			return expression.NewGetField(i, c.Type, c.Name, c.Nullable), nil
		}
	}
	return nil, unknownColumn(name.Name.O)
}

func (b *exprBuilder) binary(e *ast.BinaryOperationExpr) (gms.Expression, error) {
	args, err := b.buildAll(e.L, e.R)
	if err != nil {
		return nil, err
	}
	l, r := args[0], args[1]
	switch e.Op {
	case opcode.LogicAnd:
		return expression.NewAnd(l, r), nil
	case opcode.LogicOr:
		return expression.NewOr(l, r), nil
	case opcode.LogicXor:
		return expression.NewXor(l, r), nil
	case opcode.EQ:
		return expression.NewEquals(l, r), nil
	case opcode.NE:
		return expression.NewNot(expression.NewEquals(l, r)), nil
	case opcode.NullEQ:
		return expression.NewNullSafeEquals(l, r), nil
	case opcode.LT:
		return expression.NewLessThan(l, r), nil
	case opcode.LE:
		return expression.NewLessThanOrEqual(l, r), nil
	case opcode.GT:
		return expression.NewGreaterThan(l, r), nil
	case opcode.GE:
		return expression.NewGreaterThanOrEqual(l, r), nil
	case opcode.Plus:
		return expression.NewPlus(l, r), nil
	case opcode.Minus:
		return expression.NewMinus(l, r), nil
	}
	return nil, unsupportedCondition(e)
}

func (b *exprBuilder) unary(e *ast.UnaryOperationExpr) (gms.Expression, error) {
	x, err := b.build(e.V)
	if err != nil {
		return nil, err
	}
	switch e.Op {
	case opcode.Not, opcode.Not2:
		return expression.NewNot(x), nil
	case opcode.Minus:
		return expression.NewUnaryMinus(x), nil
	case opcode.Plus:
		return x, nil
	}
	return nil, unsupportedCondition(e)
}

func (b *exprBuilder) in(e *ast.PatternInExpr) (gms.Expression, error) {
	if e.Sel != nil {
		return nil, unsupportedCondition(e.Sel)
	}
	x, err := b.build(e.Expr)
	if err != nil {
		return nil, err
	}
	list, err := b.buildAll(e.List...)
	if err != nil {
		return nil, err
	}
	return not(e.Not, expression.NewInTuple(x, expression.NewTuple(list...))), nil
}

func (b *exprBuilder) like(e *ast.PatternLikeOrIlikeExpr) (gms.Expression, error) {
	args, err := b.buildAll(e.Expr, e.Pattern)
	if err != nil {
		return nil, err
	}
	var escape gms.Expression
	if e.Escape != '\\' {
		escape = expression.NewLiteral(string(rune(e.Escape)), types.LongText)
	}
	return not(e.Not, expression.NewLike(args[0], args[1], escape)), nil
}

// call translates a call of any function that the engine has.
func (b *exprBuilder) call(e *ast.FuncCallExpr) (gms.Expression, error) {
	fn, ok := b.catalog.Function(b.ctx, "", e.FnName.L)
	if !ok {
		return nil, gms.ErrFunctionNotFound.New(e.FnName.O)
	}
	args, err := b.buildAll(e.Args...)
	if err != nil {
		return nil, err
	}
	return fn.NewInstance(b.ctx, args)
}
