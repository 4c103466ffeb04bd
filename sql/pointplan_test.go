package sql_test

import (
	"context"
	gosql "database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// Of a text with several statements, what comes after the end of a transaction is not executed by a plan that was made in it.
func TestPlansEndWithTheirTransaction(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	db := e.serve()
	for _, alter := range []string{
		"ADD INDEX i (b)", "ADD INDEX i ((b + 1))", "ADD COLUMN y INT FIRST, ADD INDEX i (c)", "DROP COLUMN x, ADD INDEX i (b)", "DROP COLUMN x",
	} {
		for _, end := range []string{"COMMIT; ", "ROLLBACK; BEGIN; COMMIT; ", ""} {
			for dml, want := range map[string][]string{
				"UPDATE t SET b = 1000 WHERE a = 1":             {"1 1000 c1", "2 30 c2"},
				"UPDATE t SET b = 1000, c = 'x' WHERE a IN (1)": {"1 1000 x", "2 30 c2"},
				"DELETE FROM t WHERE a = 1":                     {"2 30 c2"},
			} {
				text := end + "ALTER TABLE t " + alter + "; " + dml + "; COMMIT"
				t.Run(text, func(t *testing.T) {
					c := c.of(t)
					c.run("DROP TABLE IF EXISTS t; CREATE TABLE t (a INT PRIMARY KEY, x INT, b INT, c VARCHAR(20))")
					c.run("INSERT INTO t VALUES (1, 2, 3, 'c1'), (2, 20, 30, 'c2')")
					w, err := db.Conn(context.Background())
					require.NoError(t, err)
					defer func() { require.NoError(t, w.Close()) }()
					exec(t, w, "BEGIN")
					exec(t, w, text)
					require.Equal(t, want, c.run("SELECT a, b, c FROM t ORDER BY a"))
					c.check("t")
				})
			}
		}
	}
}

func exec(t *testing.T, w *gosql.Conn, text string) {
	t.Helper()
	_, err := w.ExecContext(context.Background(), text)
	require.NoError(t, err, text)
}
