package sql_test

import (
	"context"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/flow"
	"fastddl/sql"
)

// Index builds yield while statements run: one that is counted for ever would hold them
// back for ever, and to one that is not counted they do not yield.
func TestStatementsAreMeasured(t *testing.T) {
	meter := new(flow.StatementMeter)
	e := newEnv(t, func(o *sql.Options) { o.Foreground = meter })
	c := e.client()
	table(c, 10)
	for _, query := range []string{
		"SELECT * FROM t", "INSERT INTO t VALUES (100, 1, '')", "BEGIN; UPDATE t SET b = 2; COMMIT", "SET @a = 1", "SHOW TABLES",
		"PREPARE p FROM 'SELECT * FROM t WHERE a = ?'; EXECUTE p USING @a; DEALLOCATE PREPARE p",
		"ADMIN SHOW DDL JOBS", "ADMIN CHECK TABLE t", "ANALYZE TABLE t", "EXPLAIN ANALYZE SELECT * FROM t",
		"ALTER TABLE t ADD INDEX i (b), ADD COLUMN d INT", "CREATE TABLE u LIKE t", "DROP TABLE u",
	} {
		c.run(query)
		require.Zero(t, meter.Executing(), query)
	}
	for query, code := range map[string]int{
		"SELECT * FROM absent": 1146, "INSERT INTO t (a) VALUES (1)": 1062, "SELECT * FROM t WHERE a = (SELECT a FROM t)": 1242,
		"ALTER TABLE t ADD INDEX i (b)": 1061, "EXECUTE absent": 8111, "SELECT FROM": 1064,
	} {
		c.fails(code, query)
		require.Zero(t, meter.Executing(), query)
	}
	require.Positive(t, meter.Recent(time.Now()), "nothing was measured")

	execute := func(query string) sqlexec.RecordSet {
		t.Helper()
		stmts, err := c.Parse(context.Background(), query)
		require.NoError(t, err)
		rows, err := c.ExecuteStmt(context.Background(), stmts[0])
		require.NoError(t, err)
		return rows
	}
	rows := execute("SELECT * FROM t")
	require.Equal(t, 1, meter.Executing(), "a statement runs until its rows are closed")
	require.NoError(t, rows.Close())
	require.NoError(t, rows.Close())
	require.Zero(t, meter.Executing(), "once")

	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	building := e.start("ALTER TABLE t ADD INDEX j (b)")
	reach(t, arrived)
	require.Zero(t, meter.Executing(), "a build does not yield to the statement that waits for it")
	close(leave)
	require.NoError(t, wait(t, building))
}
