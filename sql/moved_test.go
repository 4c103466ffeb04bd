package sql_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl"
	"fastddl/internal/randtest"
)

// When a plain server has cancelled a build, TiDB's queue goes on with what was behind it, before the build's node knows. What
// that does to the table does not keep the build from being undone.
func TestBuildIsUndoneAfterItsTableMoved(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	c.run("INSERT INTO mysql.tidb VALUES ('tikv_gc_safe_point', '20200101-00:00:00 +0000', '') ON DUPLICATE KEY UPDATE variable_value = variable_value")
	for _, test := range []struct {
		name, create string
		moves        []string
		table        string
	}{
		{"truncated", "", []string{"TRUNCATE TABLE r.t"}, "r.t"},
		{"truncated, partitions", "PARTITION BY HASH (id) PARTITIONS 3", []string{"TRUNCATE TABLE r.t"}, "r.t"},
		{"truncated, twice, and renamed", "", []string{"TRUNCATE TABLE r.t", "TRUNCATE TABLE r.t", "RENAME TABLE r.t TO r.u"}, "r.u"},
		{"partition truncated", "PARTITION BY HASH (id) PARTITIONS 3", []string{"ALTER TABLE r.t TRUNCATE PARTITION p1"}, "r.t"},
		{"renamed", "", []string{"RENAME TABLE r.t TO r.u"}, "r.u"},
		{"in another database", "", []string{"RENAME TABLE r.t TO q.t"}, "q.t"},
		{"dropped and brought back", "", []string{"DROP TABLE r.t", "RECOVER TABLE r.t"}, "r.t"},
		{"dropped with its database and brought back", "", []string{"DROP DATABASE r", "FLASHBACK DATABASE r"}, "r.t"},
		{"partitioned", "", []string{"ALTER TABLE r.t PARTITION BY HASH (id) PARTITIONS 3"}, "r.t"},
		{"not partitioned any more", "PARTITION BY HASH (id) PARTITIONS 3", []string{"ALTER TABLE r.t REMOVE PARTITIONING"}, "r.t"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := c.of(t)
			c.run("DROP DATABASE IF EXISTS r; DROP DATABASE IF EXISTS q; CREATE DATABASE r; CREATE DATABASE q")
			c.run("CREATE TABLE r.t (id INT PRIMARY KEY, b INT) " + test.create)
			c.run("INSERT INTO r.t VALUES (1, 1), (2, 2), (3, 3)")
			var once sync.Once
			e.setHook(func(_ context.Context, p ddl.HookPoint) error {
				if matches(p, hooks[afterImport]) {
					once.Do(func() {
						c.run("DELETE FROM mysql.tidb_ddl_job")
						for _, move := range test.moves {
							c.run(move)
						}
					})
				}
				return nil
			})
			require.ErrorContains(t, wait(t, e.start("ALTER TABLE r.t ADD UNIQUE INDEX i ((b + 1), id), ADD INDEX j (b)")), "Cancelled DDL job")
			e.setHook(nil)
			require.Eventually(t, func() bool { return len(e.DDL().Unfinished()) == 0 }, hangTimeout, time.Millisecond)
			require.NotContains(t, c.one("SHOW CREATE TABLE "+test.table), "KEY `")
			c.run("INSERT INTO " + test.table + " VALUES (10, 4), (11, 4)")
			c.run("ALTER TABLE " + test.table + " ADD INDEX i ((b + 1)), ADD UNIQUE INDEX j (b, id)")
			e.collect(c)
			c.check(test.table)
			c.run("ALTER TABLE " + test.table + " DROP INDEX i, DROP INDEX j")
			c.run("ALTER TABLE " + test.table + " DROP COLUMN b")
		})
	}
}

// So it is with a job whose indexes are public, and which is still to take away what its statement drops.
func TestDropsAreDoneAfterTheirTableMoved(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	for _, move := range []string{"TRUNCATE TABLE r.t", "RENAME TABLE r.t TO q.t"} {
		t.Run(move, func(t *testing.T) {
			c := c.of(t)
			c.run("DROP DATABASE IF EXISTS r; DROP DATABASE IF EXISTS q; CREATE DATABASE r; CREATE DATABASE q")
			c.run("CREATE TABLE r.t (id INT PRIMARY KEY, b INT, d INT, KEY old (b))")
			c.run("INSERT INTO r.t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
			e.before("change-schema", "drop-delete-only", func() {
				c.run("DELETE FROM mysql.tidb_ddl_job")
				c.run(move)
			})
			require.NoError(t, wait(t, e.start("ALTER TABLE r.t ADD INDEX new (b), DROP COLUMN d, DROP INDEX old")))
			e.setHook(nil)
			table := "r.t"
			if !strings.HasPrefix(move, "TRUNCATE") {
				table = "q.t"
			}
			c.run("ALTER TABLE " + table + " ADD COLUMN d INT, ADD INDEX old (b)")
			c.run("INSERT INTO " + table + " VALUES (10, 4, 4), (11, 4, 4)")
			c.check(table)
		})
	}
}
