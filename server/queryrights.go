package server

import (
	"context"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessiontxn"
)

// checkQueries refuses a statement with queries inside of it over tables that the session's user may not read. TiDB evaluates such
// queries while it plans (handleScalarSubquery in pkg/planner/core/expression_rewriter.go) and asks for the rights when the plan is
// there, so that an error shows the values; of INSERT ... VALUES, and of some joins, it forgets to ask.
func (s *guardedSession) checkQueries(stmt ast.Node) error {
	v := queriedTables{}
	stmt.Accept(&v)
	for _, t := range v.tables {
		if !s.mayRead(t) {
			return s.denied("SELECT", t)
		}
	}
	return nil
}

// mayRead reports whether the session's user may read a table: a local temporary table needs no right.
func (s *guardedSession) mayRead(t *ast.TableName) bool {
	db := s.schemaOf(t)
	if db == "" || s.hasRight(right{table: t, privilege: mysql.SelectPriv}) {
		return true
	}
	found, err := sessiontxn.GetTxnManager(s.Session).GetTxnInfoSchema().TableByName(context.Background(), pmodel.NewCIStr(db), t.Name)
	return err == nil && found.Meta().TempTableType == model.TempTableLocal
}

// readsInside reports whether a node reads tables that checkQueries has to look at.
func readsInside(n ast.Node) bool {
	switch x := n.(type) {
	case *ast.SubqueryExpr:
		return true
	case *ast.DeleteStmt:
		return deletesByJoin(x)
	}
	return false
}

// deletesByJoin reports whether a DELETE reads several tables. Without WHERE TiDB drops the last right that it has collected, taking
// it for the one to read the only table (popVisitInfo in pkg/planner/core/logical_plan_builder.go), and the join shows what is in
// the last table.
func deletesByJoin(s *ast.DeleteStmt) bool {
	return s.IsMultiTable && s.TableRefs != nil && s.TableRefs.TableRefs != nil && s.TableRefs.TableRefs.Right != nil
}

// queriedTables collects the tables that the queries inside of a statement read: those of WITH, and those of its expressions.
type queriedTables struct {
	tables []*ast.TableName
	// depth is how many nodes that read the node is inside of.
	depth int
	// named are the queries that WITH has named and that can be seen from the node, by the nodes that have the WITH.
	named []namedQueries
}

type namedQueries struct {
	owner ast.Node
	names []string
}

// Enter implements ast.Visitor.
func (v *queriedTables) Enter(n ast.Node) (ast.Node, bool) {
	if readsInside(n) {
		v.depth++
	}
	switch x := n.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt, *ast.SetOprSelectList, *ast.UpdateStmt, *ast.DeleteStmt:
		v.named = append(v.named, namedQueries{owner: n})
	case *ast.CommonTableExpression:
		if x.IsRecursive {
			v.name(x.Name.L)
		}
	case *ast.TableSource:
		if t, ok := x.Source.(*ast.TableName); ok && v.depth > 0 && !v.isNamed(t) {
			v.tables = append(v.tables, t)
		}
	}
	return n, false
}

// Leave implements ast.Visitor.
func (v *queriedTables) Leave(n ast.Node) (ast.Node, bool) {
	if readsInside(n) {
		v.depth--
	}
	switch x := n.(type) {
	case *ast.CommonTableExpression: // what is not recursive does not see itself
		v.name(x.Name.L)
	case *ast.SelectStmt, *ast.SetOprStmt, *ast.SetOprSelectList, *ast.UpdateStmt, *ast.DeleteStmt:
		v.named = v.named[:len(v.named)-1]
	}
	return n, true
}

// name makes a query of the innermost WITH known.
func (v *queriedTables) name(name string) {
	if len(v.named) > 0 {
		inner := &v.named[len(v.named)-1]
		inner.names = append(inner.names, name)
	}
}

// isNamed reports whether a table is a query that WITH has named.
func (v *queriedTables) isNamed(t *ast.TableName) bool {
	if t.Schema.L != "" {
		return false
	}
	for _, scope := range v.named {
		for _, name := range scope.names {
			if name == t.Name.L {
				return true
			}
		}
	}
	return false
}
