package blackbox

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// A process that is killed while it executes a statement that does more than adding
// an index: as soon as clients can read again, all of the statement has happened or
// nothing, and in the end all if it had been queued.
func TestKillsDuringMixedAlter(t *testing.T) {
	randtest.SkipShort(t)
	kills := 5
	if os.Getenv("FASTDDL_LONG") != "" {
		kills = 60
	}
	const statement = `ALTER TABLE t ADD UNIQUE INDEX u (k, id), DROP INDEX ik, DROP COLUMN c, ADD COLUMN n INT NOT NULL DEFAULT 5 AFTER id,
			RENAME INDEX other TO another, COMMENT = 'new'`
	rng := randtest.Rand(t)
	dir := t.TempDir()
	n := startNode(t, dir)
	prepare := func() (was string) {
		db := n.db()
		mustExec(t, db, "DROP TABLE IF EXISTS t")
		fill(t, db, "t", 2000)
		mustExec(t, db, "ALTER TABLE t ADD INDEX ik (k), ADD INDEX other (k, id)")
		return queryAll(t, db, "SHOW CREATE TABLE t")[0][1]
	}
	was := prepare()
	began := time.Now()
	mustExec(t, n.db(), statement)
	took := time.Since(began)
	want := queryAll(t, n.db(), "SHOW CREATE TABLE t")[0][1]

	seen := make(map[string]int)
	for range kills {
		require.Equal(t, was, prepare())
		ended := n.terminal().start(statement)
		time.Sleep(time.Duration(rng.Int64N(int64(took))))
		n.kill()
		<-ended
		n = startNode(t, dir)
		db := n.db()
		queued := value(t, db, "SELECT COUNT(*) FROM mysql.fastddl_ddl_record") != "0"
		at := queryAll(t, db, "SHOW CREATE TABLE t")[0][1]
		require.Contains(t, []string{was, want}, at)
		mustExec(t, db, "INSERT IGNORE INTO t (id, k) VALUES (5000, 5000)")
		waitForJobs(t, db)
		after := queryAll(t, db, "SHOW CREATE TABLE t")[0][1]
		if queued || at == want {
			require.Equal(t, want, after)
		}
		require.Contains(t, []string{was, want}, after)
		require.Equal(t, "2001", value(t, db, "SELECT COUNT(*) FROM t"))
		checkTable(t, db, "t")
		require.Equal(t, "0", value(t, db, "SELECT COUNT(*) FROM mysql.tidb_ddl_job"))
		seen[fmt.Sprintf("visible at the start: %v, in the end: %v", at == want, after == want)]++
	}
	t.Logf("a statement takes %s; %d kills: %v", took, kills, seen)
}
