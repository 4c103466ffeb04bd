package sql_test

import (
	"context"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/internal/randtest"
)

// The metadata lock knows the tables that a prepared statement writes, also if TiDB has not listed them when it was prepared.
func TestPreparedStatementsAreInsideTheMetadataLock(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	t.Cleanup(func() { variable.EnableMDL.Store(true) })
	for name, when := range map[string]struct{ before, after func(w *client) }{
		"plain":    {func(*client) {}, func(*client) {}},
		"snapshot": {func(w *client) { w.run("SET tidb_snapshot = NOW(6)") }, func(w *client) { w.run("SET tidb_snapshot = ''") }},
		"stale transaction": {
			func(w *client) { w.run("START TRANSACTION READ ONLY AS OF TIMESTAMP NOW(6)") }, func(w *client) { w.run("COMMIT") },
		},
		"no metadata lock": {func(*client) { variable.EnableMDL.Store(false) }, func(*client) { variable.EnableMDL.Store(true) }},
	} {
		for _, text := range []string{
			"INSERT INTO t VALUES (1000, 1, '')", "INSERT INTO t SELECT a + 1000, b, c FROM t", "REPLACE INTO t VALUES (1, 1, '')",
			"INSERT INTO t VALUES (1, 1, '') ON DUPLICATE KEY UPDATE b = 1000", "UPDATE t SET b = 1000 WHERE a = 1", "UPDATE t SET b = 1000 WHERE b > 7",
			"DELETE FROM t WHERE a = 1", "DELETE FROM t WHERE b = 14", "EXPLAIN ANALYZE INSERT INTO t VALUES (1000, 1, '')",
		} {
			t.Run(name+" "+text, func(t *testing.T) {
				c, w := c.of(t), e.client().of(t)
				table(c, 10)
				c.run("CREATE DATABASE IF NOT EXISTS other")
				when.before(w)
				w.run(`PREPARE p FROM "` + text + `"`)
				id, _, _, err := w.PrepareStmt(text)
				require.NoError(t, err)
				when.after(w)
				w.run("USE other")
				for _, execute := range []func(){
					func() { w.run("EXECUTE p") }, func() { w.run("EXECUTE p") },
					func() {
						rows, err := w.ExecutePreparedStmt(t.Context(), id, []expression.Expression(nil))
						require.NoError(t, err)
						if rows != nil {
							require.NoError(t, rows.Close())
						}
					},
				} {
					w.run("BEGIN")
					execute()
					require.Empty(t, e.reported(c, "t"), "a job would not wait for the transaction")
					w.run("ROLLBACK")
					require.Len(t, e.reported(c, "t"), 1)
				}
				w.run("EXECUTE p")
				require.Len(t, e.reported(c, "t"), 1)
				c.check("t")
			})
		}
	}
}

// A plan that TiDB keeps is not used in a transaction that has another definition of the table, also if the statement was first
// executed when there was no metadata lock.
func TestPlansAreKeptWithTheirTables(t *testing.T) {
	e := newEnv(t)
	c, w := e.client(), e.client()
	t.Cleanup(func() { variable.EnableMDL.Store(true) })
	w.run("SET tidb_enable_non_prepared_plan_cache = ON, tidb_enable_non_prepared_plan_cache_for_dml = ON")
	for name, first := range map[string]func(){
		"no metadata lock": func() {
			variable.EnableMDL.Store(false)
			w.run("INSERT INTO t VALUES (1000, 1, '')")
			variable.EnableMDL.Store(true)
		},
		"snapshot": func() {
			w.run("SET tidb_snapshot = NOW(6)")
			_, err := w.try("INSERT INTO t VALUES (1000, 1, '')")
			require.Error(t, err)
			w.run("SET tidb_snapshot = ''")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, w := c.of(t), w.of(t)
			table(c, 10)
			first()
			w.run("BEGIN; INSERT INTO t VALUES (1001, 1, ''); COMMIT")
			w.run("BEGIN")
			e.setHook(func(_ context.Context, p ddl.HookPoint) error {
				switch {
				case matches(p, hooks[beforeS]):
					w.run("INSERT INTO t VALUES (1002, 2, '')")
				case matches(p, hooks[afterS]):
					w.run("COMMIT")
				}
				return nil
			})
			c.run("ALTER TABLE t ADD INDEX i (b)")
			e.setHook(nil)
			c.check("t")
			require.Equal(t, "1002", c.one("SELECT a FROM t USE INDEX (i) WHERE b = 2"))
			require.Equal(t, "0", c.lastJob("repaired_keys"), "a plan has left out the index, which only the comparison has noticed")
		})
	}
}

// A statement that cannot be prepared again fails with the code of its cause, and the client goes on as after any other error.
func TestErrorsOfPreparingAgainHaveCodes(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	w, err := e.serve().Conn(t.Context())
	require.NoError(t, err)
	fails := func(text string) {
		_, err := w.ExecContext(t.Context(), text)
		var told *mysql.MySQLError
		require.ErrorAs(t, err, &told)
		require.EqualValues(t, 1146, told.Number, told.Message)
		require.Equal(t, "Table 'test.t' doesn't exist", told.Message)
	}
	exec(t, w, "SET tidb_snapshot = NOW(6)")
	exec(t, w, "PREPARE p FROM 'UPDATE t SET b = 1000 WHERE a = 1'")
	exec(t, w, "SET tidb_snapshot = ''")
	c.run("ALTER TABLE t RENAME TO s")
	fails("EXECUTE p")
	exec(t, w, "BEGIN")
	exec(t, w, "INSERT INTO s VALUES (1000, 1, '')")
	fails("EXECUTE p")
	exec(t, w, "COMMIT")
	require.Equal(t, "1", c.one("SELECT COUNT(*) FROM s WHERE a = 1000"))
	c.run("ALTER TABLE s RENAME TO t")
	exec(t, w, "EXECUTE p")
	require.Equal(t, "1000", c.one("SELECT b FROM t WHERE a = 1"))
}

// Temporary tables are not locked, and statements that use them only are prepared once.
func TestPreparedStatementsOfTemporaryTables(t *testing.T) {
	w := newEnv(t).client()
	w.run("CREATE TEMPORARY TABLE p (a INT PRIMARY KEY, b INT)")
	w.run("PREPARE p FROM 'INSERT INTO p VALUES (?, ?)'")
	w.run("SET @a = 1, @b = 2; EXECUTE p USING @a, @b; SET @a = 2; EXECUTE p USING @a, @b")
	require.Equal(t, []string{"1 2", "2 2"}, w.run("SELECT * FROM p"))
}

// A plan that reads through an index is not executed by a transaction that began before the index had entries, also if another session
// has made it, whose transaction reads what is newest.
func TestOldTransactionsDoNotTakePlansOfNewerSchemas(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("SET GLOBAL tidb_enable_instance_plan_cache = ON")
	t.Cleanup(func() { c.run("SET GLOBAL tidb_enable_instance_plan_cache = OFF") })
	c.run("CREATE TABLE elsewhere (a INT)")
	const (
		update = "UPDATE t SET w = w + 1 WHERE v = "
		others = "; SET tidb_enable_non_prepared_plan_cache = ON, tidb_enable_non_prepared_plan_cache_for_dml = ON"
	)
	for name, test := range map[string]struct {
		before, statement string
		found             []string
		w                 string
	}{
		"prepared":            {"PREPARE p FROM '" + update + "?'; SET @v = 20", "EXECUTE p USING @v", nil, "1"},
		"text":                {"DO 0" + others, update + "20", nil, "1"},
		"prepared that reads": {"PREPARE p FROM 'SELECT id FROM t WHERE v = ?'; SET @v = 20", "EXECUTE p USING @v", []string{"2"}, "0"},
		"text that reads":     {"DO 0" + others, "SELECT id FROM t WHERE v = 20", []string{"2"}, "0"},
		"prepared that locks": {"PREPARE p FROM 'SELECT id FROM t WHERE v = ? FOR UPDATE'; SET @v = 20", "EXECUTE p USING @v", []string{"2"}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := c.of(t)
			c.run("DROP TABLE IF EXISTS t; CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT); INSERT INTO t VALUES (1, 10, 0), (2, 20, 0), (3, 30, 0)")
			newest, past := e.client().of(t), e.client().of(t)
			for _, s := range []*client{newest, past} {
				t.Cleanup(func() { s.run("ROLLBACK") })
				s.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
				s.run(test.before)
			}
			newest.run("BEGIN PESSIMISTIC; SELECT * FROM elsewhere")
			past.run("BEGIN OPTIMISTIC; SELECT * FROM elsewhere")
			c.run("ALTER TABLE t ADD INDEX iv (v)")
			newest.run(test.statement)
			newest.run("ROLLBACK")
			require.Equal(t, test.found, past.run(test.statement))
			past.run("COMMIT")
			require.Equal(t, test.w, c.one("SELECT w FROM t WHERE id = 2"))
			c.check("t")
			for range 2 {
				past.run("ROLLBACK; BEGIN PESSIMISTIC")
				past.run(test.statement)
			}
			require.Equal(t, "1", past.one("SELECT @@last_plan_from_cache"), "it takes plans again")
		})
	}
}
