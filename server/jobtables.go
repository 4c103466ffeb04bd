package server

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/internal/asttree"
)

// jobTables are the tables in schema mysql by which servers agree on jobs. What they do not expect there ends builds, or lets two
// servers run one job, so that only servers write them; all of ours begin with ownTablePrefix.
var jobTables = map[string]bool{
	"tidb_ddl_job": true, "tidb_ddl_reorg": true, "tidb_ddl_history": true, "tidb_ddl_notifier": true,
	"tidb_mdl_info": true, "tidb_mdl_view": true,
	"tidb_global_task": true, "tidb_global_task_history": true, "dist_framework_meta": true,
	"tidb_background_subtask": true, "tidb_background_subtask_history": true,
	"tidb_import_jobs": true,
}

const ownTablePrefix = "fastddl_"

// checkJobTables refuses a statement that changes, locks or defines one of the tables by which servers agree on jobs.
func (s *guardedSession) checkJobTables(n ast.Node) error {
	command, tables := changedTables(n)
	for _, t := range tables {
		schema := s.schemaOf(t)
		if schema == mysql.SystemDB && (jobTables[t.Name.L] || strings.HasPrefix(t.Name.L, ownTablePrefix)) {
			return s.denied(command, t)
		}
	}
	return nil
}

// changedTables returns the tables that a node itself may change, lock or define, and its command as MySQL's errors name it. Which
// tables of a join an UPDATE or DELETE changes shows only when its columns are resolved: so all of them may be.
func changedTables(n ast.Node) (command string, tables []*ast.TableName) {
	switch s := n.(type) {
	case *ast.InsertStmt:
		return "INSERT", tablesIn(s.Table)
	case *ast.UpdateStmt:
		return "UPDATE", tablesIn(s.TableRefs)
	case *ast.DeleteStmt:
		return "DELETE", tablesIn(s.TableRefs)
	case *ast.LoadDataStmt:
		return "INSERT", []*ast.TableName{s.Table}
	case *ast.ImportIntoStmt:
		return "INSERT", []*ast.TableName{s.Table}
	case *ast.LockTablesStmt:
		for _, lock := range s.TableLocks {
			if lock.Type != model.TableLockRead && lock.Type != model.TableLockReadLocal { // which dumps take, and which have no effect by default
				tables = append(tables, lock.Table)
			}
		}
		return "LOCK TABLES", tables
	case *ast.AdminStmt:
		if s.Tp == ast.AdminRecoverIndex || s.Tp == ast.AdminCleanupIndex {
			return "ALTER", s.Tables
		}
	case *ast.SelectStmt:
		if s.LockInfo != nil && s.LockInfo.LockType != ast.SelectLockNone && s.From != nil {
			return "SELECT with locking clause", lockedTables(s)
		}
	case *ast.CreateTableStmt: // it may read the definition of another one, but not refer to its rows
		tables = []*ast.TableName{s.Table}
		for _, column := range s.Cols {
			tables = append(tables, tablesIn(column)...)
		}
		for _, constraint := range s.Constraints {
			tables = append(tables, tablesIn(constraint)...)
		}
		return "CREATE", tables
	case *ast.CreateViewStmt:
		return "CREATE VIEW", []*ast.TableName{s.ViewName}
	case *ast.DropTableStmt, *ast.TruncateTableStmt:
		return "DROP", tablesIn(s)
	case ast.DDLNode:
		return "ALTER", tablesIn(s)
	}
	return "", nil
}

// lockedTables returns the tables that SELECT ... FOR UPDATE or FOR SHARE locks: those that OF names, maybe by their aliases, or all.
func lockedTables(s *ast.SelectStmt) (tables []*ast.TableName) {
	if len(s.LockInfo.Tables) == 0 {
		return tablesIn(s.From)
	}
	aliases := make(map[string]*ast.TableName)
	asttree.Walk(s.From, func(n ast.Node) bool {
		if source, ok := n.(*ast.TableSource); ok {
			if table, ok := source.Source.(*ast.TableName); ok && source.AsName.L != "" {
				aliases[source.AsName.L] = table
			}
		}
		return true
	})
	for _, of := range s.LockInfo.Tables {
		if table := aliases[of.Name.L]; table != nil && of.Schema.L == "" {
			of = table
		}
		tables = append(tables, of)
	}
	return tables
}

// tablesIn returns the tables that a node names, but for those in its queries.
func tablesIn(n ast.Node) (tables []*ast.TableName) {
	asttree.Walk(n, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.TableName:
			tables = append(tables, x)
		case *ast.SubqueryExpr, *ast.SelectStmt, *ast.SetOprStmt:
			return false
		}
		return true
	})
	return tables
}
