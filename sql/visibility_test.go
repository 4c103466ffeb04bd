package sql_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/util/sqlkiller"
	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/internal/randtest"
)

// A transaction that began while the index was built, and uses the table first when the
// index is public, reads as of its beginning. That may be before S, when the index had no
// entries; so it does not read through the index, as one that began before the build.
func TestTransactionsOfTheBuildDoNotReadThroughTheIndex(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	for _, index := range []struct{ add, where string }{
		{"INDEX i (b)", "b = 7"},
		{"UNIQUE INDEX i (b)", "b = 7"},
		{"INDEX i ((b + 1))", "b + 1 = 8"},
		{"INDEX i (b), ADD COLUMN d INT, DROP INDEX kc", "b = 7"},
	} {
		for _, at := range []place{inDeleteOnly, inWriteOnly, beforeS, afterS, compared} {
			t.Run(index.add+" "+string(at), func(t *testing.T) {
				c, old, writer := c.of(t), e.client().of(t), e.client().of(t)
				defer func() {
					_, _ = old.try("ROLLBACK")
					_, _ = writer.try("ROLLBACK")
				}()
				table(c, 10)
				c.run("ALTER TABLE t ADD INDEX kc (c)")
				e.setHook(func(_ context.Context, p ddl.HookPoint) error {
					if matches(p, hooks[at]) {
						old.run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
						writer.run("BEGIN OPTIMISTIC")
					}
					return nil
				})
				c.run("ALTER TABLE t ADD " + index.add)
				e.setHook(nil)
				query := "SELECT a FROM t WHERE " + index.where
				uses := func(c *client) bool { return strings.Contains(strings.Join(c.run("EXPLAIN "+query), " "), "index:i(") }
				require.True(t, uses(c))
				require.Equal(t, []string{"1"}, old.run(query))
				require.False(t, uses(old))
				old.fails(1176, "SELECT a FROM t USE INDEX (i)")
				old.run("PREPARE p FROM '" + query + "'")
				require.Equal(t, []string{"1"}, old.run("EXECUTE p"))
				old.run("COMMIT")
				require.True(t, uses(old), "the next transaction knows the index")
				require.Equal(t, []string{"1"}, old.run("EXECUTE p"))

				writer.run("UPDATE t SET c = 'x' WHERE " + index.where)
				writer.run("COMMIT")
				require.Equal(t, "x", c.one("SELECT c FROM t WHERE a = 1"))
				c.check("t")
			})
		}
	}
}

// While an index is built TiDB does not find it by its name. Statements that name it meet
// what they would meet if it did.
func TestStatementsThatNameAnIndexThatIsBeingBuilt(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	build := func(add string) (leave chan struct{}, result <-chan error) {
		arrived, leave := e.blockAt(hooks[beforeImport])
		result = e.start("ALTER TABLE t " + add)
		reach(t, arrived)
		return leave, result
	}
	c.run("DROP TABLE IF EXISTS t; CREATE TABLE t (a INT, b INT NOT NULL); INSERT INTO t VALUES (1, 2)")
	leave, result := build("ADD INDEX B (b), ADD INDEX e ((b + 1)), ADD INDEX ((b + 3)), ADD PRIMARY KEY (b) NONCLUSTERED")
	require.Contains(t, c.fails(1061, "CREATE INDEX b ON t (b)"), "background job")
	require.Contains(t, c.fails(1061, "ALTER TABLE t ADD UNIQUE b (b), ADD COLUMN d INT"), "background job")
	c.fails(1068, "ALTER TABLE t ADD PRIMARY KEY (b) NONCLUSTERED")
	require.Contains(t, c.fails(1061, "CREATE INDEX e ON t ((b + 2))"), "background job")
	c.fails(1176, "ALTER TABLE t ALTER INDEX b INVISIBLE")
	var waiting []<-chan error
	for _, statement := range []string{
		"ALTER TABLE t ADD INDEX (b), ADD INDEX ((b + 4)), ADD INDEX ((b + 5))", "DROP INDEX b ON t", "ALTER TABLE t DROP PRIMARY KEY", "ALTER TABLE t DROP INDEX IF EXISTS nope, ADD INDEX k (a)",
	} {
		waiting = append(waiting, e.start(statement))
	}
	for _, w := range waiting {
		require.Empty(t, w)
	}
	close(leave)
	require.NoError(t, wait(t, result))
	for _, w := range waiting {
		require.NoError(t, wait(t, w))
	}
	require.Equal(t, []string{"b_2", "e", "expression_index", "expression_index_2", "expression_index_3", "k"}, c.run("SELECT key_name FROM information_schema.tidb_indexes WHERE table_name = 't' ORDER BY 1"))
	c.check("t")
}

// A statement that waits for an index to be built ends with KILL and with the server.
func TestWaitForAnIndexThatIsBeingBuiltEnds(t *testing.T) {
	e := open(t, t.TempDir())
	c := e.client()
	table(c, 10)
	arrived, leave := e.blockAt(hooks[beforeImport])
	building := e.start("ALTER TABLE t ADD INDEX i (b)")
	reach(t, arrived)
	killed := make(chan error, 1)
	go func() {
		_, err := c.try("ALTER TABLE t RENAME INDEX i TO k")
		killed <- err
	}()
	require.Eventually(t, func() bool {
		c.GetSessionVars().SQLKiller.SendKillSignal(sqlkiller.QueryInterrupted)
		return len(killed) > 0
	}, hangTimeout, 10*time.Millisecond)
	require.Equal(t, 1317, errorCode(<-killed))

	waiting, closed, vars := make(chan struct{}), make(chan error, 1), e.client().GetSessionVars()
	go func() {
		var once sync.Once
		closed <- e.DDL().Await(vars, func() bool {
			once.Do(func() { close(waiting) })
			return false
		})
	}()
	reach(t, waiting)
	close(leave)
	e.close()
	require.ErrorIs(t, wait(t, closed), ddl.ErrClosed)
	_ = wait(t, building)
}

// A table that is made like one that gets an expression index meanwhile has the index, or
// nothing of it: no hidden column that keeps it from having such an index, and its columns.
func TestTableLikeOneThatGetsAnExpressionIndex(t *testing.T) {
	randtest.SkipShort(t)
	for _, undone := range []bool{true, false} {
		e := newEnv(t)
		c := e.client()
		table(c, 10)
		arrived, leave := e.blockAt(hooks[beforeImport])
		index := "i ((b + 1))"
		if undone {
			index = "i ((b DIV 20))" // not unique
		}
		building := e.start("ALTER TABLE t ADD UNIQUE INDEX " + index)
		reach(t, arrived)
		like := e.start("CREATE TABLE t2 LIKE t")
		for range 300 { // it waits, and is not in the queue meanwhile
			if c.one("SELECT COUNT(*) FROM mysql.tidb_ddl_job") != "1" {
				break
			}
		}
		close(leave)
		require.Equal(t, undone, wait(t, building) != nil)
		require.NoError(t, wait(t, like))
		require.Equal(t, strings.ReplaceAll(c.one("SHOW CREATE TABLE t2"), "t2", "t"), c.one("SHOW CREATE TABLE t"))
		if undone {
			c.run("ALTER TABLE t2 ADD INDEX " + index)
		}
		c.run("INSERT INTO t2 VALUES (1, 2, '')")
		c.run("ALTER TABLE t2 DROP INDEX i")
		c.run("ALTER TABLE t2 DROP COLUMN b")
	}
}

// A partition is exchanged with a table that gets the index which the other has just then.
func TestExchangeWithATableThatGetsAnIndex(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	for _, built := range []string{"p", "n"} {
		c.run("DROP TABLE IF EXISTS p, n; CREATE TABLE n (a INT PRIMARY KEY, b INT); INSERT INTO n VALUES (1, 1), (2, 2)")
		c.run("CREATE TABLE p (a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10)); INSERT INTO p VALUES (3, 3)")
		c.run("ALTER TABLE %s ADD INDEX i (b)", map[string]string{"p": "n", "n": "p"}[built])
		arrived, leave := e.blockAt(hooks[beforeImport])
		building := e.start("ALTER TABLE " + built + " ADD INDEX i (b)")
		reach(t, arrived)
		exchanging := e.start("ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE n")
		for range 300 { // it waits, and is not in the queue meanwhile
			if len(exchanging) > 0 || c.one("SELECT COUNT(*) FROM mysql.tidb_ddl_job") != "1" {
				break
			}
		}
		close(leave)
		require.NoError(t, wait(t, building))
		require.NoError(t, wait(t, exchanging), built)
		require.Equal(t, []string{"1", "2"}, c.run("SELECT a FROM p USE INDEX (i) WHERE b < 10"))
		c.check("p")
		c.check("n")
	}
}
