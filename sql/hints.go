package sql

import (
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/bindinfo"
	"github.com/pingcap/tidb/pkg/parser/ast"
)

// A guard that reads a variable before a statement is executed must know that a hint SET_VAR, of the statement or of the binding that
// TiDB finds for it, does not give it another value meanwhile: TiDB applies them when it makes the plan (Optimize in
// pkg/planner/optimize.go). SET_VAR is an error nowhere and takes any variable.

// hintsOn says that hints of a statement, or of its binding, set a variable.
func (s *clientSession) hintsOn(stmt *ast.InsertStmt, name string) bool {
	return slices.ContainsFunc(stmtHints(stmt), func(h *[]*ast.TableOptimizerHint) bool { return slices.ContainsFunc(*h, setting(name)) }) ||
		s.bindingSets(stmt, name)
}

// withoutHintsOn takes the hints that set a variable off a statement, and its binding if that has one, until end is called.
func (s *clientSession) withoutHintsOn(stmt *ast.InsertStmt, name string) (end func()) {
	end = func() {}
	if s.bindingSets(stmt, name) {
		vars := s.GetSessionVars()
		vars.UsePlanBaselines = false
		end = func() { vars.UsePlanBaselines = true }
	}
	for _, hints := range stmtHints(stmt) {
		before := *hints
		if slices.ContainsFunc(before, setting(name)) {
			*hints = slices.DeleteFunc(slices.Clone(before), setting(name))
			end = both(end, func() { *hints = before })
		}
	}
	return end
}

// bindingSets says that the binding that TiDB finds for a statement sets a variable.
func (s *clientSession) bindingSets(stmt ast.StmtNode, name string) bool {
	binding, found, _ := bindinfo.MatchSQLBinding(s.Session, stmt)
	return found && binding.Hint != nil && slices.ContainsFunc(binding.Hint.GetStmtHints(), setting(name))
}

// setting says that a hint sets a variable.
func setting(name string) func(*ast.TableOptimizerHint) bool {
	return func(h *ast.TableOptimizerHint) bool {
		set, ok := h.HintData.(ast.HintSetVar)
		return ok && strings.EqualFold(set.VarName, name)
	}
}

// stmtHints are the places of a statement where hints may set variables: its own, and those of each SELECT that it inserts.
func stmtHints(stmt *ast.InsertStmt) []*[]*ast.TableOptimizerHint {
	places := []*[]*ast.TableOptimizerHint{&stmt.TableHints}
	var add func(ast.Node)
	add = func(n ast.Node) {
		switch x := n.(type) {
		case *ast.SelectStmt:
			places = append(places, &x.TableHints)
		case *ast.SetOprStmt:
			if x.SelectList != nil {
				add(x.SelectList)
			}
		case *ast.SetOprSelectList:
			for _, selected := range x.Selects {
				add(selected)
			}
		}
	}
	add(stmt.Select)
	return places
}
