package sql

import (
	"fmt"
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// go-mysql-server uses an index on an expression for a filter on one that it
// finds equal, but it finds some equal that are not, CASTs to different types for
// example. So both sides are wrapped: a wrapper equals nothing but a wrapper, and
// only one with the same key.

// indexedExpr stands for an expression that an index may be on.
type indexedExpr struct {
	// key is the same for expressions that differ in nothing but the tables of
	// their columns; empty if it is not known yet.
	key string
	// fields are the columns in inner, in the order in which they occur.
	fields []gms.Expression
	inner  gms.Expression
	// ofIndex says that this is a hidden column's. It evaluates to NULL then:
	// package table computes what indexes hold.
	ofIndex bool
}

var (
	_ gms.Expression         = (*indexedExpr)(nil)
	_ gms.CollationCoercible = (*indexedExpr)(nil)
)

// newIndexExpr wraps the expression of an index.
func newIndexExpr(ctx *gms.Context, expr gms.Expression) (*indexedExpr, error) {
	x := wrapIndexed(expr)
	if x == nil {
		return nil, fmt.Errorf("indexed expression %s has no columns", expr)
	}
	x.key, x.ofIndex = exprKey(expr, x.fields), true
	return x, nil
}

// wrapIndexed wraps an operand of a comparison; it returns nil for one that is
// no expression over columns.
func wrapIndexed(expr gms.Expression) *indexedExpr {
	x := &indexedExpr{inner: expr}
	var visit func(e gms.Expression) bool
	visit = func(e gms.Expression) bool {
		switch e.(type) {
		case *expression.GetField:
			x.fields = append(x.fields, e)
		case *plan.Subquery, *indexedExpr:
			return false
		}
		for _, child := range e.Children() {
			if !visit(child) {
				return false
			}
		}
		return true
	}
	if !visit(expr) || len(x.fields) == 0 {
		return nil
	}
	return x
}

// exprKey is made of the types of all nodes, the leaves, and the text, in which
// columns stand without their tables.
func exprKey(expr gms.Expression, fields []gms.Expression) string {
	var key strings.Builder
	var visit func(e gms.Expression)
	visit = func(e gms.Expression) {
		children := e.Children()
		if f, ok := e.(*expression.GetField); ok {
			key.WriteString(strings.ToLower(f.Name()) + ";")
			return
		}
		if len(children) == 0 {
			key.WriteString(e.String() + ";")
			return
		}
		fmt.Fprintf(&key, "%T(", e)
		for _, child := range children {
			visit(child)
		}
		key.WriteByte(')')
	}
	visit(expr)
	text := expr.String()
	for _, f := range fields {
		text = strings.ReplaceAll(text, f.String(), strings.ToLower(f.(*expression.GetField).Name()))
	}
	return key.String() + text
}

// Operator is what go-mysql-server asks an expression for, besides its type, to
// compare it.
func (x *indexedExpr) Operator() string {
	if x.key == "" {
		return exprKey(x.inner, x.fields)
	}
	return x.key
}

// Children implements sql.Expression. Only columns are children.
func (x *indexedExpr) Children() []gms.Expression { return x.fields }

// WithChildren implements sql.Expression.
func (x *indexedExpr) WithChildren(ctx *gms.Context, children ...gms.Expression) (gms.Expression, error) {
	if len(children) != len(x.fields) {
		return nil, gms.ErrInvalidChildrenNumber.New(x, len(children), len(x.fields))
	}
	out := &indexedExpr{key: x.key, fields: children, inner: x.inner, ofIndex: x.ofIndex}
	if x.ofIndex {
		return out, nil
	}
	next := 0
	var err error
	out.inner, _, err = transform.Expr(ctx, x.inner, func(_ *gms.Context, e gms.Expression) (gms.Expression, transform.TreeIdentity, error) {
		if _, ok := e.(*expression.GetField); !ok {
			return e, transform.SameTree, nil
		}
		next++
		return children[next-1], transform.NewTree, nil
	})
	return out, err
}

// Resolved implements sql.Expression.
func (x *indexedExpr) Resolved() bool { return x.inner.Resolved() }

// String implements fmt.Stringer.
func (x *indexedExpr) String() string { return x.inner.String() }

// Type implements sql.Expression.
func (x *indexedExpr) Type(ctx *gms.Context) gms.Type { return x.inner.Type(ctx) }

// IsNullable implements sql.Expression.
func (x *indexedExpr) IsNullable(ctx *gms.Context) bool { return x.ofIndex || x.inner.IsNullable(ctx) }

// Eval implements sql.Expression.
func (x *indexedExpr) Eval(ctx *gms.Context, row gms.Row) (any, error) {
	if x.ofIndex {
		return nil, nil
	}
	return x.inner.Eval(ctx, row)
}

// CollationCoercibility implements sql.CollationCoercible.
func (x *indexedExpr) CollationCoercibility(ctx *gms.Context) (gms.CollationID, byte) {
	return gms.GetCoercibility(ctx, x.inner)
}
