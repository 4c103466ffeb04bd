package blackbox

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// blocker is a row of mysql.tidb_mdl_view.
type blocker struct {
	job, table, query, session, statements string
}

func blockers(t *testing.T, db *sql.DB) []blocker {
	t.Helper()
	var all []blocker
	for _, r := range queryAll(t, db, "SELECT job_id, CONCAT(db_name, '.', table_name), query, session_id, sql_digests FROM mysql.tidb_mdl_view") {
		all = append(all, blocker{r[0], r[1], r[2], r[3], r[4]})
	}
	return all
}

// waitForBlocker waits until a job waits for one transaction, and returns it.
func waitForBlocker(t *testing.T, db *sql.DB) blocker {
	t.Helper()
	var found []blocker
	require.Eventually(t, func() bool {
		found = blockers(t, db)
		return len(found) == 1
	}, startTimeout, pollInterval, "a job waits for one transaction")
	return found[0]
}

// The demonstration that every MySQL user knows: one session reads, another one
// alters the table, and from then on all hang. Here the ALTER waits for the
// one that reads, and no session waits for the ALTER.
func TestFourTerminalsWithAReader(t *testing.T) { untilSpared(t, fourTerminals) }

// fourTerminals is done if KILL QUERY has left the reader its connection.
func fourTerminals(t *testing.T) (done bool) {
	n := startNode(t, t.TempDir())
	db := n.db()
	fill(t, db, "t", 200)
	sleeper, altering := n.terminal(), n.terminal()

	sleeper.exec("BEGIN")
	sleeping := sleeper.start("SELECT SLEEP(1000) FROM t")
	running(t, db, sleeper.id)
	alter := altering.start("ALTER TABLE t ADD INDEX k (k)")
	require.Equal(t, sleeper.id, waitForBlocker(t, db).session)
	requireNoQueue(t, n)
	// A statement whose answer is here may be in the list a moment longer.
	require.Eventually(t, func() bool {
		others := value(t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND = 'Query' AND INFO NOT LIKE '%PROCESSLIST%' "+
			"AND ID NOT IN ("+sleeper.id+", "+altering.id+")")
		return others == "0"
	}, hangTimeout, pollInterval, "only these two hang")
	requireWaits(t, sleeping)
	requireWaits(t, alter)

	mustExec(t, db, "KILL QUERY "+sleeper.id)
	requireCode(t, requireEnds(t, sleeping), 1317, "70100", "Query execution was interrupted")
	if !sleeper.outlivesKillQuery() {
		return false
	}
	require.Equal(t, "200", sleeper.value("SELECT COUNT(*) FROM t"), "the transaction reads on")
	requireWaits(t, alter)
	sleeper.exec("COMMIT")
	require.NoError(t, requireEnds(t, alter))
	require.Empty(t, blockers(t, db))
	mustExec(t, db, "ADMIN CHECK TABLE t")
	return true
}

// alterBehindWriter is the same with a transaction that has written: the ALTER
// waits for it, and for it alone.
func alterBehindWriter(t *testing.T, n *node) (writer *terminal, alter <-chan error, job string) {
	t.Helper()
	db := n.db()
	fill(t, db, "t", 200)
	writer = n.terminal()
	writer.exec("BEGIN")
	writer.exec("UPDATE t SET k = -1 WHERE id = 1")
	alter = n.terminal().start("ALTER TABLE t ADD INDEX k (k)")
	b := waitForBlocker(t, db)
	require.Equal(t, writer.id, b.session)
	require.Equal(t, "test.t", b.table)
	require.Equal(t, "ALTER TABLE t ADD INDEX k (k)", b.query)
	require.Contains(t, b.statements, "update `t` set `k` = ? where `id` = ?")
	return writer, alter, b.job
}

func TestFourTerminalsWithAWriter(t *testing.T) {
	n := startNode(t, t.TempDir())
	writer, alter, _ := alterBehindWriter(t, n)
	db := n.db()
	requireNoQueue(t, n)
	requireWaits(t, alter)
	require.Len(t, blockers(t, db), 1, "the others are not waited for")

	writer.exec("INSERT INTO t VALUES (5000, 5000, 'late')") // it goes on as before
	writer.exec("COMMIT")
	require.NoError(t, requireEnds(t, alter))
	require.Empty(t, blockers(t, db))
	mustExec(t, db, "ADMIN CHECK TABLE t")
	require.Equal(t, []string{"PRIMARY", "k"}, indexNames(t, db, "t"))
	require.Equal(t, "1", value(t, db, "SELECT id FROM t WHERE k = -1"))
	require.Equal(t, "5000", value(t, db, "SELECT id FROM t WHERE k = 5000"))
}

// requireNoQueue runs every kind of statement on the table that an ALTER
// waits for, in old and in new sessions.
func requireNoQueue(t *testing.T, n *node) {
	t.Helper()
	c := n.terminal()
	for i := range 20 {
		id := 10_000 + i
		for _, q := range []string{
			fmt.Sprintf("INSERT INTO t VALUES (%d, %d, 'new')", id, id),
			fmt.Sprintf("UPDATE t SET k = k + 1 WHERE id = %d", 2+i),
			fmt.Sprintf("DELETE FROM t WHERE id = %d", 100+i),
			fmt.Sprintf("REPLACE INTO t VALUES (%d, 1, 'replaced')", 50+i),
			"SELECT * FROM t",
			"BEGIN", fmt.Sprintf("UPDATE t SET k = 0 WHERE id = %d", id), fmt.Sprintf("SELECT * FROM t WHERE id = %d FOR UPDATE", 2+i), "COMMIT",
		} {
			require.NoError(t, requireEnds(t, c.start(q)), q)
		}
	}
	require.NoError(t, requireEnds(t, n.terminal().start("UPDATE t SET k = 7 WHERE id = 30")), "a new session")
}

func TestWaitingAlterGoesOnWhenTheWriterEnds(t *testing.T) {
	randtest.SkipShort(t)
	for name, end := range map[string]func(n *node, writer *terminal){
		"rollback":   func(_ *node, w *terminal) { w.exec("ROLLBACK") },
		"kill":       func(n *node, w *terminal) { mustExec(n.t, n.db(), "KILL "+w.id) },
		"ddl":        func(_ *node, w *terminal) { w.exec("CREATE TABLE implicit_commit (a INT)") },
		"disconnect": func(_ *node, w *terminal) { w.close() },
		"tcp reset":  func(_ *node, w *terminal) { w.reset() },
		"kill while a statement runs": func(n *node, w *terminal) {
			done := w.start("SELECT SLEEP(1000)")
			running(n.t, n.db(), w.id)
			mustExec(n.t, n.db(), "KILL CONNECTION "+w.id)
			require.Error(n.t, requireEnds(n.t, done))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, t.TempDir())
			writer, alter, _ := alterBehindWriter(t, n)
			requireWaits(t, alter)
			end(n, writer)
			require.NoError(t, requireEnds(t, alter))
			db := n.db()
			require.Empty(t, blockers(t, db))
			mustExec(t, db, "ADMIN CHECK TABLE t")
			want := "0"
			if name == "ddl" {
				want = "1"
			}
			require.Equal(t, want, value(t, db, "SELECT COUNT(*) FROM t WHERE k = -1"))
			switch {
			case strings.HasPrefix(name, "kill"):
				require.Error(t, writer.try("SELECT 1"), "its connection is gone")
				requireGone(t, db, writer.id)
			case name == "tcp reset":
				requireGone(t, db, writer.id)
			}
		})
	}
}

// KILL QUERY ends a statement that runs; the transaction goes on, and so does the
// wait.
func TestKillQueryLeavesTheTransaction(t *testing.T) { untilSpared(t, killQueryOfAWriter) }

// killQueryOfAWriter is done if KILL QUERY has left the writer its connection.
func killQueryOfAWriter(t *testing.T) (done bool) {
	n := startNode(t, t.TempDir())
	writer, alter, _ := alterBehindWriter(t, n)
	db := n.db()
	writer.exec("UPDATE t SET k = -2 WHERE id = 2")
	sleeping := writer.start("SELECT SLEEP(1000), id FROM t")
	running(t, db, writer.id)
	mustExec(t, db, "KILL QUERY "+writer.id)
	requireCode(t, requireEnds(t, sleeping), 1317, "70100", "Query execution was interrupted")
	if !writer.outlivesKillQuery() {
		return false
	}
	require.Equal(t, writer.id, waitForBlocker(t, db).session)
	requireWaits(t, alter)
	writer.exec("COMMIT")
	require.NoError(t, requireEnds(t, alter))
	require.Equal(t, "2", value(t, db, "SELECT COUNT(*) FROM t WHERE k < 0"))
	return true
}

func TestControlOfAWaitingJob(t *testing.T) {
	randtest.SkipShort(t)
	jobState := func(t *testing.T, db *sql.DB, id string) string {
		for _, job := range jobs(t, db) {
			if job["JOB_ID"] == id {
				return job["STATE"]
			}
		}
		return ""
	}
	t.Run("cancel", func(t *testing.T) {
		n := startNode(t, t.TempDir())
		writer, alter, id := alterBehindWriter(t, n)
		db := n.db()
		mustExec(t, db, "ADMIN CANCEL DDL JOBS "+id)
		require.Eventually(t, func() bool { return jobState(t, db, id) != "running" }, hangTimeout, pollInterval)
		// An index that the writer maintains must not go before the writer has.
		writer.exec("UPDATE t SET k = -2 WHERE id = 2")
		writer.exec("COMMIT")
		requireCode(t, requireEnds(t, alter), 8214, "HY000", "Cancelled DDL job")
		require.Equal(t, []string{"PRIMARY"}, indexNames(t, db, "t"))
		mustExec(t, db, "ADMIN CHECK TABLE t")
		mustExec(t, db, "ALTER TABLE t ADD INDEX k (k)")
		mustExec(t, db, "ADMIN CHECK TABLE t")
	})
	t.Run("pause and resume", func(t *testing.T) {
		n := startNode(t, t.TempDir())
		writer, alter, id := alterBehindWriter(t, n)
		db := n.db()
		mustExec(t, db, "ADMIN PAUSE DDL JOBS "+id)
		require.Eventually(t, func() bool { return jobState(t, db, id) == "paused" }, hangTimeout, pollInterval)
		writer.exec("COMMIT")
		time.Sleep(200 * time.Millisecond)
		requireWaits(t, alter)
		mustExec(t, db, "ADMIN RESUME DDL JOBS "+id)
		require.NoError(t, requireEnds(t, alter))
		mustExec(t, db, "ADMIN CHECK TABLE t")
	})
}

// Without the metadata lock indexes are built by TiDB, which waits for two leases
// of the schema instead.
func TestMetadataLockOff(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	fill(t, db, "t", 200)
	mustExec(t, db, "SET GLOBAL tidb_enable_metadata_lock = OFF")
	alter := n.terminal().start("ALTER TABLE t ADD INDEX k (k)")
	require.Eventually(t, func() bool {
		list := jobs(t, db)
		return len(list) > 0 && list[0]["TABLE_NAME"] == "t" && list[0]["SCHEMA_STATE"] != "none" && list[0]["SCHEMA_STATE"] != "public"
	}, hangTimeout, pollInterval)
	writer := n.terminal()
	for err := errors.New("not yet"); err != nil; {
		writer.exec("BEGIN")
		writer.exec("UPDATE t SET k = -1 WHERE id = 1")
		// Without the lock a transaction may meet a change of the table.
		if err = writer.try("COMMIT"); err != nil {
			requireCode(t, err, 8028, "HY000", "Information schema is changed")
		}
	}
	require.Empty(t, blockers(t, db))
	require.Equal(t, "0", value(t, db, "SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"))
	if !longTests() { // it takes minutes
		return
	}
	require.NoError(t, <-alter)
	require.Equal(t, "1", value(t, db, "SELECT id FROM t WHERE k = -1"))
	mustExec(t, db, "ADMIN CHECK TABLE t")
}

// A transaction that began before the index reads through no index that it does
// not know, and what it reads stays what it was.
func TestOldTransactionsDoNotReadThroughTheIndex(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	fill(t, db, "t", 500)
	const (
		query = "SELECT GROUP_CONCAT(id ORDER BY id) FROM t WHERE k BETWEEN 10 AND 19"
		scan  = "TableFullScan"
		index = "index:k(k)"
	)
	old := n.terminal()
	old.exec("START TRANSACTION WITH CONSISTENT SNAPSHOT")
	plan := func() string { return old.rows("EXPLAIN " + query) }
	before := old.value(query)
	require.Contains(t, plan(), scan)

	mustExec(t, db, "UPDATE t SET k = 15 WHERE id <= 5")
	mustExec(t, db, "DELETE FROM t WHERE k = 12")
	alter := n.terminal().start("ALTER TABLE t ADD INDEX k (k)")
	require.Equal(t, old.id, waitForBlocker(t, db).session, "also who has only read is waited for")
	mustExec(t, db, "UPDATE t SET k = 16 WHERE id BETWEEN 6 AND 9")
	require.Equal(t, before, old.value(query))
	require.Contains(t, plan(), scan)
	old.exec("UPDATE t SET k = 17 WHERE id = 300")
	require.Equal(t, "300", old.value("SELECT id FROM t WHERE k = 17 AND id = 300"))
	requireWaits(t, alter)
	old.exec("COMMIT")
	require.NoError(t, requireEnds(t, alter))

	require.Contains(t, explain(t, db, query), index)
	require.NotEqual(t, before, value(t, db, query))
	require.Equal(t, "300", value(t, db, "SELECT id FROM t WHERE k = 17 AND id = 300"))
	require.Contains(t, plan(), index, "the next transaction knows the index")
	mustExec(t, db, "ADMIN CHECK TABLE t")
}

// A transaction whose snapshot is older than the index may use the table first
// when the index is there: it sees what was there.
func TestOldSnapshotBehindTheIndex(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	fill(t, db, "t", 500)
	const query = "SELECT GROUP_CONCAT(id ORDER BY id) FROM t WHERE k BETWEEN 10 AND 19"
	before := value(t, db, query)
	old := n.terminal()
	old.exec("START TRANSACTION WITH CONSISTENT SNAPSHOT")
	mustExec(t, db, "UPDATE t SET k = 15 WHERE id <= 5")
	mustExec(t, db, "ALTER TABLE t ADD INDEX k (k)")
	mustExec(t, db, "UPDATE t SET k = 16 WHERE id BETWEEN 6 AND 9")
	got, err := old.tryValue(query)
	if err != nil {
		requireCode(t, err, 8028, "HY000", "Information schema is changed")
		return
	}
	require.Equal(t, before, got)
	old.exec("COMMIT")
}

// TestLongWaitIsShown: the reason for which a migration hangs is in the log, with the connection, and in the metrics, TiDB's own
// among them. The log also has the commands that ended it, with their users.
func TestLongWaitIsShown(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	mustExec(t, db, "CREATE TABLE w (id INT PRIMARY KEY, a INT)")
	mustExec(t, db, "INSERT INTO w VALUES (1, 1)")
	holder := n.terminal()
	holder.exec("BEGIN")
	holder.exec("UPDATE w SET a = 2")
	altered := n.terminal().start("ALTER TABLE w ADD INDEX a (a)")
	logged := func(text string) func() bool {
		return func() bool { return strings.Contains(n.Stderr.String(), text) }
	}
	require.Eventually(t, logged("for: metadata lock, held by 1 transaction: connection "+holder.id), hangTimeout, pollInterval)
	id := value(t, db, "SELECT job_id FROM mysql.tidb_ddl_job")
	mustExec(t, db, "ADMIN ALTER DDL JOBS "+id+" THREAD = 3")
	asked := regexp.MustCompile("job " + id + ` was asked by root@127.0.0.1, connection \d+: .*ADMIN ALTER DDL JOBS ` + id + " THREAD = 3.*: done")
	require.Eventually(t, func() bool { return asked.MatchString(n.Stderr.String()) }, hangTimeout, pollInterval)
	shown := metricsOf(t, n)
	require.Contains(t, shown, `fastddl_ddl_job_wait_seconds{db="test",job="`+id+`",reason="metadata lock",table="w"} `)
	require.Contains(t, shown, `fastddl_ddl_job_percent{db="test",job="`+id+`",table="w"} `)
	require.Contains(t, shown, `tidb_ddl_running_job_count{type="reorg"} 1`)
	require.Contains(t, shown, `tidb_ddl_backfill_percentage_progress{type="add_index-test-w-a"} `)
	require.Contains(t, shown, `fastddl_store_disk_free_bytes `)

	holder.exec("COMMIT")
	require.NoError(t, requireEnds(t, altered))
	require.Eventually(t, logged("waits no more, after "), hangTimeout, pollInterval)
	require.Eventually(t, func() bool { return !strings.Contains(metricsOf(t, n), "fastddl_ddl_job_percent{") }, hangTimeout, pollInterval)
	shown = metricsOf(t, n)
	require.Contains(t, shown, `tidb_ddl_running_job_count{type="reorg"} 0`)
	require.Contains(t, shown, `tidb_ddl_add_index_total{type="add_idx_rate-test-w-a"} 1`)
	require.NotContains(t, shown, "fastddl_ddl_job_wait_seconds{")
	require.NotContains(t, shown, "add_index-test-w-a")
}

// metricsOf is what Prometheus reads of a node.
func metricsOf(t *testing.T, n *node) string {
	t.Helper()
	resp, err := http.Get("http://" + n.status + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}
