package server

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/privilege"
	"github.com/pingcap/tidb/pkg/util"
	"github.com/pingcap/tidb/pkg/util/dbterror/plannererrors"
)

// tableRight is a privilege that a statement needs on a table.
type tableRight struct {
	table     *ast.TableName
	name      string
	privilege mysql.PrivilegeType
}

// rightsOfMoves returns what a statement that renames tables, or exchanges one for a partition,
// needs by MySQL's manual, and the tables that take part. TiDB asks for the rights on the new
// table in the schema of the old one (pkg/planner/core/planbuilder.go, buildDDL), for none of the
// old one's on the table that is exchanged, and looks at the first pair of RENAME TABLE only:
// rights on one schema became rights on all.
func rightsOfMoves(n ast.Node) (rights []tableRight, moved []*ast.TableName) {
	switch n.(type) { // every node of every statement is looked at
	case *ast.RenameTableStmt, *ast.AlterTableStmt:
	default:
		return nil, nil
	}
	take := func(t *ast.TableName) {
		rights = append(rights, tableRight{t, "ALTER", mysql.AlterPriv}, tableRight{t, "DROP", mysql.DropPriv})
		moved = append(moved, t)
	}
	give := func(t *ast.TableName) {
		rights = append(rights, tableRight{t, "CREATE", mysql.CreatePriv}, tableRight{t, "INSERT", mysql.InsertPriv})
		moved = append(moved, t)
	}
	switch s := n.(type) {
	case *ast.RenameTableStmt:
		for _, pair := range s.TableToTables {
			take(pair.OldTable)
			give(pair.NewTable)
		}
	case *ast.AlterTableStmt:
		for _, spec := range s.Specs {
			switch spec.Tp {
			case ast.AlterTableRenameTable:
				take(s.Table)
				give(spec.NewTable)
			case ast.AlterTableExchangePartition:
				for _, t := range []*ast.TableName{s.Table, spec.NewTable} {
					take(t)
					give(t)
				}
			}
		}
	}
	return rights, moved
}

// checkMoves refuses to move system tables, and what the session's user may not move.
func (s *guardedSession) checkMoves(n ast.Node) error {
	rights, moved := rightsOfMoves(n)
	if len(moved) == 0 {
		return nil
	}
	for _, t := range moved {
		if util.IsMemOrSysDB(s.schemaOf(t)) {
			return s.denied("ALTER", t)
		}
	}
	vars := s.GetSessionVars()
	manager := privilege.GetPrivilegeManager(s.Session)
	for _, r := range rights {
		if db := s.schemaOf(r.table); db != "" && manager != nil && !manager.RequestVerification(vars.ActiveRoles, db, r.table.Name.L, "", r.privilege) {
			return s.denied(r.name, r.table)
		}
	}
	return nil
}

// schemaOf is the schema of a table that a statement names, in lower case; "" if the session has none.
func (s *guardedSession) schemaOf(t *ast.TableName) string {
	if t.Schema.L == "" {
		return strings.ToLower(s.GetSessionVars().CurrentDB)
	}
	return t.Schema.L
}

// denied is the error of a command that the session's user may not execute on a table.
func (s *guardedSession) denied(command string, t *ast.TableName) error {
	user := s.GetSessionVars().User
	return plannererrors.ErrTableaccessDenied.GenWithStackByArgs(command, user.AuthUsername, user.AuthHostname, t.Name.L)
}
