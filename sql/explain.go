package sql

import (
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"fastddl/sql/sqlerr"
	"fastddl/sql/sqltype"
)

// explainMaxRows is up to how many entries EXPLAIN counts in the ranges of an
// index.
const explainMaxRows = 10_000

// explainer makes the rows of a plain EXPLAIN: one for each table that the plan
// reads, in the order in which it reads them. go-mysql-server itself knows only
// the tree form.
type explainer struct {
	ctx        *gms.Context
	selectType string
	rows       []gms.Row
	err        error
}

// above is what the nodes above a table do with its rows.
type above struct {
	where, sort, group bool
	alias              string
}

func explain(ctx *gms.Context, root gms.Node) ([]gms.Row, error) {
	x := &explainer{ctx: ctx, selectType: "SIMPLE"}
	x.visit(root, above{})
	if len(x.rows) == 0 && x.err == nil {
		x.add(nil, nil, nil, nil, nil, "No tables used")
	}
	return x.rows, x.err
}

func (x *explainer) visit(node gms.Node, a above) {
	switch n := node.(type) {
	case *plan.Update:
		x.selectType = "UPDATE"
	case *plan.DeleteFrom:
		x.selectType = "DELETE"
	case *plan.InsertInto:
		x.selectType = "INSERT"
		x.visit(n.Destination, above{})
		x.selectType = "SIMPLE"
		x.visit(n.Source, above{})
		return
	case *plan.Filter:
		a.where = true
	case *plan.Sort, *plan.TopN:
		a.sort = true
	case *plan.GroupBy:
		a.group = len(n.GroupByExprs) > 0
	case *plan.TableAlias:
		a.alias = n.Name()
	case *plan.JoinNode:
		// Only the first table's rows are those that the nodes above see.
		x.visit(n.Left(), a)
		x.visit(n.Right(), above{})
		return
	case *plan.IndexedTableAccess:
		x.indexed(n, a)
		return
	case *plan.ResolvedTable:
		x.scan(n, a)
		return
	}
	x.subqueries(node)
	for _, child := range node.Children() {
		x.visit(child, a)
	}
}

// subqueries visits the plans inside a node's expressions.
func (x *explainer) subqueries(node gms.Node) {
	ne, ok := node.(gms.Expressioner)
	if !ok {
		return
	}
	for _, e := range ne.Expressions() {
		transform.InspectExpr(x.ctx, e, func(_ *gms.Context, e gms.Expression) bool {
			if sq, ok := e.(*plan.Subquery); ok {
				x.visit(sq.Query, above{})
			}
			return false
		})
	}
}

func (x *explainer) scan(n *plan.ResolvedTable, a above) {
	if n.Name() == "" {
		// A SELECT without FROM.
		return
	}
	t, ok := ownTable(n.UnderlyingTable())
	if !ok {
		x.add(name(n.Name(), a), "ALL", nil, nil, nil, a.extra(false))
		return
	}
	if x.selectType == "INSERT" {
		x.add(name(t.Name(), a), "ALL", nil, nil, nil, "")
		return
	}
	rows, _, err := t.RowCount(x.ctx)
	x.fail(err)
	x.add(name(t.Name(), a), "ALL", nil, nil, rows, a.extra(false))
}

func (x *explainer) indexed(n *plan.IndexedTableAccess, a above) {
	t, ok := ownTable(n.UnderlyingTable())
	idx, known := n.Index().(*index)
	if !ok || !known {
		x.add(name(n.Name(), a), "ref", n.Index().ID(), n.Index().ID(), nil, a.extra(false))
		return
	}
	covered := !idx.clustered && !t.wantsRowID() && t.def.table.Reader(nil, t.readColumns(), nil).Covers(idx.info)
	access, rows := x.access(n, idx)
	x.add(name(t.Name(), a), access, idx.ID(), idx.ID(), rows, a.extra(covered))
}

// access names how an index is used and counts the entries it yields.
func (x *explainer) access(n *plan.IndexedTableAccess, idx *index) (string, any) {
	if !n.IsStatic() {
		if n.IsStrictLookup(x.ctx) {
			return "eq_ref", uint64(1)
		}
		return "ref", nil
	}
	lookup := plan.GetIndexLookup(n)
	part, err := idx.lookup(x.ctx, lookup)
	if err != nil || part == nil {
		x.fail(err)
		return "range", uint64(0)
	}
	if part.point != nil {
		return "const", uint64(1)
	}
	rows, err := x.count(part)
	x.fail(err)
	kind := "range"
	ranges, ok := lookup.Ranges.(gms.MySQLRangeCollection)
	if ok && len(ranges) == 1 && len(ranges[0]) > 0 {
		conv := boundConverter{ctx: x.ctx, loc: sqltype.Location(x.ctx)}
		first := conv.column(idx.codecs[0], ranges[0][0])
		switch {
		case first.equal:
			kind = "ref"
		case !first.hasLo && !first.hasHi:
			kind = "index"
		}
	}
	return kind, rows
}

// count counts the keys in a partition's ranges, up to a limit.
func (x *explainer) count(part *partition) (uint64, error) {
	s, err := sessionOf(x.ctx)
	if err != nil {
		return 0, err
	}
	tx, err := s.begun(x.ctx)
	if err != nil {
		return 0, err
	}
	var n uint64
	for _, r := range part.ranges {
		it, err := tx.txn.Iter(r)
		if err != nil {
			return 0, err
		}
		for ; it.Valid() && n < explainMaxRows && err == nil; n++ {
			err = it.Next()
		}
		if err := firstError(err, it.Close()); err != nil {
			return 0, err
		}
	}
	return n, nil
}

func name(table string, a above) string {
	if a.alias != "" {
		return a.alias
	}
	return table
}

func (a above) extra(covered bool) string {
	var parts []string
	if a.where {
		parts = append(parts, "Using where")
	}
	if covered {
		parts = append(parts, "Using index")
	}
	if a.group {
		parts = append(parts, "Using temporary")
	}
	if a.sort {
		parts = append(parts, "Using filesort")
	}
	return strings.Join(parts, "; ")
}

func (x *explainer) add(table, access, possible, key, rows any, extra string) {
	var filtered any
	if rows != nil {
		filtered = float64(100)
	}
	x.rows = append(x.rows, gms.Row{
		uint64(1), x.selectType, table, nil, access, possible, key, nil, nil, rows, filtered, extra,
	})
}

func (x *explainer) fail(err error) {
	if err != nil && x.err == nil {
		x.err = sqlerr.Translate(err)
	}
}
