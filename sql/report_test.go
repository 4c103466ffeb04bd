package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// reportTables are the tables in which jobs are shown.
var reportTables = []string{"fastddl_ddl_jobs", "fastddl_ddl_points", "fastddl_ddl_blockers", "fastddl_ddl_duplicates", "fastddl_ddl_error_rows"}

// buildsAreReported adds an index and one that cannot be, and looks for both in the tables.
func buildsAreReported(c *client) {
	c.t.Helper()
	c.run("ALTER TABLE t ADD INDEX i (b)")
	require.Equal(c.t, "synced public 100", c.lastJob("state, schema_state, percent"))
	c.run("ALTER TABLE t DROP INDEX i")
	c.fails(1062, "ALTER TABLE t ADD UNIQUE INDEX u (b)")
	require.Equal(c.t, "rollback done none", c.lastJob("state, schema_state"))
	require.Equal(c.t, "7 2", c.one(`SELECT entry, row_count FROM mysql.fastddl_ddl_duplicates
		WHERE job_id = (SELECT MAX(job_id) FROM mysql.fastddl_ddl_jobs)`))
}

// TestReportTablesMayHaveOtherColumns: a user adds some, or an older release has made the
// table with fewer.
func TestReportTablesMayHaveOtherColumns(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1, 7), (2, 7)")
	for _, table := range reportTables {
		c.run("ALTER TABLE mysql.%s ADD COLUMN note VARCHAR(10) FIRST", table)
	}
	buildsAreReported(c)
	c.run("ALTER TABLE mysql.fastddl_ddl_jobs DROP COLUMN percent")
	c.run("ALTER TABLE mysql.fastddl_ddl_duplicates DROP COLUMN row_count")
	c.run("ALTER TABLE mysql.fastddl_ddl_blockers DROP COLUMN verdict")
	// A build that cannot be reported goes on.
	c.run("ALTER TABLE t ADD INDEX i (b)")
	c.check("t")
	c.run("ALTER TABLE t DROP INDEX i")
	c.Close()
	e.close()

	e = open(t, dir)
	defer e.close()
	c = e.client()
	defer c.Close()
	buildsAreReported(c)
	require.Empty(t, c.run("SELECT verdict FROM mysql.fastddl_ddl_blockers"))
}

// TestReportTablesThatAreGone: they come back with the next statement, and what is being built is
// built without.
func TestReportTablesThatAreGone(t *testing.T) {
	e := newEnv(t)
	c, other := e.client(), e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1, 7), (2, 7)")
	drop := func() {
		for _, table := range reportTables {
			other.run("DROP TABLE mysql.%s", table)
		}
	}
	drop()
	buildsAreReported(c)
	e.before("finish", "", drop)
	c.run("ALTER TABLE t ADD INDEX i (b)")
	c.check("t")
	e.setHook(nil)
	c.run("ALTER TABLE t DROP INDEX i")
	buildsAreReported(c)
}

// TestReportsThatFailKeepTheHistory: a report that fails when it is executed, not before, takes nothing of the job's end
// with it.
func TestReportsThatFailKeepTheHistory(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("CREATE TABLE parent (id BIGINT PRIMARY KEY)")
	c.run("INSERT INTO t VALUES (1, 7), (2, 7)")
	c.run("ALTER TABLE mysql.fastddl_ddl_duplicates ADD CONSTRAINT fk FOREIGN KEY (job_id) REFERENCES test.parent (id)")
	c.fails(1062, "ALTER TABLE t ADD UNIQUE INDEX u (b)")
	require.Empty(t, c.run("SELECT * FROM mysql.fastddl_ddl_duplicates"))
	require.Contains(t, c.run("ADMIN SHOW DDL JOBS 1")[0], "rollback done")
}

// TestHistoryStaysShort: what has ended is cut while the server runs, not at the next start only.
func TestHistoryStaysShort(t *testing.T) {
	c := newEnv(t).client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1, 7), (2, 7)")
	c.run("SET cte_max_recursion_depth = 10000")
	old := "(WITH RECURSIVE n AS (SELECT -1100 AS i UNION ALL SELECT i + 1 FROM n WHERE i < -1) SELECT i%s FROM n)"
	c.run("INSERT INTO mysql.fastddl_ddl_record_history (job_id, record) "+old, ", '{}'")
	tables := []string{"fastddl_ddl_record_history", "fastddl_ddl_jobs"}
	c.run("INSERT INTO mysql.fastddl_ddl_jobs (job_id) "+old, "")
	for _, table := range []string{"fastddl_ddl_duplicates", "fastddl_ddl_error_rows"} {
		tables = append(tables, table)
		c.run("INSERT INTO mysql."+table+" (job_id, number) "+old, ", 1")
	}
	const ends = 8 // after so many it is cut
	for range ends {
		c.fails(1062, "ALTER TABLE t ADD UNIQUE INDEX u (b)")
	}
	for _, table := range tables {
		require.Equal(t, "1024", c.one("SELECT COUNT(DISTINCT job_id) FROM mysql.%s", table), table)
	}
	require.Equal(t, "16", c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_errors WHERE job_id > 0"), "the newest stay")
}
