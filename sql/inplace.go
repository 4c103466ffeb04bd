package sql

import (
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
)

// A statement that gives a value of a unique index to a new row, and then takes it from the row that had it, as INSERT ... ON DUPLICATE
// KEY UPDATE and REPLACE of several rows may, does not delete the entry of that row if its transaction is optimistic: TiDB takes the
// tombstone, which replaces the new row's entry in the transaction's memory, for one of what the transaction itself has inserted
// (initKeysAndMutations in client-go's txnkv/transaction/2pc.go). While the index is built, and the entry not imported yet, nobody
// refuses that. Then the import brings an entry of a row that has another value, and until it is repaired another such statement
// would update that row. TiDB does delete the entry if it has looked for one when it has inserted the row, instead of leaving that to
// the commit; what it looks for it has read before, so that costs nothing.

// checkInPlace has TiDB look for the entries when rows are inserted, until end is called.
func (s *clientSession) checkInPlace() (end func()) {
	vars := s.GetSessionVars()
	vars.ConstraintCheckInPlace = true
	return func() { vars.ConstraintCheckInPlace = false }
}

// checksInPlace says that it is to look for them: such a statement inserts rows while a unique index is built.
// Longer transactions are left alone: that their duplicates are refused when they are committed is worth more.
func (s *clientSession) checksInPlace(stmt ast.StmtNode) bool {
	vars := s.GetSessionVars()
	upsert := upsertOf(stmt)
	return upsert != nil && !vars.InTxn() && vars.IsAutocommit() && !vars.ConstraintCheckInPlace && !vars.BulkDMLEnabled &&
		s.buildsUnique(upsert.Table)
}

// upsertOf returns the statement of rows that may take values from others that a statement executes, nil if it executes none.
func upsertOf(stmt ast.StmtNode) *ast.InsertStmt {
	switch x := stmt.(type) {
	case *ast.InsertStmt:
		if x.IsReplace || len(x.OnDuplicate) > 0 {
			return x
		}
	case *ast.ExplainStmt:
		if x.Analyze {
			return upsertOf(x.Stmt)
		}
	case *ast.TraceStmt: // executes it when its rows are fetched
		return upsertOf(x.Stmt)
	}
	return nil
}

// buildsUnique says that a table has a unique index that is not public.
func (s *clientSession) buildsUnique(refs *ast.TableRefsClause) bool {
	source, ok := refs.TableRefs.Left.(*ast.TableSource)
	if !ok {
		return false
	}
	name, ok := source.Source.(*ast.TableName)
	if !ok {
		return false
	}
	table := s.tableNamed(s.layer.dom.InfoSchema(), name)
	return table != nil && slices.ContainsFunc(table.Indices, func(idx *model.IndexInfo) bool {
		return idx.Unique && idx.State != model.StatePublic
	})
}
