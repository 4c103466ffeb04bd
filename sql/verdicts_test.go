package sql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soon bounds what a verdict on the rows may take: it is none that is tried again.
const soon = 20 * time.Second

// verdict runs a statement that must fail at once, with an error number and a text.
func (c *client) verdict(code int, text, statement string) {
	c.t.Helper()
	began := time.Now()
	require.Contains(c.t, c.fails(code, "%s", statement), text, statement)
	require.Less(c.t, time.Since(began), soon, statement)
	require.Equal(c.t, "0", c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_record"))
}

// Elements of an array that TiDB takes for different, and that have one key, are one entry.
func TestElementsWithOneKey(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, j JSON); INSERT INTO t VALUES (1, '[-0.0, 0, 1]'), (2, '[0, -0.0]'), (3, '[2]')")
	c.run("ALTER TABLE t ADD INDEX i ((CAST(j AS DOUBLE ARRAY)))")
	require.Equal(t, "2", c.one("SELECT COUNT(*) FROM t USE INDEX (i) WHERE 0 MEMBER OF (j)"))
	require.Len(t, e.indexEntries("t", "i"), 4)
	c.run("INSERT INTO t VALUES (4, '[0, -0.0]')")
	require.Len(t, e.indexEntries("t", "i"), 5)

	c.run("CREATE TABLE u (a INT PRIMARY KEY, j JSON, UNIQUE INDEX i ((CAST(j AS DOUBLE ARRAY))))")
	c.fails(1062, "INSERT INTO u VALUES (1, '[-0.0, 0, 1]')")
	c.run("DROP TABLE u; CREATE TABLE u (a INT PRIMARY KEY, j JSON); INSERT INTO u VALUES (1, '[-0.0, 0, 1]')")
	c.verdict(1062, "Duplicate entry", "ALTER TABLE u ADD UNIQUE INDEX i ((CAST(j AS DOUBLE ARRAY)))")
	require.Contains(t, c.one("SELECT row_handles FROM mysql.fastddl_ddl_duplicates WHERE job_id = (SELECT MAX(job_id) FROM mysql.fastddl_ddl_jobs)"), "1")
}

// Rows of two partitions that have one hidden row ID have one entry in a global index, which none of them may lose.
func TestRowsWithOneRowID(t *testing.T) {
	c := newEnv(t).client()
	c.run("SET GLOBAL tidb_enable_global_index = ON")
	c = c.of(t)
	c.run("SET tidb_enable_global_index = ON")
	c.run("CREATE TABLE t (k INT, v INT) PARTITION BY RANGE (k) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))")
	c.run("CREATE TABLE x (k INT, v INT)")
	c.run("INSERT INTO t VALUES (1, NULL), (2, 7); INSERT INTO x VALUES (11, NULL), (12, 8)")
	c.run("ALTER TABLE t EXCHANGE PARTITION p1 WITH TABLE x")
	const text = "rows of partitions p0, p1 of table t have the same row ID "
	c.verdict(1105, text, "ALTER TABLE t ADD UNIQUE INDEX u (v) GLOBAL")
	c.run("UPDATE t SET v = 9 WHERE v IS NULL AND k < 10; UPDATE t SET v = 7 WHERE k = 12")
	c.verdict(1062, "Duplicate entry '7' for key 't.u'", "ALTER TABLE t ADD UNIQUE INDEX u (v) GLOBAL")
	require.Contains(t, c.one("SELECT row_handles FROM mysql.fastddl_ddl_duplicates WHERE job_id = (SELECT MAX(job_id) FROM mysql.fastddl_ddl_jobs)"),
		"2 in partition p1")
}
