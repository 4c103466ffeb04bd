package sql

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"fastddl/internal/asttree"
)

// executes calls fn for each statement that executing stmt may execute: itself, and what stands in EXPLAIN, TRACE, BATCH, PLAN
// REPLAYER or a prepared statement. Those that change rows are not looked into.
func (s *clientSession) executes(stmt ast.StmtNode, fn func(ast.StmtNode)) {
	asttree.Walk(stmt, func(n ast.Node) bool {
		inner, ok := n.(ast.StmtNode)
		if !ok {
			return true
		}
		fn(inner)
		switch inner := inner.(type) {
		case *ast.InsertStmt, *ast.UpdateStmt, *ast.DeleteStmt, *ast.SelectStmt, *ast.SetOprStmt, *ast.ImportIntoStmt, *ast.LoadDataStmt, *ast.SetStmt:
			return false // they execute no other statement
		case *ast.ExecuteStmt:
			if p := s.prepared(inner); p != nil {
				s.executes(p.PreparedAst.Stmt, fn)
			}
		}
		return true
	})
}

// writes says that a statement may change rows of tables.
func (s *clientSession) writes(stmt ast.StmtNode) (found bool) {
	s.executes(stmt, func(inner ast.StmtNode) {
		switch inner.(type) {
		case *ast.InsertStmt, *ast.UpdateStmt, *ast.DeleteStmt:
			found = true
		}
	})
	return found
}
