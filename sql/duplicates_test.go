package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Values of tables are shown to those who may read the tables.
func TestDuplicateEntriesNeedTheTablesPrivileges(t *testing.T) {
	n := newNode(t)
	c := n.conn()
	const query = "select * from information_schema.ddl_duplicate_entries where job_id = 7"
	want := [][]string{{"7", "test", "t", "u", "a\xff", "3", "1,7"}}
	require.Equal(t, want, c.query(query))

	c.exec("create table t (id int primary key)")
	c.exec("create table other (id int primary key)")
	for user, sees := range map[string]bool{"nothing": false, "another": false, "onetable": true, "onedb": true, "alldbs": true} {
		c.exec("create user " + user + "@localhost")
		c.exec("grant insert on test.t to " + user + "@localhost")
		switch user {
		case "another":
			c.exec("grant select on test.other to another@localhost")
		case "onetable":
			c.exec("grant select on test.t to onetable@localhost")
		case "onedb":
			c.exec("grant select on test.* to onedb@localhost")
		case "alldbs":
			c.exec("grant select on *.* to alldbs@localhost")
		}
		got := n.connOf(user, "").query(query)
		if sees {
			require.Equal(t, want, got, user)
		} else {
			require.Empty(t, got, user)
		}
	}
}
