package sql

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	plannercore "github.com/pingcap/tidb/pkg/planner/core"
	"github.com/pingcap/tidb/pkg/privilege"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/sql/perftables"
)

// rights are the privileges of a client's session: TiDB's, and SELECT on our tables of performance_schema, which filter their rows.
type rights struct {
	privilege.Manager
	// withoutSuper is true while an ADMIN statement begins for which TiDB asks for SUPER, and that is checked otherwise.
	withoutSuper atomic.Bool
}

// bindRights gives a session its rights, if privileges are checked in it.
func bindRights(se sessiontypes.Session) {
	if manager := privilege.GetPrivilegeManager(se); manager != nil {
		privilege.BindPrivilegeManager(se, &rights{Manager: manager})
	}
}

// RequestVerification implements privilege.Manager.
func (r *rights) RequestVerification(roles []*auth.RoleIdentity, db, table, column string, priv mysql.PrivilegeType) bool {
	return r.Manager.RequestVerification(roles, db, table, column, priv) || mayRead(db, table, priv) ||
		priv == mysql.SuperPriv && db == "" && table == "" && r.withoutSuper.Load()
}

// RequestVerificationWithUser implements privilege.Manager. TiDB asks for the definer of a view.
func (r *rights) RequestVerificationWithUser(db, table, column string, priv mysql.PrivilegeType, user *auth.UserIdentity) bool {
	return r.Manager.RequestVerificationWithUser(db, table, column, priv, user) || mayRead(db, table, priv)
}

// mayRead says that one of some privileges is to read one of our tables. TiDB asks for any of several where it lists tables and columns.
func mayRead(db, table string, any mysql.PrivilegeType) bool {
	return any&mysql.SelectPriv != 0 && perftables.IsJobTable(db, table)
}

// has reports whether the session has any of some privileges on a table, or on all if the names are empty.
func (s *clientSession) has(db, table string, any mysql.PrivilegeType) bool {
	manager := privilege.GetPrivilegeManager(s.Session)
	return manager == nil || manager.RequestVerification(s.GetSessionVars().ActiveRoles, db, table, "", any)
}

// errNoCommand refuses a command on jobs, with TiDB's number. It is the same for jobs of tables that the user may not alter, of TiDB, and
// that do not exist.
var errNoCommand = dbterror.ClassOptimizer.NewStdErr(errno.ErrPrivilegeCheckFail,
	mysql.Message("privilege check for 'Super' fail, and for 'Alter' on the tables of index builds", nil))

// checkCommand refuses a command whose user may not give it to all of its jobs. byTable says that only the rights on the tables of the
// jobs allow it, which are index builds of ours then, and may have ended. Rights are asked for at the time of the command, on the names that
// the tables have then. For a job that adds one index and nothing else INDEX is enough, as for CREATE INDEX and DROP INDEX.
func (s *clientSession) checkCommand(ctx context.Context, ids []int64) (byTable bool, err error) {
	if s.has("", "", mysql.SuperPriv) {
		return false, nil
	}
	if s.layer.ddl == nil || len(ids) == 0 {
		return false, errNoCommand.GenWithStackByArgs()
	}
	for _, id := range ids {
		target, ok, err := s.layer.ddl.TargetOf(ctx, id)
		if err != nil {
			return false, err
		}
		if !ok || !s.mayAlter(target.DB, target.Table, target.OnlyIndex) {
			return false, errNoCommand.GenWithStackByArgs()
		}
	}
	return true, nil
}

// seesTable says that the user sees the jobs of a table: with any privilege on it, as in information_schema.ddl_jobs.
func (s *clientSession) seesTable(db, table string) bool { return s.has(db, table, mysql.AllPrivMask) }

func (s *clientSession) mayAlter(db, table string, onlyIndex bool) bool {
	return s.has(db, table, mysql.AlterPriv) || onlyIndex && s.has(db, table, mysql.IndexPriv)
}

// checkPlanned checks that the user may execute an ADMIN statement that was planned, but for SUPER, of which checkCommand and jobRows take
// the place.
func (s *clientSession) checkPlanned(builder *plannercore.PlanBuilder) error {
	manager := privilege.GetPrivilegeManager(s.Session)
	if manager == nil {
		return nil
	}
	defer s.withoutSuper()()
	return plannercore.CheckPrivilege(s.GetSessionVars().ActiveRoles, manager, builder.GetVisitInfo())
}

// withoutSuper lets the session begin an ADMIN statement without SUPER, until end is called.
func (s *clientSession) withoutSuper() (end func()) {
	r, ok := privilege.GetPrivilegeManager(s.Session).(*rights)
	if !ok {
		return func() {}
	}
	r.withoutSuper.Store(true)
	return func() { r.withoutSuper.Store(false) }
}

// preparing lets the session prepare a statement without SUPER, for which that is asked, or its rows are filtered, when it is executed,
// until end is called.
func (s *clientSession) preparing(ctx context.Context, text string) (end func()) {
	if !strings.Contains(strings.ToLower(text), "admin") {
		return func() {}
	}
	stmts, err := s.Session.Parse(ctx, text)
	if err != nil || len(stmts) != 1 {
		return func() {}
	}
	if admin, ok := stmts[0].(*ast.AdminStmt); ok && s.layer.ddl != nil && admin.Where == nil {
		switch admin.Tp {
		case ast.AdminShowDDLJobs, ast.AdminCancelDDLJobs, ast.AdminPauseDDLJobs, ast.AdminResumeDDLJobs, ast.AdminAlterDDLJob:
			return s.withoutSuper()
		}
	}
	return func() {}
}

// preparedText is the text that PREPARE prepares; "" for other statements.
func (s *clientSession) preparedText(stmt ast.StmtNode) string {
	prepare, ok := stmt.(*ast.PrepareStmt)
	switch {
	case !ok:
		return ""
	case prepare.SQLVar == nil:
		return prepare.SQLText
	}
	value, ok := s.GetSessionVars().GetUserVarVal(strings.ToLower(prepare.SQLVar.Name))
	if !ok {
		return ""
	}
	text, err := value.ToString()
	if err != nil { // TiDB has no text of it either
		return ""
	}
	return text
}
