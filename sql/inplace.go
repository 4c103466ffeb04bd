package sql

import (
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
)

// A statement that gives a value of a unique index to a new row, and then takes it from the row that had it, as INSERT ... ON DUPLICATE
// KEY UPDATE and REPLACE of several rows may, does not delete the entry of that row if its transaction is optimistic: TiDB takes the
// tombstone, which replaces the new row's entry in the transaction's memory, for one of what the transaction itself has inserted
// (initKeysAndMutations in client-go's txnkv/transaction/2pc.go). While the index is built, and the entry is not imported yet, no check
// refuses that. Then the import brings an entry of a row that has another value, and until it is repaired another such statement
// would update that row. TiDB does delete the entry if it has looked for one when it has inserted the row, instead of leaving that to
// the commit; what it looks for it has read before, so that costs nothing.

// checkInPlace has TiDB look for the entries when rows are inserted, until end is called, also against hints of the statement and of its
// binding. In the mode tidb_dml_type = 'bulk' TiDB warns that it executes the statement as an ordinary transaction.
func (s *clientSession) checkInPlace(upserts []*ast.InsertStmt) (end func()) {
	vars := s.GetSessionVars()
	before := vars.ConstraintCheckInPlace
	vars.ConstraintCheckInPlace = true
	end = func() { vars.ConstraintCheckInPlace = before }
	for _, upsert := range upserts {
		end = both(end, s.withoutHintsOn(upsert, variable.TiDBConstraintCheckInPlace))
	}
	return end
}

// checksInPlace returns the statements of stmt for which TiDB is to look for them: those that insert rows while a unique index is
// built. Longer transactions are left alone: that their duplicates are refused when they are committed is worth more.
func (s *clientSession) checksInPlace(stmt ast.StmtNode) (upserts []*ast.InsertStmt) {
	vars := s.GetSessionVars()
	if vars.InTxn() {
		return nil
	}
	s.executes(stmt, func(inner ast.StmtNode) {
		insert, ok := inner.(*ast.InsertStmt)
		if !ok || !insert.IsReplace && len(insert.OnDuplicate) == 0 || !s.buildsUnique(insert.Table) {
			return
		}
		if vars.IsAutocommit() || s.hintsOn(insert, variable.AutoCommit) {
			upserts = append(upserts, insert)
		}
	})
	return upserts
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
