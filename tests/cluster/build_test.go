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

// lastJob returns columns of the newest index build of ours, as a node shows it.
func (c client) lastJob(columns string) string {
	c.t.Helper()
	rows := c.rows("SELECT " + columns + " AS shown FROM mysql.fastddl_ddl_jobs ORDER BY job_id DESC LIMIT 1")
	if len(rows) == 0 {
		return ""
	}
	return rows[0]["shown"]
}

// record is the record of the only job that has not ended, empty if there is none.
func (c client) record() string {
	c.t.Helper()
	rows := c.rows("SELECT CONVERT(record USING utf8mb4) AS record FROM mysql.fastddl_ddl_record")
	if len(rows) == 0 {
		return ""
	}
	return rows[0]["record"]
}

// nothingIsLeft checks that no job has left anything in the cluster.
func (c client) nothingIsLeft() {
	c.t.Helper()
	for _, table := range []string{"fastddl_ddl_record", "fastddl_ddl_requests", "tidb_ddl_job", "tidb_mdl_info"} {
		require.Empty(c.t, c.rows("SELECT * FROM mysql."+table), table)
	}
}

// TestBuildsAreOurs: an index is built by us, from files that are imported, on one node as
// on several, and left to TiDB if the user wants it so.
func TestBuildsAreOurs(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	db := startNode(t, c).open()
	fill(db, "t", 4000)
	before := c.Imports().Imported()
	db.exec("ALTER TABLE t ADD INDEX v (v), ADD UNIQUE INDEX u (s)", "ADMIN CHECK TABLE t")
	require.Greater(t, c.Imports().Imported(), before)
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

	jobs := db.value("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs")
	db.exec("SET GLOBAL fastddl_ddl_engine = tidb")
	conn := db.session()
	must(t, conn, "SET fastddl_ddl_engine = tidb", "ALTER TABLE t ADD INDEX theirs (v)", "ADMIN CHECK TABLE t")
	require.Equal(t, jobs, db.value("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"))
}

// stuckBuild begins to build an index whose imports wait for the store.
func stuckBuild(t *testing.T, c *standin.Cluster, db client, statement string) (done <-chan error, goOn func()) {
	t.Helper()
	busy := slowIngest(c)
	done = db.later(statement)
	eventually(t, "the build waits for the store", func() bool { return busy.Hits() > 0 })
	return done, busy.Remove
}

// TestControlFromOtherNodes: jobs are shown by every node, and obey whoever of them is
// asked, with the same words, within two seconds.
func TestControlFromOtherNodes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	first, second := startNode(t, c), startNode(t, c)
	a, b := first.open(), second.open()
	fill(a, "t", 1000)
	done, goOn := stuckBuild(t, c, a, "ALTER TABLE t ADD INDEX v (v)")
	id := b.lastJob("job_id")
	for _, db := range []client{a, b} {
		shown := db.rows("ADMIN SHOW DDL JOBS 1")[0]
		require.Equal(t, id, shown["JOB_ID"])
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
		require.Equal(t, want, a.rows("ADMIN SHOW DDL JOBS 1")[0]["STATE"])
		require.Equal(t, want, b.rows("ADMIN SHOW DDL JOBS 1")[0]["STATE"])
	}
	command("successful", "ADMIN PAUSE DDL JOBS %s")
	eventually(t, "it is paused", func() bool {
		return strings.Contains(b.record(), `"state":5`) || b.rows("ADMIN SHOW DDL JOBS 1")[0]["STATE"] == "paused"
	})
	state("paused")
	here := a.rows("ADMIN PAUSE DDL JOBS " + id)[0]["RESULT"]
	require.Contains(t, here, "error")
	command(here, "ADMIN PAUSE DDL JOBS %s")
	b.exec("ADMIN ALTER DDL JOBS " + id + " THREAD = 2")
	require.Contains(t, a.rows("ADMIN SHOW DDL JOBS 1")[0]["COMMENTS"], "thread=2")
	command("successful", "ADMIN RESUME DDL JOBS %s")
	state("running")
	command("successful", "ADMIN CANCEL DDL JOBS %s")
	require.ErrorContains(t, await(t, done), "Cancelled DDL job")
	goOn()
	here = a.rows("ADMIN CANCEL DDL JOBS " + id)[0]["RESULT"]
	command(here, "ADMIN CANCEL DDL JOBS %s")
	require.Empty(t, a.rows("SHOW INDEX FROM t WHERE key_name = 'v'"))
	a.nothingIsLeft()
	b.exec("ALTER TABLE t ADD UNIQUE INDEX v (v)", "ADMIN CHECK TABLE t")
}
