package sql

import (
	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/rowexec"
)

// execBuilder executes the plan nodes that we do otherwise than go-mysql-server.
type execBuilder struct {
	files serverFiles
	// base executes all other nodes; it asks this builder first.
	base *rowexec.BaseBuilder
}

var _ gms.NodeExecBuilder = (*execBuilder)(nil)

// Build implements sql.NodeExecBuilder. It returns nil for nodes that are
// go-mysql-server's.
func (b *execBuilder) Build(ctx *gms.Context, node gms.Node, row gms.Row) (gms.RowIter, error) {
	if err := b.files.check(ctx, node); err != nil {
		return nil, err
	}
	switch n := node.(type) {
	case *plan.Update:
		exact, err := withExactComparison(ctx, n)
		if err != nil || exact == nil {
			return nil, err
		}
		return b.base.Build(ctx, exact, row)
	case *plan.InsertInto:
		filled, err := withUpsertDefaults(n)
		if err != nil || filled == nil {
			return nil, err
		}
		return b.base.Build(ctx, filled, row)
	case *plan.ShowCreateTable:
		return showCreateTable(ctx, n)
	case *plan.DescribeQuery:
		if n.Format.Plan || n.Format.Analyze {
			return nil, nil
		}
		rows, err := explain(ctx, n.Child)
		if err != nil {
			return nil, err
		}
		return gms.RowsToRowIter(rows...), nil
	}
	return nil, nil
}

func showCreateTable(ctx *gms.Context, n *plan.ShowCreateTable) (gms.RowIter, error) {
	rt, ok := n.Child.(*plan.ResolvedTable)
	if n.IsView || !ok {
		return nil, nil
	}
	t, ok := rt.UnderlyingTable().(*Table)
	if !ok {
		return nil, nil
	}
	text, err := t.showCreate(ctx)
	if err != nil {
		return nil, err
	}
	return gms.RowsToRowIter(gms.Row{t.Name(), text}), nil
}
