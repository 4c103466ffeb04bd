package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// perfTables are our tables of performance_schema.
var perfTables = []string{"fastddl_ddl_jobs", "fastddl_ddl_blockers", "fastddl_ddl_errors", "fastddl_ddl_commands", "fastddl_ddl_points"}

// jobShop is a server with a table that has rows no unique index can have, and accounts with different rights on it.
type jobShop struct {
	*Server
	root *sql.DB
	t    *testing.T
}

func startJobShop(t *testing.T) *jobShop {
	j := &jobShop{Server: start(t, testConfig(t.TempDir())), t: t}
	j.root = connect(t, j.Server)
	exec(t, j.root, "CREATE DATABASE shop", "CREATE DATABASE other",
		"CREATE TABLE shop.t (a VARCHAR(20) PRIMARY KEY CLUSTERED, b INT, u VARCHAR(20))", "CREATE TABLE other.t (a INT)",
		"INSERT INTO shop.t VALUES ('secret-1', 1, 'secret-2'), ('secret-3', 2, 'secret-2')",
		"CREATE USER alterer, indexer, inserter, reader, stranger, member, processor", "CREATE ROLE r",
		"GRANT ALTER ON shop.t TO alterer", "GRANT INDEX ON shop.t TO indexer", "GRANT INSERT ON shop.* TO inserter", "GRANT SELECT ON shop.t TO reader",
		"GRANT ALL ON other.* TO stranger", "GRANT PROCESS ON *.* TO processor", "GRANT ALTER, SELECT ON shop.t TO r", "GRANT r TO member")
	return j
}

// as returns a connection of a user.
func (j *jobShop) as(user string) *sql.DB {
	cfg := clientConfig(j.Server)
	cfg.User, cfg.DBName, cfg.ConnectionAttributes = user, "", "program_name:tests"
	connector, err := mysql.NewConnector(cfg)
	require.NoError(j.t, err)
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	j.t.Cleanup(func() { db.Close() })
	return db
}

// errorNumber is MySQL's number of an error.
func errorNumber(err error) uint16 {
	if known := new(mysql.MySQLError); errors.As(err, &known) {
		return known.Number
	}
	return 0
}

// read is what a query returns.
func (j *jobShop) read(db *sql.DB, query string) string {
	j.t.Helper()
	text, err := answer(j.t, db, query)
	require.NoError(j.t, err, query)
	return text
}

// held begins an index build that waits for a transaction, and returns its number; end ends the transaction and returns the build's result.
func (j *jobShop) held(statement string) (id string, end func() error) {
	j.t.Helper()
	blocker, err := j.root.Conn(context.Background())
	require.NoError(j.t, err)
	for _, q := range []string{"BEGIN", "SELECT /* secret-4 */ COUNT(*) FROM shop.t", "USE shop"} {
		_, err = blocker.ExecContext(context.Background(), q)
		require.NoError(j.t, err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := j.root.Exec(statement)
		result <- err
	}()
	require.Eventually(j.t, func() bool {
		id = strings.TrimSpace(j.read(j.root, "SELECT job_id FROM mysql.fastddl_ddl_blockers LIMIT 1"))
		return id != ""
	}, hangTimeout, 20*time.Millisecond)
	return id, func() error {
		_, err := blocker.ExecContext(context.Background(), "ROLLBACK")
		require.NoError(j.t, err)
		require.NoError(j.t, blocker.Close())
		select {
		case err := <-result:
			return err
		case <-time.After(hangTimeout):
			return errors.New("the statement does not end")
		}
	}
}

// TestJobsAreShownByRightsOnTheTable: every account may read the tables of index builds in performance_schema, and finds the rows of
// tables on which it has a privilege. Values of rows show to accounts with SELECT on the table, the statement that a build waits for to its
// own account and with PROCESS.
func TestJobsAreShownByRightsOnTheTable(t *testing.T) {
	j := startJobShop(t)
	_, err := j.root.Exec("ALTER TABLE shop.t ADD UNIQUE INDEX i (u)")
	require.ErrorContains(t, err, "Duplicate entry 'secret-2' for key 't.i'")
	id, end := j.held("ALTER TABLE shop.t ADD INDEX later (b)")
	exec(t, j.root, "ADMIN ALTER DDL JOBS "+id+" THREAD = 2")

	// show returns what all tables show a user.
	show := func(db *sql.DB) (all string) {
		t.Helper()
		for _, table := range perfTables {
			text := j.read(db, "SELECT * FROM performance_schema."+table)
			require.Equal(t, fmt.Sprintln(strings.Count(text, "\n"), ""), j.read(db, "SELECT COUNT(*) FROM performance_schema."+table), table)
			all += text
		}
		return all
	}
	for user, sees := range map[string]struct{ rows, values, statements bool }{
		"alterer": {rows: true}, "indexer": {rows: true}, "inserter": {rows: true}, "reader": {rows: true, values: true},
		"stranger": {}, "member": {}, "processor": {rows: true, statements: true}, "root": {rows: true, values: true, statements: true},
	} {
		db := j.as(user)
		all := show(db)
		if !sees.rows {
			require.Empty(t, all, user)
		} else {
			require.Contains(t, all, "Duplicate entry", user)
			require.Contains(t, all, "ADMIN ALTER DDL JOBS "+id+" THREAD = 2", user)
			require.Equal(t, "root \n", j.read(db, "SELECT user_name FROM performance_schema.fastddl_ddl_blockers"), user)
		}
		require.Equal(t, sees.values, strings.Contains(all, "secret"), user)
		want := map[bool]string{true: "shop ", false: "? "}[sees.statements]
		if sees.rows {
			require.Equal(t, want, j.read(db, "SELECT db_name FROM performance_schema.fastddl_ddl_blockers")[:len(want)], user)
			require.Equal(t, sees.values, strings.Contains(j.read(db, "SELECT message, row_handle, value FROM performance_schema.fastddl_ddl_errors"), "secret-2"), user)
		}
		for _, table := range perfTables { // which are for administrators
			_, err := answer(t, db, "SELECT * FROM mysql."+table)
			require.Equal(t, user == "root", err == nil, "%s %s: %v", user, table, err)
		}
	}

	require.Contains(t, j.read(j.root, "SHOW PROCESSLIST"), "index build "+id+": waits for metadata lock")
	require.Contains(t, j.read(j.as("processor"), "SHOW FULL PROCESSLIST"), "index build "+id+": waits for metadata lock")
	require.NotContains(t, j.read(j.as("alterer"), "SHOW PROCESSLIST"), "index build")

	// A role counts while it is active, also in statements that were prepared before.
	member := j.as("member")
	exec(t, member, "PREPARE p FROM 'SELECT job_id FROM performance_schema.fastddl_ddl_jobs WHERE job_id = ?'", "SET @id = "+id)
	require.Empty(t, j.read(member, "EXECUTE p USING @id"))
	exec(t, member, "SET ROLE ALL")
	for range 2 {
		require.Equal(t, id+" \n", j.read(member, "EXECUTE p USING @id"))
	}
	require.Contains(t, show(member), "secret-2")
	exec(t, member, "SET ROLE NONE")
	require.Empty(t, j.read(member, "EXECUTE p USING @id"))
	exec(t, j.root, "REVOKE SELECT ON shop.t FROM reader")
	require.Empty(t, show(j.as("reader")))
	require.NoError(t, end())
}

// TestJobTablesAreReadOnlyTablesOfPerformanceSchema: they are listed and described to all accounts like TiDB's, refuse to be written as
// these do, and take part in queries like any table.
func TestJobTablesAreReadOnlyTablesOfPerformanceSchema(t *testing.T) {
	j := startJobShop(t)
	exec(t, j.root, "ALTER TABLE shop.t ADD INDEX i (b)", "ALTER TABLE other.t ADD INDEX i (a)", "ALTER TABLE shop.t ADD INDEX k (b, a)")
	stranger := j.as("stranger")
	for _, db := range []*sql.DB{j.root, stranger} {
		require.Equal(t, "fastddl_ddl_blockers SYSTEM VIEW \nfastddl_ddl_commands SYSTEM VIEW \nfastddl_ddl_errors SYSTEM VIEW \nfastddl_ddl_jobs SYSTEM VIEW \nfastddl_ddl_points SYSTEM VIEW \nfastddl_server_load SYSTEM VIEW \n", j.read(db,
			"SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'performance_schema' AND table_name LIKE 'fastddl%' ORDER BY table_name"))
		for _, table := range perfTables {
			var want string
			for _, row := range strings.Split(strings.TrimSpace(j.read(j.root, "DESC mysql."+table)), "\n") {
				want += strings.Fields(row)[0] + " " + strings.Fields(row)[1] + "\n"
			}
			var got string
			for _, row := range strings.Split(strings.TrimSpace(j.read(db, "DESC performance_schema."+table)), "\n") {
				got += strings.Fields(row)[0] + " " + strings.Fields(row)[1] + "\n"
			}
			require.Equal(t, want, got, table)
			require.Contains(t, j.read(db, "SHOW CREATE TABLE performance_schema."+table), "CREATE TABLE `"+table+"`")
		}
	}
	tables := j.read(j.root, "SHOW TABLES FROM performance_schema")
	require.Contains(t, tables, "fastddl_ddl_jobs")
	require.Contains(t, tables, "session_variables")
	require.NotEmpty(t, j.read(j.root, "SELECT * FROM performance_schema.session_variables WHERE variable_name = 'autocommit'"), "TiDB's own")
	_, err := answer(t, stranger, "SELECT * FROM performance_schema.session_variables")
	require.ErrorContains(t, err, "1142")

	for _, statement := range []string{
		"INSERT INTO performance_schema.%s (job_id) VALUES (1)", "DELETE FROM performance_schema.%s", "UPDATE performance_schema.%s SET job_id = 1",
		"DROP TABLE performance_schema.%s", "TRUNCATE TABLE performance_schema.%s", "ALTER TABLE performance_schema.%s ADD COLUMN x INT",
		"CREATE TABLE performance_schema.%s (a INT)", "CREATE INDEX i ON performance_schema.%s (job_id)", "RENAME TABLE performance_schema.%s TO test.x",
	} {
		_, ours := j.root.Exec(fmt.Sprintf(statement, "fastddl_ddl_jobs"))
		_, tidbs := j.root.Exec(strings.ReplaceAll(fmt.Sprintf(statement, "setup_actors"), "job_id", "HOST"))
		require.Error(t, ours, statement)
		require.Equal(t, errorNumber(tidbs), errorNumber(ours), "%s: %v, %v", statement, ours, tidbs)
		_, err := stranger.Exec(fmt.Sprintf(statement, "fastddl_ddl_jobs"))
		require.Contains(t, []uint16{1044, 1142, 8121}, errorNumber(err), "%s: %v", statement, err) // 8121 is TiDB's for UPDATE and DELETE
	}

	alterer := j.as("alterer")
	const jobs = "performance_schema.fastddl_ddl_jobs"
	require.Equal(t, "2 \n", j.read(alterer, "SELECT COUNT(*) FROM "+jobs))
	require.Equal(t, "3 \n", j.read(j.root, "SELECT COUNT(*) FROM "+jobs))
	require.Equal(t, "t \n", j.read(alterer, "SELECT table_name FROM "+jobs+" WHERE query LIKE '%k (b, a)%' AND row_count = 2 ORDER BY job_id DESC LIMIT 1"))
	require.Equal(t, "2 \n", j.read(alterer, "SELECT COUNT(*) FROM "+jobs+" a JOIN "+jobs+" b USING (job_id) JOIN (SELECT MAX(job_id) AS m FROM "+jobs+") c ON a.job_id <= c.m"))
	require.Equal(t, "2 \n", j.read(alterer, "SELECT COUNT(*) FROM information_schema.ddl_jobs i JOIN "+jobs+" j USING (job_id) WHERE i.state = 'synced' AND j.state = 'synced'"))
	require.Equal(t, "synced \nsynced \n", j.read(alterer, "WITH x AS (SELECT * FROM "+jobs+") SELECT (SELECT state FROM x y WHERE y.job_id = x.job_id) FROM x"))
	for _, zone := range []string{"+00:00", "+05:00", "America/New_York"} {
		exec(t, j.root, "SET GLOBAL time_zone = '+00:00'")
		db := j.as("root")
		exec(t, db, "SET time_zone = '"+zone+"'")
		require.Equal(t, j.read(db, "SELECT create_time, start_time, end_time FROM mysql.fastddl_ddl_jobs ORDER BY job_id"),
			j.read(db, "SELECT create_time, start_time, end_time FROM "+jobs+" ORDER BY job_id"), zone)
	}
	// A view shows what its reader may see, not what its definer may.
	exec(t, j.root, "CREATE VIEW test.v AS SELECT * FROM "+jobs, "GRANT SELECT ON test.v TO stranger, alterer")
	require.Equal(t, "1 \n", j.read(stranger, "SELECT COUNT(*) FROM test.v"))
	require.Equal(t, "2 \n", j.read(alterer, "SELECT COUNT(*) FROM test.v"))

	// Without TiDB's newer cache of schemas they are the same, and TiDB's are there.
	exec(t, j.root, "SET GLOBAL tidb_schema_cache_size = 0", "CREATE TABLE test.x (a INT)")
	require.Equal(t, "2 \n", j.read(alterer, "SELECT COUNT(*) FROM "+jobs))
	require.Equal(t, tables, j.read(j.root, "SHOW TABLES FROM performance_schema"))
}
