package sql_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// What makes two rows have one value is the index's business: collation, prefix, NULL,
// the elements of an array. DML comes between S and the import.
func TestUniqueValues(t *testing.T) {
	randtest.SkipShort(t)
	tests := []struct {
		name, columns, rows, index string
		dml                        []string
		// duplicates are the entries, as error 1062 shows them; none for an index that
		// is built.
		duplicates []string
	}{
		{"NULLs in all rows", "a INT PRIMARY KEY, b INT", "(1, NULL), (2, NULL)", "(b)", []string{"INSERT INTO t VALUES (3, NULL)"}, nil},
		{"NULL and a value", "a INT PRIMARY KEY, b INT, c INT", "(1, 1, NULL), (2, 1, NULL)", "(b, c)",
			[]string{"INSERT INTO t VALUES (3, 1, NULL), (4, 1, 1)"}, nil},
		{"NULL becomes a value", "a INT PRIMARY KEY, b INT, c INT", "(1, 1, NULL), (2, 1, NULL), (3, 1, 1)", "(b, c)",
			[]string{"UPDATE t SET c = 1 WHERE a IN (1)"}, []string{"1-1"}},
		{"value becomes NULL", "a INT PRIMARY KEY, b INT, c INT", "(1, 1, 5), (2, 1, 6)", "(b, c)",
			[]string{"UPDATE t SET c = NULL WHERE a = 1", "UPDATE t SET c = 5 WHERE a = 2", "INSERT INTO t VALUES (3, 1, 6)"}, nil},
		{"composite, halves exchanged", "a INT PRIMARY KEY, b INT, c INT", "(1, 1, 2), (2, 2, 1)", "(b, c)",
			[]string{"UPDATE t SET b = b + c, c = b - c", "UPDATE t SET b = b - 1"}, nil},
		{"composite, one column changed", "a INT PRIMARY KEY, b INT, c INT", "(1, 1, 2), (2, 1, 3)", "(b, c)",
			[]string{"UPDATE t SET c = 3 WHERE a = 1"}, []string{"1-3"}},
		{"prefix of bytes", "a INT PRIMARY KEY, b VARBINARY(10)", "(1, 'abX'), (2, 'acX')", "(b(2))",
			[]string{"INSERT INTO t VALUES (3, 'abY')"}, []string{"ab"}},
		{"prefix of characters", "a INT PRIMARY KEY, b VARCHAR(10)", "(1, 'äöü'), (2, 'äüü')", "(b(2))",
			[]string{"INSERT INTO t VALUES (3, 'äö')"}, []string{"äö"}},
		{"prefix, longer than the value", "a INT PRIMARY KEY, b TEXT", "(1, 'a'), (2, 'ab')", "(b(5))",
			[]string{"UPDATE t SET b = 'abcdef' WHERE a = 1", "INSERT INTO t VALUES (3, 'a')"}, nil},
		{"prefix and case", "a INT PRIMARY KEY, b VARCHAR(10) COLLATE utf8mb4_unicode_ci", "(1, 'ABx'), (2, 'ACx')", "(b(2))",
			[]string{"INSERT INTO t VALUES (3, 'äB')"}, []string{"AB"}},
		{"case", "a INT PRIMARY KEY, b VARCHAR(10) COLLATE utf8mb4_general_ci", "(1, 'a'), (2, 'b')", "(b)",
			[]string{"INSERT INTO t VALUES (3, 'A')"}, []string{"a"}},
		{"case, binary collation", "a INT PRIMARY KEY, b VARCHAR(10) COLLATE utf8mb4_bin", "(1, 'a'), (2, 'b')", "(b)",
			[]string{"INSERT INTO t VALUES (3, 'A')"}, nil},
		{"trailing space", "a INT PRIMARY KEY, b VARCHAR(10) COLLATE utf8mb4_bin", "(1, 'a'), (2, 'b')", "(b)",
			[]string{"INSERT INTO t VALUES (3, 'a ')"}, []string{"a"}},
		{"trailing space, no padding", "a INT PRIMARY KEY, b VARCHAR(10) COLLATE utf8mb4_0900_bin", "(1, 'a'), (2, 'b')", "(b)",
			[]string{"INSERT INTO t VALUES (3, 'a ')"}, nil},
		{"zeros of decimals", "a INT PRIMARY KEY, b DECIMAL(10,4)", "(1, 1.5), (2, 2)", "(b)",
			[]string{"INSERT INTO t VALUES (3, 1.5000)"}, []string{"1.5000"}},
		{"zero and minus zero", "a INT PRIMARY KEY, b DOUBLE", "(1, 0), (2, 2)", "(b)", []string{"INSERT INTO t VALUES (3, -0e0)"}, []string{"0"}},
		{"elements of arrays", "a INT PRIMARY KEY, b JSON", "(1, '[1,2]'), (2, '[3]')", "((CAST(b AS SIGNED ARRAY)))",
			[]string{"INSERT INTO t VALUES (3, '[4,2]')"}, []string{"2"}},
		{"elements handed on", "a INT PRIMARY KEY, b JSON", "(1, '[1,2]'), (2, '[3]')", "((CAST(b AS SIGNED ARRAY)))",
			[]string{"UPDATE t SET b = '[1]' WHERE a = 1", "UPDATE t SET b = '[3,2]' WHERE a = 2"}, nil},
		{"one element twice in a row", "a INT PRIMARY KEY, b JSON", "(1, '[1,2]'), (2, '[3]')", "((CAST(b AS SIGNED ARRAY)))",
			[]string{"INSERT INTO t VALUES (3, '[4,4]')"}, nil},
		{"row moves to another partition", "a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) " +
			"(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (100)",
			"(1, 1), (2, 2)", "(b) GLOBAL", []string{"UPDATE t SET a = a + 10", "UPDATE t SET a = a - 10 WHERE b = 1"}, nil},
		{"duplicate in another partition", "a INT PRIMARY KEY, b INT) PARTITION BY RANGE (a) " +
			"(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (100)",
			"(1, 1), (2, 2)", "(b) GLOBAL", []string{"INSERT INTO t VALUES (50, 1)"}, []string{"1"}},
	}
	grounds(t, func(t *testing.T, g *ground) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				g.newDatabase()
				c := g.admin.of(t)
				c.run("CREATE TABLE t (%s)", test.columns)
				c.run("INSERT INTO t VALUES %s", test.rows)
				var failures []string
				g.before("backfill", "", func() {
					for _, dml := range test.dml {
						if _, err := g.writers[0].try("%s", dml); err != nil {
							failures = append(failures, dml+": "+err.Error())
						}
					}
				})
				_, err := c.try("ALTER TABLE t ADD UNIQUE INDEX u %s", test.index)
				require.Empty(t, failures)
				require.Empty(t, c.run("SHOW WARNINGS WHERE Level = 'Note'"), "built by TiDB")
				if test.duplicates == nil {
					require.NoError(t, err)
					c.check("t")
					return
				}
				require.Equal(t, 1062, errorCode(err), "%v", err)
				require.Equal(t, test.duplicates,
					c.run("SELECT entry FROM mysql.fastddl_ddl_duplicates WHERE job_id = (SELECT MAX(job_id) FROM mysql.fastddl_ddl_jobs)"))
				g.leavesNothingOf(t)
			})
		}
	})
}
