package sql_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/internal/randtest"
)

// A table, or a database, that is dropped while an index is built, or before a build in the queue begins, is dropped
// when that has ended. What brings it back brings back what was dropped: with the index.
func TestRecoverWhatWasDroppedDuringABuild(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	c.run("INSERT INTO mysql.tidb VALUES ('tikv_gc_safe_point', '20200101-00:00:00 +0000', '') ON DUPLICATE KEY UPDATE variable_value = variable_value")
	for _, test := range []struct{ drop, recover string }{
		{"DROP TABLE r.t", "RECOVER TABLE r.t"},
		{"TRUNCATE TABLE r.t", "FLASHBACK TABLE r.t TO t2"},
		{"DROP DATABASE r", "FLASHBACK DATABASE r"},
	} {
		for at, hook := range map[string]ddl.HookPoint{
			"before the build": {When: "before", Action: "change-schema", Step: "delete-only"},
			"during the build": hooks[beforeImport],
		} {
			for _, undone := range []bool{false, true} {
				name := strings.Join([]string{test.recover, at}, " ")
				if undone {
					name += ", undone"
				}
				t.Run(name, func(t *testing.T) {
					c := c.of(t)
					c.run("DROP DATABASE IF EXISTS r; CREATE DATABASE r; CREATE TABLE r.t (a INT PRIMARY KEY AUTO_INCREMENT, b INT); INSERT INTO r.t VALUES (1, 1), (2, 2), (3, 3)")
					arrived, leave := e.blockAt(hook)
					index := "i ((b + 1))"
					if undone {
						index = "i ((b DIV 2))" // not unique
					}
					building := e.start("ALTER TABLE r.t ADD UNIQUE INDEX " + index)
					reach(t, arrived)
					dropping := e.start(test.drop)
					require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) FROM mysql.tidb_ddl_job") == "2" }, hangTimeout, time.Millisecond)
					c.run("INSERT INTO r.t (b) VALUES (10)")
					want := c.run("SELECT * FROM r.t")
					close(leave)
					require.Equal(t, undone, wait(t, building) != nil)
					require.NoError(t, wait(t, dropping))

					c.run(test.recover)
					table := "r.t"
					if strings.HasSuffix(test.recover, "t2") {
						table = "r.t2"
					}
					require.Equal(t, want, c.run("SELECT * FROM "+table))
					require.Equal(t, !undone, strings.Contains(c.one("SHOW CREATE TABLE "+table), "UNIQUE KEY `i`"))
					c.run("INSERT INTO " + table + " (b) VALUES (20)")
					if undone {
						c.run("ALTER TABLE " + table + " ADD INDEX " + index)
					}
					c.check(table)
					c.run("ALTER TABLE " + table + " DROP INDEX i")
					c.run("ALTER TABLE " + table + " ADD INDEX k (b)")
					c.check(table)
					c.run("ALTER TABLE " + table + " DROP COLUMN b")
				})
			}
		}
	}
}
