package blackbox

import (
	"database/sql"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unprivileged makes a user that may do everything with one database of its own,
// and connects as it.
func unprivileged(t *testing.T, n *node, name string) *sql.DB {
	t.Helper()
	root := n.db()
	mustExec(t, root, "CREATE USER "+name+" IDENTIFIED BY 'secret'")
	mustExec(t, root, "CREATE DATABASE IF NOT EXISTS "+name)
	mustExec(t, root, "GRANT ALL ON "+name+".* TO "+name)
	return n.openAs(name, "secret", name)
}

func TestGlobalSettingsNeedAPrivilege(t *testing.T) {
	n := startNode(t, t.TempDir())
	root, app := n.db(), unprivileged(t, n, "app")
	for _, statement := range []string{
		"SET GLOBAL tidb_ddl_reorg_worker_cnt = 7",
		"SET GLOBAL tidb_ddl_disk_quota = 16777216",
		"SET GLOBAL fastddl_ddl_governor = OFF",
		"SET GLOBAL fastddl_ddl_engine = tidb",
		"SET GLOBAL fastddl_ddl_memory_quota = 1",
		"SET PERSIST fastddl_mdl_idle_blocker_timeout = '1s'",
		"SET @@global.max_connections = 1",
		"SET GLOBAL read_only = ON",
	} {
		_, err := app.Exec(statement)
		require.Error(t, err, statement)
		if !strings.Contains(statement, "PERSIST") { // TiDB does not have it
			requireCode(t, err, 1227, "42000", "SYSTEM_VARIABLES_ADMIN")
		}
	}
	require.Equal(t, "ON", value(t, root, "SELECT @@global.fastddl_ddl_governor"))
	mustExec(t, app, "SET SESSION fastddl_ddl_engine = tidb") // its own sessions are its own
	mustExec(t, root, "GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO app")
	mustExec(t, n.openAs("app", "secret", "app"), "SET GLOBAL tidb_ddl_reorg_worker_cnt = 7")
	require.Equal(t, "7", value(t, root, "SELECT @@global.tidb_ddl_reorg_worker_cnt"))
}

func TestLockedAccountsCannotLogIn(t *testing.T) {
	n := startNode(t, t.TempDir())
	root := n.db()
	app := unprivileged(t, n, "app")
	require.NoError(t, app.Ping())
	mustExec(t, root, "ALTER USER app ACCOUNT LOCK")
	err := n.openAs("app", "secret", "").Ping()
	requireCode(t, err, 3118, "HY000", "Account is locked")
	mustExec(t, root, "ALTER USER app ACCOUNT UNLOCK")
	require.NoError(t, n.openAs("app", "secret", "").Ping())

	mustExec(t, root, "CREATE USER born_locked IDENTIFIED BY 'secret' ACCOUNT LOCK")
	requireCode(t, n.openAs("born_locked", "secret", "").Ping(), 3118, "HY000", "Account is locked")
}

// Jobs and statements of others, with values of their tables, are not shown to users who
// may not read the tables.
func TestJobsAndSessionsOfOthersAreNotShown(t *testing.T) {
	n := startNode(t, t.TempDir())
	root := n.db()
	app := unprivileged(t, n, "app")
	mustExec(t, root, "CREATE TABLE hidden (id INT PRIMARY KEY, v VARCHAR(20))")
	mustExec(t, root, "INSERT INTO hidden VALUES (1, 'topsecret'), (2, 'topsecret')")
	_, err := root.Exec("ALTER TABLE hidden ADD UNIQUE INDEX v (v)")
	require.ErrorContains(t, err, "topsecret")
	mustExec(t, app, "CREATE TABLE own (id INT PRIMARY KEY, v INT)")
	mustExec(t, app, "ALTER TABLE own ADD INDEX v (v)")
	other := n.terminal()
	sleeping := other.start("SELECT SLEEP(1000), 'topsecret'")
	running(t, root, other.id)

	for _, query := range []string{
		"SELECT * FROM mysql.fastddl_ddl_jobs", "SELECT * FROM mysql.fastddl_ddl_duplicates", "SELECT * FROM mysql.tidb_mdl_view",
		"SELECT * FROM mysql.tidb_ddl_job", "SELECT * FROM mysql.tidb_ddl_history", "SELECT * FROM mysql.user",
		"ADMIN SHOW DDL", "ADMIN CHECK TABLE test.hidden",
	} {
		_, err := app.Exec(query)
		require.Error(t, err, query)
	}
	for _, query := range []string{
		"SELECT * FROM information_schema.ddl_jobs", "SHOW FULL PROCESSLIST", "SELECT * FROM information_schema.PROCESSLIST",
		"SELECT * FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'test'", "ADMIN SHOW DDL JOBS 100", "SELECT * FROM performance_schema.fastddl_ddl_jobs",
		"SELECT * FROM performance_schema.fastddl_ddl_errors", "SELECT * FROM performance_schema.fastddl_ddl_blockers",
	} {
		text := tableText(queryAll(t, app, query))
		require.NotContains(t, text, "topsecret", query)
		require.NotContains(t, text, "hidden", query)
	}
	require.Contains(t, tableText(queryAll(t, root, "SELECT * FROM information_schema.PROCESSLIST")), "topsecret")
	mustExec(t, root, "KILL QUERY "+other.id)
	_ = requireEnds(t, sleeping)
}

func TestUsersKillTheirOwnSessions(t *testing.T) {
	n := startNode(t, t.TempDir())
	root := n.db()
	app := unprivileged(t, n, "app")
	var own string
	conn, err := app.Conn(t.Context())
	require.NoError(t, err)
	require.NoError(t, conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&own))
	others := n.terminal()

	_, err = app.Exec("KILL " + others.id)
	require.Error(t, err, "a session of somebody else")
	require.Equal(t, "1", others.value("SELECT 1"))
	mustExec(t, app, "KILL "+own)
	requireGone(t, root, own)
	require.Error(t, conn.PingContext(t.Context()))
}

// A server says in its greeting that autocommit is on: PyMySQL and others look at
// that, and not at the variable.
func TestGreetingSaysAutocommit(t *testing.T) {
	n := startNode(t, t.TempDir())
	conn, err := net.Dial("tcp", n.addr)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(startTimeout)))
	header := make([]byte, 4)
	_, err = io.ReadFull(conn, header)
	require.NoError(t, err)
	packet := make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	_, err = io.ReadFull(conn, packet)
	require.NoError(t, err)
	require.EqualValues(t, 10, packet[0], "protocol version")
	version, rest, found := strings.Cut(string(packet[1:]), "\x00")
	require.True(t, found)
	require.Contains(t, version, "TiDB")
	// Connection ID, salt and its end, capabilities, collation, status.
	status := rest[4+8+1+2+1]
	const autocommit = 2
	require.NotZero(t, status&autocommit)
}

// ADMIN statements can be prepared and executed in both protocols.
func TestAdminStatementsCanBePrepared(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.openAs("root", "", "test")
	fill(t, db, "t", 10)
	mustExec(t, db, "ALTER TABLE t ADD INDEX k (k)")
	for _, query := range []string{"ADMIN SHOW DDL JOBS", "ADMIN SHOW DDL JOBS 5", "ADMIN CHECK TABLE t", "ADMIN CHECK INDEX t k"} {
		stmt, err := db.Prepare(query)
		require.NoError(t, err, query)
		for range 2 {
			rows, err := stmt.Query()
			require.NoError(t, err, query)
			for rows.Next() {
			}
			require.NoError(t, rows.Err(), query)
			require.NoError(t, rows.Close())
		}
		require.NoError(t, stmt.Close())
	}
	c := n.terminal()
	c.exec("PREPARE p FROM 'ADMIN SHOW DDL JOBS 1'")
	require.Contains(t, c.rows("EXECUTE p"), "add index")
}

// Comments of MariaDB and of later versions are comments.
func TestVersionComments(t *testing.T) {
	db := startNode(t, t.TempDir()).db()
	require.Equal(t, "1", value(t, db, "SELECT 1 /*M! + 1 */"))
	require.Equal(t, "1", value(t, db, "SELECT 1 /*M!100100 + 1 */"))
	require.Equal(t, "2", value(t, db, "SELECT 1 /*!40101 + 1 */"))
	mustExec(t, db, "/*M!999999\\- enable the sandbox mode */")
}
