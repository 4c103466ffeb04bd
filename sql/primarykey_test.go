package sql_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a client sees of a primary key that is added to a table.
func TestAddPrimaryKey(t *testing.T) {
	n := newJobNode(t)
	c := n.c
	c.exec("create table t (a int, b varchar(10) default 'x', c int default null, key c (c))")
	c.exec("insert into t values (1, 'p', 1), (2, 'p', 2), (1, 'q', 3)")
	n.alter("alter table t add primary key (a, b)")
	require.Equal(t, "CREATE TABLE `t` (\n"+
		"  `a` int NOT NULL,\n"+
		"  `b` varchar(10) NOT NULL DEFAULT 'x',\n"+
		"  `c` int DEFAULT NULL,\n"+
		"  PRIMARY KEY (`a`,`b`) /*T![clustered_index] NONCLUSTERED */,\n"+
		"  KEY `c` (`c`)\n"+
		") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin", c.query("show create table t")[0][1])
	for i, want := range []string{"a NO PRI", "b NO PRI", "c YES MUL"} {
		col := c.query("show columns from t")[i]
		require.Equal(t, want, col[0]+" "+col[2]+" "+col[3])
	}
	require.Equal(t, [][]string{{"a", "NO", "PRI"}, {"b", "NO", "PRI"}, {"c", "YES", "MUL"}},
		c.query("select column_name, is_nullable, column_key from information_schema.columns where table_name = 't' order by ordinal_position"))
	require.Equal(t, [][]string{{"PRIMARY", "0", "1", "a"}, {"PRIMARY", "0", "2", "b"}},
		c.query("select index_name, non_unique, seq_in_index, column_name from information_schema.statistics where table_name = 't' and index_name = 'primary' order by 3"))
	c.exec("admin check table t")
	c.exec("admin check index t `primary`")

	require.Equal(t, "PRIMARY", explainKey(c, "select c from t where a = 1 and b = 'q'")[0][2])
	require.Equal(t, []string{"3"}, c.queryFlat("select c from t where a = 1 and b = 'q'"))
	requireCode(t, c.try("insert into t values (1, 'q', 0)"), 1062, "Duplicate entry '1-q' for key 't.PRIMARY'")
	requireCode(t, c.try("insert into t values (null, 'q', 0)"), 1048, "Column 'a' cannot be null")
	requireCode(t, c.try("insert into t (b, c) values ('q', 0)"), 1364, "Field 'a' doesn't have a default value")
	c.exec("insert into t (a) values (1)")
	c.exec("replace into t values (1, 'x', 9)")
	c.exec("insert into t values (1, 'x', 0) on duplicate key update c = c + 1")
	require.Equal(t, []string{"10"}, c.queryFlat("select c from t where a = 1 and b = 'x'"))

	n.alter("alter table t drop primary key, add primary key (c)")
	require.Equal(t, [][]string{{"a", "NO", ""}, {"b", "NO", ""}, {"c", "NO", "PRI"}},
		c.query("select column_name, is_nullable, column_key from information_schema.columns where table_name = 't' order by ordinal_position"))
	requireCode(t, c.try("insert into t values (1, 'x', 10)"), 1062, "Duplicate entry '10' for key 't.PRIMARY'")
	c.exec("insert into t values (1, 'x', 11)")
	n.alter("alter table t drop primary key")
	c.exec("insert into t values (1, 'x', 11)")
	require.NotContains(t, c.query("show create table t")[0][1], "PRIMARY")
	c.exec("admin check table t")
}

// While a primary key is added nobody brings a NULL into its columns, by
// whatever statement and in whatever SQL mode; values are not made up. The
// columns show as what they are, nullable.
func TestNullsWhileAPrimaryKeyIsAdded(t *testing.T) {
	for _, mode := range []string{"STRICT_TRANS_TABLES", ""} {
		t.Run("sql_mode="+mode, func(t *testing.T) {
			n := newJobNode(t)
			n.c.exec("create table t (a int, b int, c int default 7, unique key c (c))")
			n.c.exec("insert into t values (1, 1, 1), (2, 2, 2)")
			other := n.conn()
			other.exec("set sql_mode = '" + mode + "'")
			n.at[betweenScanAndImport] = func() error {
				for _, s := range []string{
					"insert into t values (null, 5, 5)",
					"insert into t values (5, 5, 5), (6, null, 6), (7, 7, 7)",
					"insert into t (b, c) values (5, 5)",
					"insert into t (c) values (5)",
					"insert into t set a = 5",
					"insert into t select c, null, c + 10 from t",
					"replace into t values (1, null, 1)",
					"insert ignore into t values (null, 5, 5)",
					"insert into t values (9, 9, 1) on duplicate key update a = null",
					"update t set a = null",
					"update t set b = null where a = 2",
					"update ignore t set b = null where a = 2",
				} {
					err := other.try(s)
					if err == nil {
						return fmt.Errorf("%s: was not refused", s)
					}
					requireCode(t, err, 1048, "cannot be null")
				}
				if got := fmt.Sprint(other.query("select * from t order by a")); got != "[[1 1 1] [2 2 2]]" {
					return fmt.Errorf("refused statements have left %s", got)
				}
				if got := other.query("show columns from t")[0][2]; got != "YES" {
					return fmt.Errorf("nullable: %s", got)
				}
				// Other columns take NULLs, and the key takes values.
				for _, s := range []string{"insert into t values (3, 3, null)", "update t set c = null, b = b + 10 where a = 1"} {
					if err := other.try(s); err != nil {
						return err
					}
				}
				return nil
			}
			n.alter("alter table t add primary key (a, b)")
			require.Equal(t, [][]string{{"1", "11", "<nil>"}, {"2", "2", "2"}, {"3", "3", "<nil>"}}, n.c.query("select * from t order by a"))
			n.c.exec("admin check table t")
		})
	}
}

// A NULL that was there before fails the job with the table as it was, and does
// not disturb other statements meanwhile.
func TestAddPrimaryKeyOverNulls(t *testing.T) {
	n := newJobNode(t)
	n.c.exec("create table t (a int, b int)")
	n.c.exec("insert into t values (1, 1), (null, 2)")
	n.during("before backfill backfilled", "update t set b = b + 10", "insert into t values (3, 3)", "delete from t where a = 1")
	requireCode(t, n.c.try("alter table t add primary key (a)"), 1138, "Invalid use of NULL value")
	n.c.exec("insert into t values (null, 4)")
	require.Equal(t, [][]string{{"<nil>", "4"}, {"<nil>", "12"}, {"3", "3"}}, n.c.query("select * from t order by a, b"))
	n.c.exec("admin check table t")
	n.c.exec("update t set a = b where a is null")
	n.alter("alter table t add primary key (a)")
	requireCode(t, n.c.try("insert into t values (12, 0)"), 1062, "Duplicate entry '12' for key 't.PRIMARY'")
}
