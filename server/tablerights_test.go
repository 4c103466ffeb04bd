package server

import (
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// TestMovesNeedRightsOnBothTables: rights on one schema give no table of another one, by no statement that moves tables, and
// no user moves the system's tables.
func TestMovesNeedRightsOnBothTables(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	root := connect(t, s)
	exec(t, root, "CREATE DATABASE mine", "CREATE DATABASE other", "CREATE USER u", "GRANT ALL ON mine.* TO u")
	create := func() {
		exec(t, root, "DROP TABLE IF EXISTS mine.p, mine.t, mine.n, mine.m, other.secret, other.n",
			"CREATE TABLE mine.p (a INT PRIMARY KEY) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (1000))",
			"CREATE TABLE mine.t (a INT PRIMARY KEY)", "CREATE TABLE other.secret (a INT PRIMARY KEY)", "INSERT INTO other.secret VALUES (7)",
			"CREATE TABLE IF NOT EXISTS mine.user LIKE mysql.user")
	}
	cfg := clientConfig(s)
	cfg.User, cfg.DBName = "u", "mine"
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	u := sql.OpenDB(connector)
	defer u.Close()
	create()
	denied := func(db *sql.DB, query string) {
		t.Helper()
		_, err := db.Exec(query)
		var sqlErr *mysql.MySQLError
		require.ErrorAs(t, err, &sqlErr, query)
		require.EqualValues(t, 1142, sqlErr.Number, "%s: %s", query, sqlErr.Message)
		var n int
		require.NoError(t, root.QueryRow("SELECT COUNT(*) FROM other.secret").Scan(&n))
		require.Equal(t, 1, n, query)
	}
	for _, query := range []string{
		"ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE other.secret",
		"ALTER TABLE mine.p EXCHANGE PARTITION p0 WITH TABLE other.secret WITHOUT VALIDATION",
		"ALTER TABLE other.secret RENAME TO mine.n",
		"ALTER TABLE t RENAME TO other.n",
		"ALTER TABLE t RENAME AS other.n",
		"RENAME TABLE t TO n, other.secret TO mine.m",
		"RENAME TABLE t TO other.n",
		"RENAME TABLE t TO n, n TO other.n",
	} {
		denied(u, query)
		_, err := u.Prepare(query)
		require.Error(t, err, "prepared: %s", query)
	}
	for _, query := range []string{
		"ALTER TABLE mine.p EXCHANGE PARTITION p0 WITH TABLE mysql.user",
		"ALTER TABLE mysql.user RENAME TO mine.n",
		"RENAME TABLE mysql.user TO mine.n",
		"ALTER TABLE mine.t RENAME TO mysql.n",
		"RENAME TABLE mine.t TO mine.n, mine.n TO mysql.n",
		"RENAME TABLE mysql.fastddl_ddl_jobs TO mine.n",
	} {
		denied(u, query)
		denied(root, query)
	}
	// What the user may do works.
	exec(t, u, "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t", "ALTER TABLE t RENAME TO n", "RENAME TABLE n TO m, m TO t")
	create()
	exec(t, root, "ALTER TABLE other.secret RENAME TO mine.n", "RENAME TABLE mine.n TO other.secret", "ALTER TABLE mine.p EXCHANGE PARTITION p0 WITH TABLE other.secret")
}
