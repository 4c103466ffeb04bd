package sql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
)

// Jobs on different tables run side by side; everything else on a job's table waits
// for it, TiDB's own statements too, and runs in order afterwards.
func TestBuildsOfATableRunInTurn(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	c.run("CREATE TABLE other (a INT PRIMARY KEY, b INT)")
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	first := e.start("ALTER TABLE t ADD INDEX i1 (b)")
	reach(t, arrived)
	second := e.start("ALTER TABLE t ADD UNIQUE INDEX i2 (b)")
	waiting := func(n int) func() bool {
		return func() bool {
			jobs := e.DDL().Unfinished()
			return len(jobs) == n && strings.Contains(jobs[n-1].WaitReason, "which is before it")
		}
	}
	require.Eventually(t, waiting(2), hangTimeout, 5*time.Millisecond)
	tidb := e.start("ALTER TABLE t ADD COLUMN d INT")
	require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) FROM mysql.tidb_ddl_job") == "3" }, hangTimeout, 5*time.Millisecond)
	third := e.start("ALTER TABLE t ADD INDEX i3 (d)")
	require.Equal(t, 1072, errorCode(wait(t, third)), "the column is not there yet")
	third = e.start("ALTER TABLE t ADD INDEX i3 (c)")
	require.Eventually(t, waiting(3), hangTimeout, 5*time.Millisecond)

	c.run("ALTER TABLE other ADD UNIQUE INDEX (b)")
	c.run("ALTER TABLE other ADD COLUMN c INT")
	c.run("CREATE TABLE another (a INT)")

	// What has not begun is cancelled at once.
	jobs := e.DDL().Unfinished()
	require.NoError(t, e.DDL().Cancel(context.Background(), jobs[1].ID))
	require.Equal(t, 8214, errorCode(wait(t, second)))
	require.Equal(t, "cancelled", c.one("SELECT state FROM mysql.fastddl_ddl_jobs WHERE job_id = %d", jobs[1].ID))
	close(leave)
	require.NoError(t, wait(t, first))
	require.NoError(t, wait(t, tidb))
	require.NoError(t, wait(t, third))
	c.check("t")
	shown := c.one("SHOW CREATE TABLE t")
	for _, want := range []string{"`i1`", "`i3`", "`d`"} {
		require.Contains(t, shown, want)
	}
	require.NotContains(t, shown, "`i2`")
}

// A job that is paused in line has not begun, and no row or log says that it has.
func TestPausedQueuedJobHasNotBegun(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	first := e.start("ALTER TABLE t ADD INDEX i1 (b)")
	reach(t, arrived)
	second := e.start("ALTER TABLE t ADD INDEX i2 (b)")
	require.Eventually(t, func() bool { return len(e.DDL().Unfinished()) == 2 }, hangTimeout, 5*time.Millisecond)
	id := e.DDL().Unfinished()[1].ID
	started := func() string {
		return c.one("SELECT start_time IS NOT NULL FROM information_schema.ddl_jobs WHERE job_id = %d", id)
	}
	require.NoError(t, e.DDL().Pause(t.Context(), id))
	require.Eventually(t, func() bool { // the pause is durable
		return strings.Contains(c.one("SELECT CONVERT(record USING utf8mb4) FROM mysql.fastddl_ddl_record WHERE job_id = %d", id), fmt.Sprintf(`"state":%d,`, model.JobStatePaused))
	}, hangTimeout, 5*time.Millisecond)
	require.Equal(t, "0", started())
	require.Zero(t, e.DDL().Unfinished()[1].StartTime)
	require.NoError(t, e.DDL().Resume(t.Context(), id))
	close(leave)
	require.NoError(t, wait(t, first))
	require.NoError(t, wait(t, second))
	require.Equal(t, "1", started())
}

// TestShowDDLJobsOfAJobThatEnds: TiDB reads its queue first. A job that ends after that is shown as it has ended.
func TestShowDDLJobsOfAJobThatEnds(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	reach(t, arrived)
	shown, err := c.Execute(t.Context(), "ADMIN SHOW DDL JOBS 1")
	require.NoError(t, err)
	close(leave)
	require.NoError(t, wait(t, result))
	require.Eventually(t, func() bool { return len(e.DDL().Unfinished()) == 0 }, hangTimeout, time.Millisecond)
	rows, err := sqlexec.DrainRecordSet(t.Context(), shown[0], 1024)
	require.NoError(t, err)
	require.NoError(t, shown[0].Close())
	at := make(map[string]int)
	for i, f := range shown[0].Fields() {
		at[strings.ToLower(f.ColumnAsName.O)] = i
	}
	require.Equal(t, "synced", rows[0].GetString(at["state"]))
	require.Equal(t, "public", rows[0].GetString(at["schema_state"]))
	require.EqualValues(t, 10, rows[0].GetInt64(at["row_count"]))
	require.Equal(t, c.one("SELECT end_time FROM information_schema.ddl_jobs WHERE job_id = %d", rows[0].GetInt64(at["job_id"])), rows[0].GetTime(at["end_time"]).String())
}

// Garbage collection is held at S from before the import until the job has ended.
func TestGarbageCollectionIsHeld(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	held := func() (ts uint64, ok bool) {
		holds, err := e.store.Builds().GCHolds(context.Background())
		require.NoError(t, err)
		for name, at := range holds {
			if strings.HasPrefix(name, "fastddl-job-") {
				ts, ok = at, true
			}
		}
		return ts, ok
	}
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "change-schema", Step: "drained"})
	result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	reach(t, arrived)
	ts, ok := held()
	require.True(t, ok)
	require.Equal(t, e.DDL().Unfinished()[0].Snapshot, ts)
	close(leave)
	require.NoError(t, wait(t, result))
	_, ok = held()
	require.False(t, ok)
}

// A transaction that began before S and touches the table only later is none of
// those that are waited for; it fails with a conflict at worst, and the index is
// right.
func TestOldTransaction(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	for _, mode := range []string{"PESSIMISTIC", "OPTIMISTIC"} {
		old := e.client()
		old.run("BEGIN " + mode)
		c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
		if _, err := old.try("UPDATE t SET b = b + 1000 WHERE a < 5; COMMIT"); err != nil {
			require.Contains(t, []int{9007, 8022, 8028}, errorCode(err), err.Error())
			old.run("ROLLBACK")
		}
		c.check("t")
		c.run("ALTER TABLE t DROP INDEX u")
	}
}
