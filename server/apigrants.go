package server

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/privilege"
	"github.com/pingcap/tidb/pkg/privilege/privileges"
	tidbserver "github.com/pingcap/tidb/pkg/server"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"

	"fastddl/api"
)

// Grants implements api.Session. It reads SHOW GRANTS, which has what roles add, and asks TiDB for dynamic privileges: SUPER stands for most,
// which SHOW GRANTS leaves out.
func (s *apiSession) Grants(ctx context.Context) (grants []api.Grant, err error) {
	err = s.during(ctx, func(ctx context.Context, c *tidbserver.TiDBContext) error {
		global := dynamicPrivileges(c)
		if privileges.SkipWithGrant { // SHOW GRANTS fails
			grants = []api.Grant{{Privileges: append(global, namesOf(mysql.AllGlobalPrivs...)...)}}
			return nil
		}
		stmt, err := parseOne(ctx, c, "SHOW GRANTS")
		if err != nil {
			return err
		}
		shown, err := execute(ctx, c, stmt)
		if err != nil {
			return err
		}
		var others []api.Grant
		for _, row := range shown.Rows {
			text, _ := row[0].(string)
			grant, err := parseGrant(text, c.GetSessionVars())
			switch {
			case err != nil:
				return err
			case grant.Schema == "":
				global = append(global, grant.Privileges...)
			case len(grant.Privileges) > 0:
				others = append(others, grant)
			}
		}
		grants = append([]api.Grant{{Privileges: global}}, others...)
		return nil
	})
	for _, g := range grants {
		slices.Sort(g.Privileges)
	}
	return grants, sqlErrorOf(err)
}

// dynamicPrivileges are those of a session, never nil.
func dynamicPrivileges(c *tidbserver.TiDBContext) []string {
	checker := privilege.GetPrivilegeManager(c.Session)
	return slices.DeleteFunc(privileges.GetDynamicPrivileges(), func(name string) bool {
		return !checker.RequestDynamicVerification(c.GetSessionVars().ActiveRoles, name, false)
	})
}

// parseGrant reads a row of SHOW GRANTS. It leaves out dynamic privileges, those of columns and GRANT OPTION; a row of roles has none: the other
// rows have what they add.
func parseGrant(text string, vars *variable.SessionVars) (grant api.Grant, err error) {
	if strings.HasPrefix(text, "GRANT '") {
		return grant, nil
	}
	// TiDB writes the account without escapes.
	text = strings.TrimSuffix(text, " WITH GRANT OPTION")
	text = strings.TrimSuffix(text, fmt.Sprintf(" TO '%s'@'%s'", vars.User.AuthUsername, vars.User.AuthHostname))
	p := parser.New()
	p.SetSQLMode(vars.SQLMode) // in which TiDB quotes names
	stmt, err := p.ParseOneStmt(text+" TO u", "", "")
	if err != nil {
		return grant, fmt.Errorf("read %q of SHOW GRANTS: %w", text, err)
	}
	g, ok := stmt.(*ast.GrantStmt)
	if !ok {
		return grant, fmt.Errorf("read %q of SHOW GRANTS: it is a %T", text, stmt)
	}
	all := mysql.AllGlobalPrivs
	switch g.Level.Level {
	case ast.GrantLevelDB:
		grant.Schema, all = g.Level.DBName, mysql.AllDBPrivs
	case ast.GrantLevelTable:
		grant.Schema, grant.Table, all = g.Level.DBName, g.Level.TableName, mysql.AllTablePrivs
	}
	for _, p := range g.Privs {
		switch {
		case p.Priv == mysql.AllPriv:
			grant.Privileges = append(grant.Privileges, namesOf(all...)...)
		case p.Priv != mysql.ExtendedPriv && p.Priv != mysql.UsagePriv && len(p.Cols) == 0:
			grant.Privileges = append(grant.Privileges, namesOf(p.Priv)...)
		}
	}
	return grant, nil
}

func namesOf(list ...mysql.PrivilegeType) (names []string) {
	for _, p := range list {
		names = append(names, strings.ToUpper(p.String()))
	}
	return names
}
