package sql

import (
	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
)

// execBuilder executes the plan nodes that we do otherwise than go-mysql-server.
type execBuilder struct{}

var _ gms.NodeExecBuilder = (*execBuilder)(nil)

// Build implements sql.NodeExecBuilder. It returns nil for nodes that are
// go-mysql-server's.
func (*execBuilder) Build(ctx *gms.Context, node gms.Node, _ gms.Row) (gms.RowIter, error) {
	switch n := node.(type) {
	case *plan.ShowCreateTable:
		if n.IsView {
			return nil, nil
		}
		rt, ok := n.Child.(*plan.ResolvedTable)
		if !ok {
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
	return nil, nil
}
