package sql_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/ddl/job"
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
}
