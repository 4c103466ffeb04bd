package server

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/privilege"
	"github.com/pingcap/tidb/pkg/util"
	"github.com/pingcap/tidb/pkg/util/dbterror/plannererrors"
)

// right is a privilege that a statement needs: on a table, on a schema if there is no table, and on all schemas if there is none either.
type right struct {
	name      string // as MySQL's errors name it
	privilege mysql.PrivilegeType
	dynamic   string // a dynamic privilege, if it is one
	table     *ast.TableName
	schema    string
}

var (
	alterRight      = right{name: "ALTER", privilege: mysql.AlterPriv}
	createUserRight = right{name: "CREATE USER", privilege: mysql.CreateUserPriv}
	createRight     = right{name: "CREATE", privilege: mysql.CreatePriv}
	dropRight       = right{name: "DROP", privilege: mysql.DropPriv}
	insertRight     = right{name: "INSERT", privilege: mysql.InsertPriv}
	referencesRight = right{name: "REFERENCES", privilege: mysql.ReferencesPriv}
	selectRight     = right{name: "SELECT", privilege: mysql.SelectPriv}
	updateRight     = right{name: "UPDATE", privilege: mysql.UpdatePriv}
	superRight      = right{name: "SUPER", privilege: mysql.SuperPriv}
)

// onTables returns the rights on each of the tables.
func onTables(tables []*ast.TableName, rights ...right) (all []right) {
	for _, t := range tables {
		for _, r := range rights {
			r.table = t
			all = append(all, r)
		}
	}
	return all
}

// rightsOfMoves returns what a statement that renames tables, or exchanges one for a partition,
// needs by MySQL's manual, and the tables that take part. TiDB asks for the rights on the new
// table in the schema of the old one (pkg/planner/core/planbuilder.go, buildDDL), for none of the
// old one's on the table that is exchanged, and looks at the first pair of RENAME TABLE only:
// rights on one schema became rights on all.
func rightsOfMoves(n ast.Node) (rights []right, moved []*ast.TableName) {
	switch n.(type) { // every node of every statement is looked at
	case *ast.RenameTableStmt, *ast.AlterTableStmt:
	default:
		return nil, nil
	}
	take := func(t *ast.TableName) {
		rights = append(rights, onTables([]*ast.TableName{t}, alterRight, dropRight)...)
		moved = append(moved, t)
	}
	give := func(t *ast.TableName) {
		rights = append(rights, onTables([]*ast.TableName{t}, createRight, insertRight)...)
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
	return s.checkRights(rights)
}

// checkRights returns the error for the first of the rights that the session's user does not have.
func (s *guardedSession) checkRights(rights []right) error {
	for _, r := range rights {
		if s.hasRight(r) {
			continue
		}
		switch user := s.GetSessionVars().User; {
		case r.table != nil:
			return s.denied(r.name, r.table)
		case r.schema != "":
			return plannererrors.ErrDBaccessDenied.GenWithStackByArgs(user.AuthUsername, user.AuthHostname, r.schema)
		default:
			return plannererrors.ErrSpecificAccessDenied.GenWithStackByArgs(r.name)
		}
	}
	return nil
}

// hasRight reports whether the session's user has a right. A table without a schema has none to be asked for: it fails elsewhere.
func (s *guardedSession) hasRight(r right) bool {
	manager, roles := privilege.GetPrivilegeManager(s.Session), s.GetSessionVars().ActiveRoles
	switch {
	case manager == nil:
		return true
	case r.dynamic != "":
		return manager.RequestDynamicVerification(roles, r.dynamic, false)
	case r.table != nil:
		db := s.schemaOf(r.table)
		return db == "" || manager.RequestVerification(roles, db, r.table.Name.L, "", r.privilege)
	default:
		return manager.RequestVerification(roles, r.schema, "", "", r.privilege)
	}
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
