package sql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// CREATE INDEX IF NOT EXISTS of an index that is being built, by us or by TiDB, waits until it is there, or is not: then it builds one.
func TestIfNotExistsWaitsForTheIndex(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	for _, statement := range []string{"CREATE INDEX IF NOT EXISTS U ON t (b)", "ALTER TABLE t ADD INDEX IF NOT EXISTS u (b)"} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprint(statement, fails), func(t *testing.T) {
				c := c.of(t)
				table(c, 10)
				arrived, leave := e.blockAt(hooks[beforeImport])
				built := e.start("ALTER TABLE t ADD INDEX u (b)")
				reach(t, arrived)
				second := e.start(statement)
				select {
				case err := <-second:
					require.Fail(t, "it does not wait", "%v", err)
				case <-time.After(300 * time.Millisecond):
				}
				e.setHook(nil)
				if fails { // it is answered when the build goes on
					answer := e.answer("ADMIN CANCEL DDL JOBS " + c.one("SELECT job_id FROM mysql.fastddl_ddl_record"))
					asked(t, has(answer))
				}
				close(leave)
				if err := wait(t, built); fails {
					require.Equal(t, 8214, errorCode(err))
				} else {
					require.NoError(t, err)
				}
				require.NoError(t, wait(t, second))
				c.check("t")
				require.Equal(t, "10", c.one("SELECT COUNT(*) FROM t USE INDEX (u) WHERE b >= 0"))
			})
		}
	}
}

// Indexes without a name are numbered as in MySQL: no other index of the table, or of the statement, has the name.
func TestNamesOfIndexesWithoutOne(t *testing.T) {
	c := newEnv(t).client()
	const longest = "column_123456789_123456789_123456789_123456789_123456789_1234567"
	require.Len(t, longest, 64)
	c.run("CREATE TABLE t (a INT, b INT, %s INT, KEY (a), KEY (%s))", longest, longest)
	c.run("ALTER TABLE t ADD INDEX (a), ADD INDEX (a, b), ADD INDEX (b), ADD INDEX (b, a), ADD INDEX (%s, a), ADD INDEX (%s, b)", longest, longest)
	names := c.run("SELECT DISTINCT key_name FROM information_schema.tidb_indexes WHERE table_name = 't' ORDER BY key_name")
	require.Subset(t, names, []string{"a", "a_2", "a_3", "b", "b_2", longest})
	require.Len(t, names, 8)
	c.run("ALTER TABLE t ADD INDEX IF NOT EXISTS (a, b), ADD INDEX IF NOT EXISTS (a, b)")
	names = c.run("SELECT DISTINCT key_name FROM information_schema.tidb_indexes WHERE table_name = 't' ORDER BY key_name")
	require.Subset(t, names, []string{"a_4", "a_5"})
}
