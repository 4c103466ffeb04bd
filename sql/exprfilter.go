package sql

import (
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	gmstypes "github.com/dolthub/go-mysql-server/sql/types"
)

// indexedExprMarker wraps, in the conditions that indexes are looked for, the
// expressions that an index may be on: those compared with values of a kind that
// an index finds as a comparison does. Where a comparison converts the expression,
// as lower(c) = 5 makes a number of each text, the order of the index is another
// one, and the condition is left to a scan; so are all negations.
type indexedExprMarker struct{}

var _ gms.ExpressionTreeFilter = indexedExprMarker{}

// Next implements sql.ExpressionTreeFilter.
func (m indexedExprMarker) Next(e gms.Expression) gms.Expression {
	switch e := e.(type) {
	case *expression.Equals:
		if l, r, ok := wrapOperands(e); ok {
			return expression.NewEquals(l, r)
		}
	case *expression.NullSafeEquals:
		if l, r, ok := wrapNullSafe(e); ok {
			return expression.NewNullSafeEquals(l, r)
		}
	case *expression.LessThan:
		if l, r, ok := wrapOperands(e); ok {
			return expression.NewLessThan(l, r)
		}
	case *expression.LessThanOrEqual:
		if l, r, ok := wrapOperands(e); ok {
			return expression.NewLessThanOrEqual(l, r)
		}
	case *expression.GreaterThan:
		if l, r, ok := wrapOperands(e); ok {
			return expression.NewGreaterThan(l, r)
		}
	case *expression.GreaterThanOrEqual:
		if l, r, ok := wrapOperands(e); ok {
			return expression.NewGreaterThanOrEqual(l, r)
		}
	case *expression.InTuple:
		if left, ok := wrapElement(e.Left(), e.Right()); ok {
			return expression.NewInTuple(left, e.Right())
		}
	case *expression.HashInTuple:
		if left, ok := wrapElement(e.Left(), e.Right()); ok {
			return expression.NewInTuple(left, e.Right())
		}
	case *expression.Between:
		if val, ok := wrapOperand(e.Val, e.Lower, e.Upper); ok {
			return expression.NewBetween(val, e.Lower, e.Upper)
		}
	case *expression.IsNull:
		if child, ok := wrapOperand(e.Child); ok {
			return expression.NewIsNull(child)
		}
	case *expression.Not:
		if _, ok := e.Child.(*expression.IsNull); ok {
			return expression.NewNot(m.Next(e.Child))
		}
	}
	return e
}

func wrapOperands(e expression.Comparer) (left, right gms.Expression, wrapped bool) {
	left, right = e.Left(), e.Right()
	if l, ok := wrapOperand(left, right); ok {
		return l, right, true
	}
	if r, ok := wrapOperand(right, left); ok {
		return left, r, true
	}
	return left, right, false
}

// wrapNullSafe is wrapOperands for <=>, which finds NULL, too.
func wrapNullSafe(e expression.Comparer) (left, right gms.Expression, wrapped bool) {
	if isNull(e.Right()) {
		left, wrapped = wrapOperand(e.Left())
		return left, e.Right(), wrapped
	}
	if isNull(e.Left()) {
		right, wrapped = wrapOperand(e.Right())
		return e.Left(), right, wrapped
	}
	return wrapOperands(e)
}

func isNull(e gms.Expression) bool {
	lit, ok := e.(*expression.Literal)
	return ok && lit.Value() == nil
}

func wrapElement(left, right gms.Expression) (gms.Expression, bool) {
	values, ok := right.(expression.Tuple)
	if !ok || !sameKind(values) {
		return left, false
	}
	return wrapOperand(left, values...)
}

// sameKind says that values are all numbers of one kind, or none is a number:
// go-mysql-server converts numbers of several kinds to one, and not always well.
func sameKind(values expression.Tuple) bool {
	ctx := gms.NewEmptyContext()
	kind := func(v gms.Expression) int {
		switch typ := v.Type(ctx); {
		case gmstypes.IsInteger(typ):
			return 1
		case gmstypes.IsDecimal(typ):
			return 2
		case gmstypes.IsFloat(typ):
			return 3
		}
		return 0
	}
	for _, v := range values {
		if kind(v) != kind(values[0]) {
			return false
		}
	}
	return true
}

// wrapOperand returns false for what needs no wrapper, as columns, and for
// expressions that cannot be looked for among the given values.
func wrapOperand(e gms.Expression, values ...gms.Expression) (gms.Expression, bool) {
	switch e.(type) {
	case *expression.GetField, *expression.Literal, expression.Tuple:
		return e, false
	}
	x := wrapIndexed(e)
	if x == nil {
		return e, false
	}
	ctx := gms.NewEmptyContext()
	typ := e.Type(ctx)
	for _, v := range values {
		if !findable(ctx, typ, v) {
			return e, false
		}
	}
	return x, true
}

// findable says that a comparison of expressions of a type with a value is by the
// order of that type.
func findable(ctx *gms.Context, typ gms.Type, value gms.Expression) bool {
	v := value.Type(ctx)
	lit, isLiteral := value.(*expression.Literal)
	isText := isLiteral && gmstypes.IsTextOnly(v)
	switch {
	case v == gmstypes.Null:
		return false
	case gmstypes.IsInteger(typ), gmstypes.IsYear(typ), gmstypes.IsBit(typ):
		return gmstypes.IsInteger(v)
	case gmstypes.IsDecimal(typ):
		return gmstypes.IsInteger(v) || gmstypes.IsDecimal(v)
	case gmstypes.IsFloat(typ):
		return gmstypes.IsInteger(v) || gmstypes.IsDecimal(v) || gmstypes.IsFloat(v)
	case gmstypes.IsTextOnly(typ):
		// A literal has no collation that prevails over that of an expression.
		return isText
	case gmstypes.IsTime(typ):
		return gmstypes.IsTime(v) || isText && converts(ctx, typ, lit)
	case gmstypes.IsTimespan(typ):
		return gmstypes.IsTimespan(v) || isText && isTimeOfDay(lit) && converts(ctx, typ, lit)
	}
	return false
}

// isTimeOfDay says that a text has hours, minutes and seconds. Of others, such as
// '5.0' and the empty one, IN makes other times than = does.
func isTimeOfDay(lit *expression.Literal) bool {
	text, ok := lit.Value().(string)
	return ok && strings.Count(text, ":") == 2
}

func converts(ctx *gms.Context, typ gms.Type, lit *expression.Literal) bool {
	_, inRange, err := typ.Convert(ctx, lit.Value())
	return err == nil && inRange == gms.InRange
}
