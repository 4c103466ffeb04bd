package sql_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/pingcap/tidb/pkg/session"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
)

// unseenWriter is a session that the metadata lock does not see: what it has begun goes on by the schema of then.
type unseenWriter struct {
	t  *testing.T
	se sessiontypes.Session
}

func (e *env) unseenWriter() *unseenWriter {
	se, err := session.CreateSession(e.store.Storage())
	require.NoError(e.t, err)
	se.GetSessionVars().InRestrictedSQL = true
	e.t.Cleanup(se.Close)
	return &unseenWriter{e.t, se}
}

func (w *unseenWriter) exec(queries ...string) {
	w.t.Helper()
	for _, query := range queries {
		_, err := w.se.ExecuteInternal(asServer(), query)
		require.NoError(w.t, err, query)
	}
}

// A writer that goes on by a schema without the index, past the metadata lock, shows before the index is
// published, and the index is right: rows that it has brought in have entries, and those that it has deleted have none.
func TestMissedWriterIsFoundBeforePublication(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes string
		busy   int // rows that others write after that, past the limit of what is looked at
	}{
		{name: "rows without entries", writes: "INSERT INTO test.t VALUES (1001, 7), (1002, 8)"},
		{name: "entries without rows", writes: "DELETE FROM test.t WHERE a < 5"},
		{name: "entries with other values", writes: "UPDATE test.t SET b = b + 1000 WHERE a < 5"},
		{name: "beside many others", writes: "INSERT INTO test.t VALUES (1001, 7)", busy: 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEnv(t)
			cl := e.client()
			cl.run("CREATE TABLE t (a INT PRIMARY KEY, b INT); CREATE TABLE seq (n INT PRIMARY KEY)")
			cl.run("INSERT INTO seq WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n FROM s")
			cl.run("INSERT INTO t SELECT n, n FROM seq WHERE n <= 100")
			w := e.unseenWriter()
			w.exec("BEGIN OPTIMISTIC", c.writes)
			var done atomic.Bool
			e.setHook(func(_ context.Context, p ddl.HookPoint) error {
				if matches(p, ddl.HookPoint{When: "after", Action: "take-snapshot"}) && !done.Load() {
					w.exec("COMMIT")
					done.Store(true)
				}
				if c.busy > 0 && matches(p, ddl.HookPoint{When: "after", Action: "await-older"}) {
					for i := 0; i < c.busy; i += 1000 {
						cl.run("INSERT INTO t SELECT n + %d, n FROM seq", 2000+i)
					}
				}
				return nil
			})
			require.NoError(t, wait(t, e.start("ALTER TABLE t ADD INDEX i (b)")))
			require.True(t, done.Load())
			cl.check("t")
			require.NotEqual(t, "0", cl.one("SELECT comparisons FROM mysql.fastddl_ddl_jobs ORDER BY job_id DESC LIMIT 1"))
		})
	}
}

// Where writers are seen, what changed after S agrees, and nothing is compared with all rows.
func TestSeenWritersCauseNoComparison(t *testing.T) {
	e := newEnv(t)
	c, other := e.client(), e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, j JSON)")
	c.run("INSERT INTO t VALUES (1, 1, '[1]'), (2, 2, '[2, 2]'), (3, NULL, NULL)")
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if matches(p, ddl.HookPoint{When: "before", Action: "backfill"}) {
			other.run("INSERT INTO t VALUES (4, 1, '[1, 4]'); UPDATE t SET b = b + 1, j = '[5]' WHERE a = 1; DELETE FROM t WHERE a = 2; UPDATE t SET a = 7 WHERE a = 3")
		}
		return nil
	})
	require.NoError(t, wait(t, e.start("ALTER TABLE t ADD INDEX i (b), ADD INDEX m ((CAST(j AS SIGNED ARRAY)))")))
	require.Equal(t, "0", c.one("SELECT comparisons FROM mysql.fastddl_ddl_jobs ORDER BY job_id DESC LIMIT 1"))
	c.check("t")
}
