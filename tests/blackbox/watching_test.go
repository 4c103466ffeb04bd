package blackbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// TestWriteLimitIsInTheEstimate: a build says from its first rows on how long its write limit makes it, grows only with a reason when the
// limit is changed, and keeps in its history what has held it.
func TestWriteLimitIsInTheEstimate(t *testing.T) {
	randtest.SkipShort(t)
	n := startNode(t, t.TempDir())
	db := n.db()
	fill(t, db, "t", 20_000)
	// A row of the index on k has a key of 19 bytes with table, index and value, a handle of 9, and a value of 1 or more.
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 2000")
	done := make(chan error, 1)
	go func() {
		_, err := n.db().Exec("ALTER TABLE t ADD INDEX watched (k)")
		done <- err
	}()
	job := func(columns string) string {
		return value(t, db, "SELECT "+columns+" FROM mysql.fastddl_ddl_jobs ORDER BY job_id DESC LIMIT 1")
	}
	require.Eventually(t, func() bool {
		return value(t, db, "SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs WHERE query LIKE '%watched%' AND eta_seconds IS NOT NULL AND sorted_bytes > 0") == "1"
	}, time.Minute, 100*time.Millisecond)
	// All is sorted: what is left is to be written at 2000 bytes/s. A busy machine makes it no shorter.
	require.Eventually(t, func() bool { return job("stage") == "merge" }, time.Minute, 100*time.Millisecond)
	require.Equal(t, "1", job("eta_seconds BETWEEN 0.5 * sorted_bytes / 2000 AND 1.5 * sorted_bytes / 2000"), job("eta_seconds, sorted_bytes"))

	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 1000")
	require.Eventually(t, func() bool {
		return job("wait_reason LIKE '%takes longer: tidb_ddl_reorg_max_write_speed allows 1000 bytes/s%'") == "1"
	},
		time.Minute, 100*time.Millisecond)
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
	require.NoError(t, <-done)
	require.Equal(t, "1", job("held_seconds->'$.tidb_ddl_reorg_max_write_speed' > 1"))
	require.Equal(t, "1", job("user_name LIKE 'root@%' AND index_bytes > 0 AND verified = 'sample' AND percent = 100"))
	require.NotEqual(t, "0", value(t, db, "SELECT COUNT(*) FROM mysql.fastddl_ddl_points"))
	mustExec(t, db, "ADMIN CHECK TABLE t")
}
