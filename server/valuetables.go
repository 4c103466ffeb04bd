package server

import (
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/privilege"
)

// valueTables are the tables in schema mysql in which index builds and imports keep values of rows of any table, or secrets of URLs. mysql.fastddl_ddl_errors shows
// them to users who may SELECT from the table that they come from.
var valueTables = map[string]bool{
	"fastddl_ddl_error_rows": true, "fastddl_ddl_duplicates": true, "fastddl_build_parts": true,
	"fastddl_ddl_record": true, "fastddl_ddl_record_history": true,
	"fastddl_import_job": true, "fastddl_import_errors": true,
}

// checkValueTable refuses a table of a statement that is one of them, unless its user may SELECT from all tables.
func (s *guardedSession) checkValueTable(t *ast.TableName) error {
	if !valueTables[t.Name.L] || s.schemaOf(t) != mysql.SystemDB {
		return nil
	}
	manager := privilege.GetPrivilegeManager(s.Session)
	if manager == nil || manager.RequestVerification(s.GetSessionVars().ActiveRoles, "", "", "", mysql.SelectPriv) {
		return nil
	}
	return s.denied("SELECT", t)
}
