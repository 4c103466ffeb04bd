package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/tests/cluster/standin"
)

// fill makes a table of n rows in several regions.
func fill(db client, table string, n int) {
	db.t.Helper()
	db.exec(fmt.Sprintf("CREATE TABLE %s (id INT PRIMARY KEY, v INT, s VARCHAR(20))", table),
		fmt.Sprintf("INSERT INTO %s WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < %d) SELECT n, n * 7, CONCAT('s', n) FROM r",
			table, min(n, 1000)))
	for have := 1000; have < n; have *= 2 {
		db.exec(fmt.Sprintf("INSERT INTO %s SELECT id + %d, v + %d, CONCAT('s', id + %d) FROM %s", table, have, 7*have, have, table))
	}
	db.exec(fmt.Sprintf("SPLIT TABLE %s BETWEEN (0) AND (%d) REGIONS 5", table, max(n, 5000)))
}

// lastJob returns columns of the newest index build of ours in this database, as a node
// shows it.
func (c client) lastJob(columns string) string {
	c.t.Helper()
	rows := c.rows("SELECT " + columns + " AS shown FROM mysql.fastddl_ddl_jobs WHERE db_name = DATABASE() ORDER BY job_id DESC LIMIT 1")
	if len(rows) == 0 {
		return ""
	}
	return rows[0]["shown"]
}

// record is the record of the only job in this database that has not ended, empty if there
// is none.
func (c client) record() string {
	c.t.Helper()
	rows := c.rows("SELECT CONVERT(record USING utf8mb4) AS record FROM mysql.fastddl_ddl_record " +
		"WHERE JSON_UNQUOTE(JSON_EXTRACT(CONVERT(record USING utf8mb4), '$.db')) = DATABASE()")
	if len(rows) == 0 {
		return ""
	}
	return rows[0]["record"]
}

// nothingIsLeft checks that no job has left anything in the cluster, as far as others
// do not use it.
func (c client) nothingIsLeft() {
	c.t.Helper()
	if live != "" {
		require.Empty(c.t, c.record())
		require.Empty(c.t, c.rows("SELECT * FROM mysql.fastddl_ddl_requests JOIN mysql.fastddl_ddl_jobs USING (job_id) WHERE db_name = DATABASE()"))
		for _, table := range []string{"tidb_ddl_job", "tidb_mdl_info"} {
			require.Empty(c.t, c.rows("SELECT j.job_id FROM mysql."+table+
				" j JOIN information_schema.tables t ON FIND_IN_SET(t.tidb_table_id, j.table_ids) WHERE t.table_schema = DATABASE()"), table)
		}
		return
	}
	for _, table := range []string{"fastddl_ddl_record", "fastddl_ddl_requests", "tidb_ddl_job", "tidb_mdl_info"} {
		require.Empty(c.t, c.rows("SELECT * FROM mysql."+table), table)
	}
}

// TestIndexesAreBuiltFromImportedFiles: an index is built by us, from files that are imported, on one node as
// on several, and left to TiDB if the user wants it so.
func TestIndexesAreBuiltFromImportedFiles(t *testing.T) {
	t.Parallel()
	c := anyCluster(t)
	n := startNode(t, c)
	db := n.open()
	fill(db, "t", 4000)
	before := imported(c)
	db.exec("ALTER TABLE t ADD INDEX v (v), ADD UNIQUE INDEX u (s)", "ADMIN CHECK TABLE t")
	requireImports(t, c, before)
	require.Equal(t, "synced", db.lastJob("state"))
	require.Equal(t, "4000", db.lastJob("row_count"))
	require.Equal(t, "4000", db.value("SELECT COUNT(*) FROM t USE INDEX (v) WHERE v > 0"))
	require.Equal(t, "77", db.value("SELECT id FROM t USE INDEX (u) WHERE s = 's77'"))
	db.nothingIsLeft()

	db.exec("UPDATE t SET v = 7 WHERE id = 3000")
	require.ErrorContains(t, db.try("ALTER TABLE t ADD UNIQUE INDEX w (v)"), "Duplicate entry '7' for key 't.w'")
	require.Empty(t, db.rows("SHOW INDEX FROM t WHERE key_name = 'w'"))
	db.exec("ADMIN CHECK TABLE t")
	db.nothingIsLeft()

	const count = "SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs WHERE db_name = DATABASE()"
	jobs := db.value(count)
	n.setGlobal("fastddl_ddl_engine", "'tidb'")
	conn := db.session()
	must(t, conn, "SET fastddl_ddl_engine = tidb", "ALTER TABLE t ADD INDEX theirs (v)", "ADMIN CHECK TABLE t")
	require.Equal(t, jobs, db.value(count))
}

// stuckBuild begins to build an index on table t, which waits until goOn: over a stand-in
// its imports for the store, on a live cluster its first state for a transaction of one
// more node.
func stuckBuild(t *testing.T, c cluster, db client, statement string) (done <-chan error, goOn func()) {
	t.Helper()
	if s, ok := c.(*standin.Cluster); ok {
		busy := slowIngest(s)
		done = db.later(statement)
		eventually(t, "the build waits for the store", func() bool { return busy.Hits() > 0 })
		return done, busy.Remove
	}
	holder := startNode(t, c).open().session()
	must(t, holder, "BEGIN", "SELECT * FROM t LIMIT 1")
	done = db.later(statement)
	eventually(t, "the build waits for the transaction", func() bool { return db.record() != "" && db.lastJob("wait_reason") != "" })
	return done, func() { must(t, holder, "COMMIT") }
}

// shown returns a job as ADMIN SHOW DDL JOBS shows it.
func (c client) shown(id string) map[string]string {
	c.t.Helper()
	const among = 20 // on a live cluster others have newer ones
	for _, row := range c.rows(fmt.Sprint("ADMIN SHOW DDL JOBS ", among)) {
		if row["JOB_ID"] == id {
			return row
		}
	}
	require.FailNow(c.t, "the job is not shown", id)
	return nil
}

// TestControlFromOtherNodes: every node shows the jobs, and commands work through any of
// them, with the same messages, within two seconds.
func TestControlFromOtherNodes(t *testing.T) {
	t.Parallel()
	c := anyCluster(t)
	first, second := startNode(t, c), startNode(t, c)
	a, b := first.open(), second.open()
	fill(a, "t", 1000)
	done, goOn := stuckBuild(t, c, a, "ALTER TABLE t ADD INDEX v (v)")
	id := b.lastJob("job_id")
	for _, db := range []client{a, b} {
		shown := db.shown(id)
		require.Equal(t, "running", shown["STATE"])
		require.Contains(t, shown["COMMENTS"], "on "+first.Addr)
	}
	command := func(want, format string) {
		t.Helper()
		began := time.Now()
		require.Equal(t, want, b.rows(fmt.Sprintf(format, id))[0]["RESULT"])
		t.Logf("%s: %s", fmt.Sprintf(format, id), time.Since(began))
	}
	state := func(want string) {
		t.Helper()
		for _, db := range []client{a, b} { // the answer comes a moment before it is shown
			eventually(t, "it is "+want, func() bool { return db.shown(id)["STATE"] == want })
		}
	}
	command("successful", "ADMIN PAUSE DDL JOBS %s")
	state("paused")
	here := a.rows("ADMIN PAUSE DDL JOBS " + id)[0]["RESULT"]
	require.Contains(t, here, "error")
	command(here, "ADMIN PAUSE DDL JOBS %s")
	b.exec("ADMIN ALTER DDL JOBS " + id + " THREAD = 2")
	eventually(t, "it has two threads", func() bool { return strings.Contains(a.shown(id)["COMMENTS"], "thread=2") })
	command("successful", "ADMIN RESUME DDL JOBS %s")
	state("running")
	command("successful", "ADMIN CANCEL DDL JOBS %s")
	if live != "" {
		goOn() // to undo the index waits for the transaction as well
	}
	require.ErrorContains(t, await(t, done), "Cancelled DDL job")
	if live == "" {
		goOn()
	}
	here = a.rows("ADMIN CANCEL DDL JOBS " + id)[0]["RESULT"]
	command(here, "ADMIN CANCEL DDL JOBS %s")
	require.Empty(t, a.rows("SHOW INDEX FROM t WHERE key_name = 'v'"))
	a.nothingIsLeft()
	b.exec("ALTER TABLE t ADD UNIQUE INDEX v (v)", "ADMIN CHECK TABLE t")
}
