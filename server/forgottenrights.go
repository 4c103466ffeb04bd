package server

import (
	"cmp"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/privilege"

	"fastddl/internal/asttree"
)

// forgottenRights returns what a statement needs by MySQL's manual, or as TiDB asks for what is alike, and TiDB does not ask for:
// TestRightsOfEveryStatement has them all. Of a table that has the name of a local temporary one it asks for none at all
// (needCheckTmpTablePriv in pkg/planner/core/optimizer.go), also where the statement is about the other one.
func (s *guardedSession) forgottenRights(n ast.Node) (rights []right) {
	switch x := n.(type) {
	case *ast.AlterTableStmt:
		return forgottenOfAlter(x)
	case *ast.UpdateStmt:
		return s.forgottenOfUpdate(x)
	case *ast.CreateTableStmt:
		return referenced(x.Table, x.Constraints)
	case *ast.AlterUserStmt: // an account may change its own password, and no more
		more := len(x.AuthTokenOrTLSOptions)+len(x.ResourceOptions)+len(x.PasswordOrLockOptions) > 0 || x.CommentOrAttributeOption != nil || x.ResourceGroupNameOption != nil
		if more && !s.hasRight(right{schema: mysql.SystemDB, privilege: mysql.UpdatePriv}) {
			return []right{createUserRight}
		}
	case *ast.GrantStmt:
		if len(x.AuthTokenOrTLSOptions) > 0 || s.makesAccounts(x) {
			return []right{createUserRight}
		}
	case *ast.CreateViewStmt:
		rights := onTables([]*ast.TableName{x.ViewName}, right{name: "CREATE VIEW", privilege: mysql.CreateViewPriv})
		if x.OrReplace { // the view that is there goes
			rights = append(rights, onTables([]*ast.TableName{x.ViewName}, dropRight)...)
		}
		return rights
	case *ast.CreateSequenceStmt:
		return onTables([]*ast.TableName{x.Name}, createRight)
	case *ast.AlterSequenceStmt:
		return onTables([]*ast.TableName{x.Name}, alterRight)
	case *ast.RecoverTableStmt:
		if x.Table != nil {
			return onTables([]*ast.TableName{x.Table}, createRight, dropRight)
		}
	case *ast.FlashBackTableStmt:
		rights := onTables([]*ast.TableName{x.Table}, createRight, dropRight)
		if x.NewName != "" {
			named := *x.Table
			named.Name = pmodel.NewCIStr(x.NewName)
			rights = append(rights, onTables([]*ast.TableName{&named}, createRight)...)
		}
		return rights
	case *ast.LockTablesStmt:
		for _, lock := range x.TableLocks {
			rights = append(rights, onTables([]*ast.TableName{lock.Table}, right{name: "LOCK TABLES", privilege: mysql.LockTablesPriv}, selectRight)...)
		}
	case *ast.LockStatsStmt:
		return onTables(x.Tables, selectRight, insertRight)
	case *ast.UnlockStatsStmt:
		return onTables(x.Tables, selectRight, insertRight)
	case *ast.FlashBackDatabaseStmt:
		if x.NewName != "" {
			return []right{{name: "CREATE", privilege: mysql.CreatePriv, schema: strings.ToLower(x.NewName)}}
		}
	case *ast.DropStatsStmt: // as ANALYZE
		return onTables(x.Tables, selectRight, insertRight)
	case *ast.LoadStatsStmt: // of the table that the file of the client names
		return []right{selectRight, insertRight}
	case *ast.PlanReplayerStmt:
		return forgottenOfPlanReplayer(x)
	case *ast.AdminStmt:
		switch x.Tp {
		case ast.AdminCancelDDLJobs, ast.AdminPauseDDLJobs, ast.AdminResumeDDLJobs, ast.AdminAlterDDLJob:
			return nil // asked for by package sql, which logs the refused user
		case ast.AdminShowDDLJobs:
			return nil // its rows are filtered
		}
		return []right{superRight}
	case *ast.CreateBindingStmt, *ast.DropBindingStmt, *ast.SetBindingStmt, *ast.CancelDistributionJobStmt:
		return []right{superRight}
	case *ast.AlterRangeStmt:
		return []right{{name: "SUPER or PLACEMENT_ADMIN", dynamic: "PLACEMENT_ADMIN"}}
	case *ast.SplitRegionStmt:
		return onTables([]*ast.TableName{x.Table}, alterRight)
	case *ast.DistributeTableStmt:
		return onTables([]*ast.TableName{x.Table}, alterRight)
	case *ast.ShowStmt:
		return forgottenOfShow(x)
	}
	return rights
}

// makesAccounts reports whether GRANT makes accounts, which the session's sql_mode decides.
func (s *guardedSession) makesAccounts(stmt *ast.GrantStmt) bool {
	manager := privilege.GetPrivilegeManager(s.Session)
	if manager == nil || s.GetSessionVars().SQLMode.HasNoAutoCreateUserMode() {
		return false
	}
	return slices.ContainsFunc(stmt.Users, func(spec *ast.UserSpec) bool {
		name, host, ok := manager.MatchIdentity(spec.User.Username, spec.User.Hostname, true)
		return !spec.User.CurrentUser && (!ok || name != spec.User.Username || host != spec.User.Hostname)
	})
}

// forgottenOfShow returns what SHOW needs.
func forgottenOfShow(s *ast.ShowStmt) []right {
	table := []*ast.TableName{s.Table}
	switch s.Tp {
	case ast.ShowRegions, ast.ShowDistributions, ast.ShowTableNextRowId: // regions begin and end with values of rows
		return onTables(table, selectRight)
	case ast.ShowCreateView:
		return onTables(table, selectRight, right{name: "SHOW VIEW", privilege: mysql.ShowViewPriv})
	case ast.ShowDistributionJobs: // of all tables
		return []right{superRight}
	}
	return nil
}

// forgottenOfAlter returns what ALTER TABLE needs for what it does to partitions and foreign keys.
func forgottenOfAlter(s *ast.AlterTableStmt) (rights []right) {
	for _, spec := range s.Specs {
		switch spec.Tp {
		case ast.AlterTableTruncatePartition, ast.AlterTableDropFirstPartition:
			rights = append(rights, onTables([]*ast.TableName{s.Table}, dropRight)...)
		case ast.AlterTableAddConstraint:
			rights = append(rights, referenced(s.Table, []*ast.Constraint{spec.Constraint})...)
		case ast.AlterTableAddColumns: // TiDB takes ADD COLUMN (..., FOREIGN KEY ...) apart when it has asked
			rights = append(rights, referenced(s.Table, spec.NewConstraints)...)
		}
	}
	return rights
}

// referenced returns REFERENCES on the tables that foreign keys of a table refer to, in its schema if they have none.
func referenced(table *ast.TableName, constraints []*ast.Constraint) (rights []right) {
	for _, constraint := range constraints {
		if constraint == nil || constraint.Refer == nil || constraint.Refer.Table == nil {
			continue
		}
		parent := *constraint.Refer.Table
		if parent.Schema.L == "" {
			parent.Schema = table.Schema
		}
		rights = append(rights, onTables([]*ast.TableName{&parent}, referencesRight)...)
	}
	return rights
}

// forgottenOfUpdate returns UPDATE on the tables of a join that share a name, or an alias, and may be changed. TiDB asks for it on the
// last table of the name, not looking at its schema (tblDbMap of buildUpdateLists in pkg/planner/core/logical_plan_builder.go).
func (s *guardedSession) forgottenOfUpdate(stmt *ast.UpdateStmt) (rights []right) {
	sources := make(map[string][]*ast.TableName)
	asttree.Walk(stmt.TableRefs, func(n ast.Node) bool {
		source, ok := n.(*ast.TableSource)
		if !ok {
			return true
		}
		if t, ok := source.Source.(*ast.TableName); ok {
			name := cmp.Or(source.AsName.L, t.Name.L)
			sources[name] = append(sources[name], t)
		}
		return false
	})
	for name, same := range sources {
		if len(same) < 2 {
			continue
		}
		for _, t := range same {
			changed := slices.ContainsFunc(stmt.List, func(a *ast.Assignment) bool {
				return (a.Column.Table.L == "" || a.Column.Table.L == name) && (a.Column.Schema.L == "" || a.Column.Schema.L == s.schemaOf(t))
			})
			if changed {
				rights = append(rights, onTables([]*ast.TableName{t}, updateRight)...)
			}
		}
	}
	return rights
}

// forgottenOfPlanReplayer returns what PLAN REPLAYER needs: it dumps the statistics, which have values, of the tables.
func forgottenOfPlanReplayer(stmt *ast.PlanReplayerStmt) []right {
	switch {
	case stmt.Load: // it loads statistics
		return []right{selectRight, insertRight}
	case stmt.Capture, stmt.Remove: // of all users' statements
		return []right{superRight}
	case stmt.Stmt != nil:
		v := queriedTables{depth: 1}
		stmt.Stmt.Accept(&v)
		return onTables(v.tables, selectRight)
	}
	return nil
}
