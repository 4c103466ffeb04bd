package sql_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExpressionIndexesInQueries(t *testing.T) {
	n := newNode(t)
	c := n.conn()
	c.exec(`create table t (id int primary key, c varchar(20) collate utf8mb4_bin, a int, d datetime, j json,
		key lo ((lower(c))), key sum (a, (a + 1), c(3)), unique key twice ((a * 2)), key y ((year(d))), key name ((cast(j->>'$.name' as char(30)))))`)
	for i := range 200 {
		c.exec(fmt.Sprintf(`insert into t values (%d, 'Name%d', %d, '20%02d-05-17 10:00:00', '{"name": "n%d"}')`, i, i%50, i, i%40+10, i%20))
	}
	for _, tc := range []struct {
		query, key string
		want       []string
	}{
		{"select id from t where lower(c) = 'name7'", "lo", []string{"107", "157", "57", "7"}},
		{"select id from t where 'name7' = lower(c) and id < 100", "lo", []string{"57", "7"}},
		{"select id from t x where lower(x.c) in ('name7', 'name8') and id < 10", "", []string{"7", "8"}},
		{"select id from t where a * 2 = 40", "twice", []string{"20"}},
		{"select id from t where a * 2 between 40 and 44", "twice", []string{"20", "21", "22"}},
		{"select id from t where a * 2 > 390 order by id", "twice", []string{"196", "197", "198", "199"}},
		{"select id from t where a = 5 and a + 1 = 6", "sum", []string{"5"}},
		{"select id from t where year(d) = 2012 and id < 50", "", []string{"2", "42"}},
		{"select count(*) from t where year(d) = 2012", "y", []string{"5"}},
		{"select id from t where cast(j->>'$.name' as char(30)) = 'n3' and id < 30", "", []string{"23", "3"}},
		{"select count(*) from t where cast(j->>'$.name' as char(30)) = 'n3'", "name", []string{"10"}},
		{"select id from t where lower(c) like 'name7%' and id < 60", "", []string{"57", "7"}},
		{"select id from t where upper(c) = 'NAME7' and id < 60", "", []string{"57", "7"}},
		{"select id from t where lower(c) is null", "lo", []string{}},
	} {
		require.ElementsMatch(t, tc.want, c.queryFlat(tc.query), tc.query)
		if tc.key != "" {
			require.Equal(t, tc.key, explainKey(c, tc.query)[0][2], tc.query)
		}
	}
	require.Equal(t, [][]string{{"1", "Name1", "1", "2011-05-17 10:00:00", `{"name": "n1"}`}}, c.query("select * from t where id = 1"),
		"hidden columns are hidden")
	require.Error(t, c.try("select `_V$_lo_0` from t"))

	c.exec("update t set c = 'OTHER' where lower(c) = 'name7'")
	require.Empty(t, c.queryFlat("select id from t where lower(c) = 'name7'"))
	require.ElementsMatch(t, []string{"107", "157", "57", "7"}, c.queryFlat("select id from t where lower(c) = 'other'"))
	c.exec("delete from t where lower(c) = 'other' and id > 50")
	require.Equal(t, []string{"7"}, c.queryFlat("select id from t where lower(c) = 'other'"))
	requireCode(t, c.try("insert into t (id, a) values (1000, 20)"), 1062, "")
	c.exec("replace into t (id, a, c) values (1000, 20, 'New')")
	require.Equal(t, []string{"1000"}, c.queryFlat("select id from t where a * 2 = 40"))
	c.exec("insert into t (id, a) values (1001, 20) on duplicate key update c = concat(c, 'er')")
	require.Equal(t, []string{"1000"}, c.queryFlat("select id from t where lower(c) = 'newer'"))
	requireCode(t, c.try("insert into t (id, a) values (1002, 2147483648)"), 1264, "")
	requireCode(t, c.try("insert into t (id, j) values (1002, '{\"name\": \"0123456789012345678901234567890\"}')"), 3907, "")

	require.Contains(t, c.query("show create table t")[0][1], "KEY `lo` ((lower(`c`)))")
	require.Contains(t, c.query("show create table t")[0][1], "KEY `sum` (`a`,(`a` + 1),`c`(3))")
	require.Equal(t, []string{"id", "c", "a", "d", "j"}, column(c.query("show columns from t"), 0))
	require.Equal(t, [][]string{{"5"}}, c.query("select count(*) from information_schema.columns where table_name = 't'"))
	require.Equal(t, [][]string{{"<nil>", "lower(`c`)"}},
		c.query("select column_name, expression from information_schema.statistics where table_name = 't' and index_name = 'lo'"))
}

// CASTs to different types are different expressions, also where go-mysql-server
// takes them for one.
func TestOnlyTheSameExpressionUsesAnIndex(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id int primary key, a varchar(20), d date, key ch ((cast(a as signed))), key i ((d + interval 1 day)))")
	c.exec("insert into t values (1, '5', '2024-01-31'), (2, '5x', '2024-02-29')")
	key := func(where string) string { return explainKey(c, "select * from t where "+where)[0][2] }
	require.Equal(t, "ch", key("cast(a as signed) = 5"))
	require.Equal(t, "<nil>", key("cast(a as unsigned) = 5"))
	require.Equal(t, "<nil>", key("cast(a as char(5)) = '5x'"))
	require.Equal(t, []string{"2"}, c.queryFlat("select id from t where cast(a as char(5)) = '5x'"))
	require.Equal(t, "i", key("date_add(d, interval 1 day) = '2024-02-01'"))
	require.Equal(t, "<nil>", key("date_add(d, interval 1 month) = '2024-02-29'"))
	require.Equal(t, []string{"1"}, c.queryFlat("select id from t where date_add(d, interval 1 month) = '2024-02-29'"))
	require.Equal(t, "<nil>", key("date_add(d, interval 2 day) = '2024-02-01'"))
	require.Equal(t, "<nil>", key("date_sub(d, interval 1 day) = '2024-02-01'"))
	require.Equal(t, [][]string{{"PRIMARY", "id", "<nil>"}, {"ch", "<nil>", "cast(`a` as signed)"}, {"i", "<nil>", "date_add(`d`, interval 1 day)"}},
		pick(c.query("show index from t"), 2, 4, 14))
}

func pick(rows [][]string, columns ...int) [][]string {
	out := make([][]string, len(rows))
	for k, r := range rows {
		for _, i := range columns {
			out[k] = append(out[k], r[i])
		}
	}
	return out
}

func column(rows [][]string, i int) []string {
	out := make([]string, len(rows))
	for k, r := range rows {
		out[k] = r[i]
	}
	return out
}

// In a transaction an index on an expression finds the transaction's own rows.
func TestExpressionIndexSeesOwnWrites(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id int, c varchar(20), key lo ((lower(c))))")
	c.exec("insert into t values (1, 'A')")
	c.exec("begin")
	c.exec("insert into t values (2, 'A')")
	c.exec("update t set c = 'B' where id = 1")
	require.Equal(t, []string{"2"}, c.queryFlat("select id from t where lower(c) = 'a'"))
	c.exec("rollback")
	require.Equal(t, []string{"1"}, c.queryFlat("select id from t where lower(c) = 'a'"))
}

// An index on an expression whose collation is the session's is used only in
// sessions of the same collation.
func TestExpressionIndexOfAnotherCollation(t *testing.T) {
	c := newNode(t).conn()
	c.exec("set collation_connection = 'utf8mb4_0900_bin'")
	c.exec("create table t (id int primary key, c varchar(20), key m ((md5(c))))")
	c.exec("insert into t values (1, 'x')")
	lower := "select id from t where md5(c) = '9dd4e461268c8034f5c8564e155c67a6'"
	require.Equal(t, "m", explainKey(c, lower)[0][2])
	c.exec("set collation_connection = 'utf8mb4_general_ci'")
	require.Equal(t, "<nil>", explainKey(c, lower)[0][2])
	require.Equal(t, []string{"1"}, c.queryFlat(lower))
}

func TestGeneratedColumnsInQueries(t *testing.T) {
	c := newNode(t).conn()
	c.exec(`create table t (id int primary key, a int, v int as (a + 1), s varchar(20) as (concat('x', v)) stored not null,
		key v (v), unique key s (s))`)
	c.exec("insert into t (id, a) values (1, 10), (2, 20)")
	c.exec("insert into t values (3, 30, default, default)")
	require.Equal(t, [][]string{{"1", "10", "11", "x11"}, {"2", "20", "21", "x21"}, {"3", "30", "31", "x31"}}, c.query("select * from t"))
	require.Equal(t, [][]string{{"21", "2"}}, c.query("select v, id from t where v = 21"))
	require.Equal(t, [][]string{{"t", "ref", "v", "Using where; Using index"}}, explainKey(c, "select v, id from t where v = 21"))
	require.Equal(t, [][]string{{"t", "ref", "v", "Using where"}}, explainKey(c, "select v, a from t where v = 21"))

	requireCode(t, c.try("insert into t (id, a, v) values (4, 1, 1)"), 3105, "")
	requireCode(t, c.try("insert into t values (4, 1, 1, 'x')"), 3105, "")
	requireCode(t, c.try("update t set v = 3"), 3105, "")
	requireCode(t, c.try("insert into t (id, a) values (4, 10)"), 1062, "")
	c.exec("update t set a = a + 100, v = default where id = 1")
	require.Equal(t, [][]string{{"110", "111", "x111"}}, c.query("select a, v, s from t where s = 'x111'"))
	c.exec("insert into t (id, a) values (3, 0) on duplicate key update a = v + 1")
	require.Equal(t, [][]string{{"32", "33", "x33"}}, c.query("select a, v, s from t where id = 3"))
	c.exec("replace into t (id, a) values (9, 32)")
	require.Equal(t, [][]string{{"9"}}, c.query("select id from t where v = 33"))
	c.exec("delete from t where v = 33")
	require.Equal(t, [][]string{{"2"}}, c.query("select count(*) from t"))
	require.Equal(t, [][]string{{"21", "2"}, {"111", "1"}}, c.query("select v, id from t order by v"))
	c.exec("insert into t (id, a) select id + 10, a + 1 from t")
	require.Equal(t, [][]string{{"111", "112"}, {"21", "22"}}, c.query("select x.v, y.v from t x join t y on x.v + 1 = y.v order by x.id"))

	require.Contains(t, c.query("show create table t")[0][1], "`v` int GENERATED ALWAYS AS (`a` + 1) VIRTUAL,\n"+
		"  `s` varchar(20) GENERATED ALWAYS AS (concat(_utf8mb4'x', `v`)) STORED NOT NULL,")
	require.Equal(t, []string{"", "", "VIRTUAL GENERATED", "STORED GENERATED"}, column(c.query("show columns from t"), 5))
	require.Equal(t, [][]string{{"VIRTUAL GENERATED", "`a` + 1"}, {"STORED GENERATED", "concat(_utf8mb4'x', `v`)"}},
		c.query("select extra, generation_expression from information_schema.columns where table_name = 't' and extra != '' order by ordinal_position"))
}

// The session's settings do not change what is computed.
func TestGeneratedColumnsAreTheSameInAllSessions(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id int primary key, d datetime, g varchar(30) as (concat(d, '')) stored, y int as (year(d)), key y (y))")
	c.exec("set time_zone = '+09:00', sql_mode = ''")
	c.exec("insert into t (id, d) values (1, '2024-12-31 23:30:00')")
	c.exec("set time_zone = '-11:00', sql_mode = 'ansi_quotes,strict_trans_tables'")
	require.Equal(t, [][]string{{"2024-12-31 23:30:00", "2024"}}, c.query("select g, y from t where y = 2024"))
}
