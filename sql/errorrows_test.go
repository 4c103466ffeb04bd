package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// errorRows are the rows that the last job was undone for.
func (c *client) errorRows(columns string) []string {
	c.t.Helper()
	return c.run("SELECT %s FROM mysql.fastddl_ddl_errors WHERE job_id = (SELECT MAX(job_id) FROM mysql.fastddl_ddl_jobs) ORDER BY number", columns)
}

const pointer = "(rows listed in mysql.fastddl_ddl_errors, job "

// TestErrorsOfValuesNameTheirRows: each kind of value that an index cannot take ends its job at once.
func TestErrorsOfValuesNameTheirRows(t *testing.T) {
	c := newEnv(t).client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, s VARCHAR(20), n INT, j JSON)")
	c.run(`INSERT INTO t VALUES (1, '12', 1, '[1]'), (2, 'abc', 0, '["long"]'), (3, '2024-01-02', 7, '{"a": 1}'), (4, 'x1', NULL, '[2]')`)
	for _, test := range []struct {
		code  int
		text  string
		index string
		rows  []string
	}{
		{1292, "Truncated incorrect DOUBLE value: 'abc'", "((CAST(s AS DOUBLE)))",
			[]string{"1292 cast(`s` as double) 2 abc", "1292 cast(`s` as double) 3 2024-01-02", "1292 cast(`s` as double) 4 x1"}},
		{1292, "Incorrect time value", "((CAST(s AS DATE)))",
			[]string{"1292 cast(`s` as date) 1 12", "1292 cast(`s` as date) 2 abc", "1292 cast(`s` as date) 4 x1"}},
		{1365, "Division by 0", "((100 DIV n))", []string{"1365 100 div `n` 2 0"}},
		{1690, "value is out of range", "((n + 9223372036854775801))", []string{"1690 `n` + 9223372036854775801 3 7"}},
		{3903, "Invalid JSON value for CAST for expression index 'i'", "((CAST(j AS SIGNED ARRAY)))",
			[]string{"3903 cast(`j` as signed array) 2 [\"long\"]", "1235 cast(`j` as signed array) 3 {\"a\": 1}"}},
		{3903, "Invalid JSON value for CAST for expression index 'i'", "((CAST(j AS CHAR(2) ARRAY)))", []string{
			"3903 cast(`j` as char(2) array) 1 [1]", "1406 cast(`j` as char(2) array) 2 [\"long\"]", "1235 cast(`j` as char(2) array) 3 {\"a\": 1}", "3903 cast(`j` as char(2) array) 4 [2]",
		}},
	} {
		c.verdict(test.code, test.text, "ALTER TABLE t ADD INDEX i "+test.index)
		require.Equal(t, test.rows, c.errorRows("error_code, column_name, row_handle, value"), test.index)
		require.Contains(t, c.fails(test.code, "ALTER TABLE t ADD INDEX i %s", test.index), pointer)
		require.NotContains(t, c.lastJob("error"), "abc", "others see no values")
		require.Contains(t, c.lastJob("error"), pointer)
	}
	c.run("ALTER TABLE t ADD COLUMN d DATE AS (CONCAT(s, '-', n)) VIRTUAL")
	c.verdict(1292, "Incorrect", "ALTER TABLE t ADD INDEX other (n), ADD INDEX i (d)")
	require.Equal(t, []string{"i d 1 12-1", "i d 2 abc-0"}, c.errorRows("index_name, column_name, row_handle, value"))
	c.run("ALTER TABLE t DROP COLUMN d; ALTER TABLE t ADD INDEX i (s, n)")
	c.check("t")
}

// TestErrorRowsOfEachKindOfTable: rows are named by partitions and clustered keys, and NULLs are values.
func TestErrorRowsOfEachKindOfTable(t *testing.T) {
	c := newEnv(t).client()
	c.run("CREATE TABLE p (a INT, b INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)")
	c.run("INSERT INTO p VALUES (1, 1), (11, NULL), (12, NULL)")
	c.verdict(1138, "Invalid use of NULL value", "ALTER TABLE p ADD PRIMARY KEY (a, b)")
	require.Equal(t, []string{"PRIMARY b p1 2 NULL", "PRIMARY b p1 3 NULL"}, c.errorRows("index_name, column_name, partition_name, row_handle, value"))
	c.run("UPDATE p SET b = 7 WHERE a > 11; INSERT INTO p VALUES (12, 7)")
	c.verdict(1062, "Duplicate entry '12-7' for key 'p.u'", "ALTER TABLE p ADD UNIQUE INDEX u (a, b), ADD INDEX (b)")
	require.Equal(t, []string{"u a, b p1 3 12-7 2", "u a, b p1 4 12-7 2"}, c.errorRows("index_name, column_name, partition_name, row_handle, value, row_count"))

	c.run("CREATE TABLE k (a VARCHAR(10) COLLATE utf8mb4_general_ci, b INT, s VARCHAR(10), PRIMARY KEY (a, b) CLUSTERED)")
	c.run("INSERT INTO k VALUES ('Ä', 1, 'no'), ('b ', 2, '3')")
	c.verdict(1292, "Truncated incorrect DOUBLE value: 'no'", "ALTER TABLE k ADD INDEX i ((s + 1))")
	require.Equal(t, []string{"Ä-1 no"}, c.errorRows("row_handle, value"))
}
