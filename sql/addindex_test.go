package sql_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// Indexes of all kinds on tables of all kinds are built by us, and TiDB finds them
// equal to the rows.
func TestAddIndexKinds(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	for _, test := range []struct{ name, create, rows, add string }{
		{"int handle", "a BIGINT PRIMARY KEY, b INT, c VARCHAR(20)", "(1,2,'x'),(2,NULL,'y'),(3,2,NULL)", "ADD INDEX (b), ADD UNIQUE (c)"},
		{"unsigned handle", "a BIGINT UNSIGNED PRIMARY KEY, b INT", "(18446744073709551615,1),(0,2)", "ADD UNIQUE INDEX (b)"},
		{"common handle", "a VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY CLUSTERED, b INT", "('A',1),('b ',2)", "ADD UNIQUE (b), ADD INDEX (b, a)"},
		{"hidden handle", "a INT, b VARCHAR(10)", "(1,'a'),(1,'a'),(2,NULL)", "ADD INDEX ab (a, b)"},
		{"primary key", "a INT NOT NULL, b INT", "(1,1),(2,2)", "ADD PRIMARY KEY (a)"},
		{"primary key on nullable", "a INT, b INT", "(1,1),(2,2)", "ADD PRIMARY KEY (a, b)"},
		{"expression", "a INT, b VARCHAR(10)", "(1,'A'),(2,'b')", "ADD UNIQUE INDEX ((LOWER(b)), a), ADD INDEX ((a + 1))"},
		{"prefix", "a INT, b TEXT, c VARCHAR(20) COLLATE utf8mb4_unicode_ci", "(1,'abcdef','ÄB'),(2,'abcxyz','äc')", "ADD INDEX (b(3)), ADD UNIQUE (c(2))"},
		{"invisible, comment, descending", "a INT, b INT", "(1,1),(2,2)", "ADD INDEX i (a DESC, b) INVISIBLE COMMENT 'why'"},
		{"multi-valued", "a INT PRIMARY KEY, j JSON", "(1,'[1,2]'),(2,'[3]')", "ADD UNIQUE INDEX ((CAST(j AS SIGNED ARRAY)))"},
		{"generated", "a INT, g INT AS (a * 2), s INT AS (a + 1) STORED", "(1,DEFAULT,DEFAULT),(2,DEFAULT,DEFAULT)", "ADD UNIQUE (g), ADD INDEX (s)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := c.of(t)
			c.run("DROP TABLE IF EXISTS t")
			c.run("CREATE TABLE t (%s)", test.create)
			c.run("INSERT INTO t VALUES %s", test.rows)
			jobs := c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs")
			c.run("ALTER TABLE t " + test.add)
			require.Empty(t, c.run("SHOW WARNINGS"))
			c.check("t")
			require.NotEqual(t, jobs, c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs"), "built by TiDB")
			require.Equal(t, "synced public 100", c.lastJob("state, schema_state, percent"))
			c.run("UPDATE t SET a = a WHERE true")
			c.run("DELETE FROM t LIMIT 1")
			c.check("t")
		})
	}
	c.run("DROP TABLE t")
}

// Partitioned tables too.
func TestAddIndexPartitioned(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))")
	c.run("INSERT INTO t VALUES (1,1,1),(11,1,2),(12,2,3)")
	c.run("ALTER TABLE t ADD INDEX (b), ADD UNIQUE (a, c)")
	c.check("t")
	require.Equal(t, "3", c.one("SELECT COUNT(*) FROM t USE INDEX (b) WHERE b > 0"))
}

// Errors of the statement have MySQL's numbers and leave nothing behind.
func TestAddIndexErrors(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c TEXT, d VARCHAR(5000), n INT)")
	c.run("INSERT INTO t VALUES (1,1,'x','y',NULL),(2,1,'x','y',1)")
	c.run("CREATE INDEX ib ON t (b)")
	was := c.one("SHOW CREATE TABLE t")
	c.fails(1061, "CREATE INDEX ib ON t (b)")
	c.fails(1072, "ALTER TABLE t ADD INDEX (nope)")
	c.fails(1071, "ALTER TABLE t ADD INDEX (d)")
	c.fails(1170, "ALTER TABLE t ADD INDEX (c)")
	c.fails(1068, "ALTER TABLE t ADD PRIMARY KEY (b)")
	c.fails(1146, "CREATE INDEX i ON missing (b)")
	c.fails(1062, "CREATE UNIQUE INDEX u ON t (b)")
	require.Empty(t, c.run("CREATE INDEX IF NOT EXISTS ib ON t (b)"))
	require.Contains(t, c.one("SHOW WARNINGS"), "1061")
	c.fails(1059, "CREATE INDEX %s ON t (b)", strings.Repeat("x", 65))
	c.run("CREATE TABLE implicit (a INT NOT NULL, b INT NOT NULL)") // its first unique key of such columns is its primary key
	c.fails(3522, "ALTER TABLE implicit ADD UNIQUE (a) INVISIBLE")
	c.fails(3522, "ALTER TABLE implicit ADD INDEX (b), ADD UNIQUE (a, b) INVISIBLE, ADD UNIQUE (b)")
	c.fails(3522, "ALTER TABLE implicit ADD PRIMARY KEY (a) NONCLUSTERED INVISIBLE")
	require.Empty(t, c.run("SHOW INDEX FROM implicit"))
	c.run("ALTER TABLE implicit ADD UNIQUE (b), ADD UNIQUE (a) INVISIBLE")
	require.Equal(t, was, c.one("SHOW CREATE TABLE t"))
	c.check("t")

	c.run("CREATE TABLE p (a INT, b INT)")
	c.run("INSERT INTO p VALUES (1,1),(NULL,2)")
	c.fails(1138, "ALTER TABLE p ADD PRIMARY KEY (a)")
	c.run("INSERT INTO p VALUES (NULL,3)")
	require.NotContains(t, c.one("SHOW CREATE TABLE p"), "PRIMARY")
}

// A failed unique index lists the rows with equal values.
func TestFailedUniqueIndexListsDuplicates(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY CLUSTERED, b VARCHAR(10), ts TIMESTAMP)")
	c.run("INSERT INTO t VALUES ('Aa','x',NULL),('Bb','x',NULL),('Cc','y',NULL),('Dd','y',NULL),('Ee','z',NULL)")
	require.Contains(t, c.fails(1062, "ALTER TABLE t ADD UNIQUE INDEX u (b)"), "Duplicate entry 'x' for key 't.u'")
	require.Equal(t, []string{"u x 2 Aa, Bb", "u y 2 Cc, Dd"},
		c.run("SELECT index_name, entry, row_count, row_handles FROM mysql.fastddl_ddl_duplicates WHERE job_id = (SELECT MAX(job_id) FROM mysql.fastddl_ddl_duplicates)"))
	require.Equal(t, "rollback done none", c.lastJob("state, schema_state"))
	require.NotContains(t, c.one("SHOW CREATE TABLE t"), "`u`")
	require.NotEqual(t, "0", c.one("SELECT COUNT(*) FROM mysql.gc_delete_range"))
}
