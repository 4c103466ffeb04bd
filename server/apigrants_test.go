package server

import (
	"slices"
	"testing"

	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/stretchr/testify/require"

	"fastddl/api"
)

// The log-in of an account names its privileges of the moment, with those of its active roles, by place; SUPER contains dynamic ones.
func TestLogInNamesPrivileges(t *testing.T) {
	j := startJobShop(t)
	exec(t, j.root,
		"CREATE USER `o'brien`, plain, chief", "CREATE ROLE helper, unused", "GRANT BACKUP_ADMIN ON *.* TO helper", "GRANT INDEX ON shop.* TO helper",
		"GRANT ALL ON other.* TO unused", "GRANT helper, unused TO `o'brien`", "SET DEFAULT ROLE helper TO `o'brien`",
		"GRANT PROCESS ON *.* TO `o'brien`", "GRANT ALTER, SELECT ON shop.t TO `o'brien` WITH GRANT OPTION", "GRANT SELECT (a), INSERT (a) ON other.t TO `o'brien`",
		"GRANT SUPER ON *.* TO chief",
	)
	grants := func(user string) (in []api.Grant) {
		t.Helper()
		var answer struct{ Grants []api.Grant }
		c := j.api(user)
		c.must("POST", "session", `{"user": "`+user+`"}`, &answer)
		in = answer.Grants
		c.must("GET", "session", "", &answer)
		require.Equal(t, in, answer.Grants)
		return in
	}
	want := []api.Grant{{Privileges: []string{"BACKUP_ADMIN", "PROCESS"}}, {Schema: "shop", Privileges: []string{"INDEX"}}, {Schema: "shop", Table: "t", Privileges: []string{"ALTER", "SELECT"}}}
	require.Equal(t, want, grants("o'brien"))
	exec(t, j.root, "SET GLOBAL sql_mode = 'ANSI_QUOTES'") // in which TiDB quotes names otherwise
	require.Equal(t, want, grants("o'brien"))
	require.Equal(t, []api.Grant{{Privileges: []string{}}}, grants("plain"))
	chief := grants("chief")
	require.Len(t, chief, 1)
	for _, name := range []string{"SUPER", "CONNECTION_ADMIN", "SYSTEM_VARIABLES_ADMIN"} {
		require.Contains(t, chief[0].Privileges, name)
	}
	require.NotContains(t, chief[0].Privileges, "ALTER")
	root := grants("root")[0]
	require.Subset(t, root.Privileges, []string{"ALTER", "CREATE TEMPORARY TABLES", "FILE", "INDEX", "PROCESS", "SUPER", "SYSTEM_VARIABLES_ADMIN"})
	require.True(t, slices.IsSorted(root.Privileges))
}

// Rows of SHOW GRANTS are read as TiDB writes them: names with any character, and accounts that are not escaped.
func TestParseGrant(t *testing.T) {
	vars := &variable.SessionVars{User: &auth.UserIdentity{AuthUsername: "a' TO 'b", AuthHostname: "10.%"}}
	for text, want := range map[string]api.Grant{
		"GRANT USAGE ON *.* TO 'a' TO 'b'@'10.%'":                                  {},
		"GRANT 'r'@'%' TO 'a' TO 'b'@'10.%'":                                       {},
		"GRANT BACKUP_ADMIN ON *.* TO 'a' TO 'b'@'10.%' WITH GRANT OPTION":         {},
		"GRANT CREATE VIEW,INDEX ON `a``\\_%`.* TO 'a' TO 'b'@'10.%'":              {Schema: "a`\\_%", Privileges: []string{"CREATE VIEW", "INDEX"}},
		"GRANT ALL PRIVILEGES ON `ON`.`TO` TO 'a' TO 'b'@'10.%' WITH GRANT OPTION": {Schema: "ON", Table: "TO", Privileges: namesOf(mysql.AllTablePrivs...)},
		"GRANT SELECT(a), INSERT(a,b) ON s.t TO 'a' TO 'b'@'10.%'":                 {Schema: "s", Table: "t"},
	} {
		got, err := parseGrant(text, vars)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	_, err := parseGrant("REVOKE ALL", vars)
	require.ErrorContains(t, err, "SHOW GRANTS")
}
