package blackbox

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// TestKillAfterDiskQuota: a build reaches its disk quota, imports what it has,
// goes on, and is killed. It continues behind what was imported, and leaves
// nothing in the temp folder.
func TestKillAfterDiskQuota(t *testing.T) {
	randtest.SkipShort(t)
	rng := crashSeed(t)
	const rows = 40_000
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	mustExec(t, db, "CREATE TABLE wide (id INT PRIMARY KEY, c VARCHAR(255), d VARCHAR(255))")
	for from := 0; from < rows; from += 1000 {
		values := make([]string, 1000)
		for i := range values {
			values[i] = fmt.Sprintf("(%d,'%s','%s')", from+i, randomText(rng), randomText(rng))
		}
		mustExec(t, db, "INSERT INTO wide VALUES "+strings.Join(values, ","))
	}
	mustExec(t, db, "SET GLOBAL fastddl_ddl_memory_quota = 1")
	mustExec(t, db, "SET GLOBAL tidb_ddl_disk_quota = 1")                  // raised to the least there is
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 3145728") // so that seconds are left when the quota is reached
	altered := make(chan error, 1)
	go func() {
		_, err := n.db().Exec("ALTER TABLE wide ADD INDEX c (c), ADD INDEX d (d, c)")
		altered <- err
	}()
	require.Eventually(t, func() bool { return number(n.metric(`fastddl_ddl_backfill_stages_total{stage="scan"}`)) > 1 },
		startTimeout, 10*time.Millisecond, "the quota is not reached")
	n.kill()
	require.Error(t, <-altered)

	n = startNode(t, dir)
	db = n.db()
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
	waitForJobs(t, db)
	require.Equal(t, []string{"PRIMARY", "c", "d"}, indexNames(t, db, "wide"))
	mustExec(t, db, "ADMIN CHECK TABLE wide")
	again := number(n.metric("fastddl_ddl_backfill_rows_total"))
	require.Less(t, again, float64(rows), "rows whose entries were imported are read again")
	t.Logf("%.0f of %d rows were left", again, rows)
	requireEmptyTempDir(t, filepath.Join(dir, "tmp"))
}

// number is the value of a metric, 0 if it is not there.
func number(value string) float64 {
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return 0
	}
	return v
}

func randomText(rng *rand.Rand) string {
	b := make([]byte, 100)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return fmt.Sprintf("%x", b)
}
