package sql_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/ddl/job"
	"fastddl/flow"
	"fastddl/sql"
)

// stagesOf returns the stages of the newest job.
func stagesOf(c *client) map[string]job.StageTime {
	c.t.Helper()
	var stages []job.StageTime
	require.NoError(c.t, json.Unmarshal([]byte(c.lastJob("stages")), &stages))
	of := make(map[string]job.StageTime)
	for _, s := range stages {
		require.NotContains(c.t, of, s.Stage)
		require.GreaterOrEqual(c.t, s.Seconds, 0.0)
		of[s.Stage] = s
	}
	return of
}

// TestHistoryHasStages: a job that has ended says how long it was in each stage and what it did there, and what it did
// before a restart too.
func TestHistoryHasStages(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	table(c, 500)
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (a)")
	require.Equal(t, "auto", c.lastJob("verify"))
	stages := stagesOf(c)
	for _, stage := range []string{"wait", "scan", "merge", "compare"} {
		require.Contains(t, stages, stage)
		require.Positive(t, stages[stage].Seconds, stage)
	}
	require.EqualValues(t, 500, stages["scan"].Rows)
	require.EqualValues(t, 500, stages["merge"].Rows)
	require.Greater(t, stages["scan"].Bytes, int64(500*10), "keys with table, index and value")
	require.Positive(t, stages["merge"].Bytes)
	c.Close()
	e.dieAt(t, "ALTER TABLE t ADD UNIQUE INDEX v (a)", ddl.HookPoint{When: "after", Action: "backfill"})
	e.close()

	e = open(t, dir)
	defer e.close()
	c = e.client()
	defer c.Close()
	c.awaitNoJob()
	stages = stagesOf(c)
	require.EqualValues(t, 500, stages["scan"].Rows, "before the restart")
	require.Contains(t, stages, "compare", "after it")
	require.Equal(t, "1 1", c.lastJob("sorted_bytes > 500 * 10, written_bytes > 0"), "before the restart too")
}

// TestHistoryTellsHowAJobWent: the client that executed it, its settings, what it has waited for, what it has cost and how it was
// verified.
func TestHistoryTellsHowAJobWent(t *testing.T) {
	foreground := new(flow.StatementMeter)
	e := newEnv(t, func(o *sql.Options) { o.Foreground = foreground })
	c, other := e.client(), e.client()
	table(c, 500)
	c.run("SELECT * FROM t")
	c.GetSessionVars().ConnectionInfo = &variable.ConnectionInfo{Attributes: map[string]string{"program_name": "migrate"}}
	c.run("SET tidb_ddl_reorg_worker_cnt = 3")
	c.run("SET fastddl_ddl_verify = 'full'")
	other.run("BEGIN")
	other.run("SELECT * FROM t LIMIT 1")
	done := make(chan error, 1)
	go func() {
		_, err := c.try("ALTER TABLE t ADD INDEX i (b)")
		done <- err
	}()
	require.Eventually(t, func() bool { return e.client().one("SELECT COUNT(*) FROM mysql.fastddl_ddl_blockers") == "1" }, hangTimeout, 10*time.Millisecond)
	other.run("COMMIT")
	require.NoError(t, wait(t, done))
	require.Equal(t, `migrate 3 full full`, c.lastJob("program_name, settings->>'$.threads', verify, verified"))
	require.Equal(t, fmt.Sprint(c.GetSessionVars().ConnectionID), c.lastJob("COALESCE(conn_id, 0)"))
	require.Equal(t, "metadata lock 1", c.lastJob("waited_for->>'$[0].reason', waited_for->'$[0].seconds' > 0.01"))
	require.Equal(t, "1 1 1", c.lastJob("sorted_bytes > 500 * 10, written_bytes > 0, index_bytes > 0"))
	require.Equal(t, "1 1", c.lastJob("foreground_p99_before_ms > 0, foreground_p99_ms IS NULL"))
	require.Equal(t, "1 1", c.lastJob("snapshot_age_seconds IS NULL, last_error IS NULL"))
	require.Equal(t, "1500", c.one("SELECT SUM(row_count) FROM mysql.fastddl_ddl_points WHERE job_id = (SELECT MAX(job_id) FROM mysql.fastddl_ddl_jobs)"),
		"read, imported and read back")
}
