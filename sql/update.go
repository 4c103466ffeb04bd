package sql

import (
	"context"
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// updateSource is the source of an UPDATE's rows, and its table.
//
// go-mysql-server leaves a row alone whose new values are equal to the old ones,
// and asks the types of the table's schema whether they are. Under the collation
// of a column 'a' and 'A' can be equal; an UPDATE from one to the other must
// change the row all the same. So this table's schema has the same columns, with
// texts that are equal only if they are the same.
type updateSource struct {
	gms.UpdatableTable
	child gms.Node
}

var (
	_ gms.ExecBuilderNode = (*updateSource)(nil)
	_ gms.UpdatableTable  = (*updateSource)(nil)
)

// withExactComparison returns the UPDATE with an updateSource as its child, or
// nil if it has one or is not of a table of ours.
func withExactComparison(ctx *gms.Context, n *plan.Update) (gms.Node, error) {
	if _, done := n.Child.(*updateSource); done {
		return nil, nil
	}
	updatable, err := plan.GetUpdatable(n.Child)
	if err != nil {
		return nil, err
	}
	if _, ours := ownTable(updatable); !ours {
		return nil, nil
	}
	return n.WithChildren(ctx, &updateSource{updatable, n.Child})
}

// Schema implements sql.Node and sql.Table.
func (u *updateSource) Schema(ctx *gms.Context) gms.Schema {
	schema := u.UpdatableTable.Schema(ctx).Copy()
	for _, col := range schema {
		if types.IsTextOnly(col.Type) {
			col.Type = exactText{col.Type}
		}
	}
	return schema
}

// anyType can be embedded although gms.Type has a method of its own name.
type anyType = gms.Type

// exactText is a type of texts that are equal only if they are the same.
type exactText struct{ anyType }

// Compare implements sql.Type.
func (t exactText) Compare(ctx context.Context, a, b any) (int, error) {
	order, err := t.anyType.Compare(ctx, a, b)
	if order != 0 || err != nil || a == b {
		return order, err
	}
	x, isText := a.(string)
	y, isTextToo := b.(string)
	if isText && isTextToo {
		return strings.Compare(x, y), nil
	}
	return 1, nil
}

// Resolved implements sql.Node.
func (u *updateSource) Resolved() bool { return u.child.Resolved() }

// Children implements sql.Node.
func (u *updateSource) Children() []gms.Node { return []gms.Node{u.child} }

// WithChildren implements sql.Node.
func (u *updateSource) WithChildren(_ *gms.Context, children ...gms.Node) (gms.Node, error) {
	if len(children) != 1 {
		return nil, gms.ErrInvalidChildrenNumber.New(u, len(children), 1)
	}
	return &updateSource{u.UpdatableTable, children[0]}, nil
}

// IsReadOnly implements sql.Node.
func (u *updateSource) IsReadOnly() bool { return u.child.IsReadOnly() }

// BuildRowIter implements sql.ExecBuilderNode.
func (u *updateSource) BuildRowIter(ctx *gms.Context, b gms.NodeExecBuilder, row gms.Row) (gms.RowIter, error) {
	return b.Build(ctx, u.child, row)
}
