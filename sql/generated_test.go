package sql_test

import (
	"fmt"
	"slices"
	"testing"

	gms "github.com/dolthub/go-mysql-server/sql"
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
		{"select id from t where lower(c) <=> null", "lo", []string{}},
		{"select count(*) from t where null <=> a * 2", "twice", []string{"0"}},
		{"select count(*) from t where lower(c) is not null and id < 3", "", []string{"3"}},
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

// Where a comparison converts the expression, or looks for what is not equal, the
// order of an index is of no use.
func TestConversionsUseNoExpressionIndex(t *testing.T) {
	c := newNode(t).conn()
	c.exec(`create table t (id int primary key, s varchar(20), g varchar(20) collate utf8mb4_general_ci, a int, f double,
		key s ((lower(s))), key g ((upper(g))), key a ((a + 1)), key f ((f + a)), key d ((a / 4)))`)
	c.exec("insert into t values (1, '5', 'abc', 4, 0.5), (2, '5.0', 'ABC', 1, -1), (3, 'x', 'Abd', 0, 0.5)")
	for where, want := range map[string]struct {
		key string
		ids []string
	}{
		"lower(s) = '5'":                            {"s", []string{"1"}},
		"lower(s) = 5":                              {"<nil>", []string{"1", "2"}},
		"lower(s) in ('5', 5)":                      {"<nil>", []string{"1", "2"}},
		"lower(s) = X'78'":                          {"<nil>", []string{"3"}},
		"lower(s) = lower('X')":                     {"s", []string{"3"}},
		"lower(s) = 'X' collate utf8mb4_general_ci": {"<nil>", []string{"3"}},
		"lower(s) <> 'x'":                           {"<nil>", []string{"1", "2"}},
		"a + 1 in (a, 5)":                           {"<nil>", []string{"1"}},
		"lower(s) = s":                              {"<nil>", []string{"1", "2", "3"}},
		"lower(s) = (select 'x')":                   {"s", []string{"3"}},
		"upper(g) = 'abc'":                          {"g", []string{"1", "2"}},
		"upper(g) not in ('abc', 'x')":              {"<nil>", nil},
		"not upper(g) = 'abd'":                      {"<nil>", []string{"1", "2"}},
		"a + 1 = 5":                                 {"a", []string{"1"}},
		"a + 1 = 2 + 3":                             {"a", []string{"1"}},
		"a + 1 = '5'":                               {"<nil>", []string{"1"}},
		"a + 1 = 5.0":                               {"<nil>", []string{"1"}},
		"a + 1 > 1.5":                               {"<nil>", []string{"1", "2"}},
		"f + a = 0.5":                               {"f", []string{"3"}},
		"f + a in (0.5, 4.5)":                       {"f", []string{"1", "3"}},
		"f + a in (0.5, 1e100)":                     {"<nil>", nil},
		"a / 4 = 0.25":                              {"d", []string{"2"}},
		"a / 4 between 0 and 0.3":                   {"d", []string{"2", "3"}},
		"a / 4 >= 25e-2":                            {"<nil>", []string{"1", "2"}},
	} {
		query := "select id from t where " + where
		require.Equal(t, want.key, explainKey(c, query)[0][2], where)
		if want.ids != nil {
			require.ElementsMatch(t, want.ids, c.queryFlat(query), where)
		}
	}
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

// DEFAULT is the only value that a generated column takes, and what upserts do
// without a value of their own.
func TestUpsertsOfGeneratedColumns(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table t (id int primary key, a int default 7, g int as (a * 2), s int as (a + 1) stored, key lo ((a + 5)))")
	c.exec("create table src (id int, a int)")
	c.exec("insert into src values (1, 10), (2, 20)")
	c.exec("insert into t (id, a) values (1, 1)")
	requireCode(t, c.try("insert into t (id, a) values (1, 2) on duplicate key update g = 3"), 3105, "generated column 'g' in table 't'")
	requireCode(t, c.try("insert into t (id, a) select id, a from src on duplicate key update s = g"), 3105, "generated column 's' in table 't'")
	require.Equal(t, [][]string{{"1", "1", "2", "2"}}, c.query("select * from t"))

	c.exec("insert into t (id, a) values (1, 2) on duplicate key update g = default, s = default, a = a + g")
	require.Equal(t, [][]string{{"1", "3", "6", "4"}}, c.query("select * from t"))
	c.exec("insert into t (id, a) values (1, 2) on duplicate key update a = default")
	require.Equal(t, [][]string{{"1", "7", "14", "8"}}, c.query("select * from t where a + 5 = 12"))
	c.exec("insert into t (id, a) select id, a from src on duplicate key update a = t.a + 100")
	require.Equal(t, [][]string{{"1", "107", "214", "108"}, {"2", "20", "40", "21"}}, c.query("select * from t"))
	require.Equal(t, []string{"1"}, c.queryFlat("select id from t where a + 5 = 112"))
}

func TestHiddenColumnsStayOutOfJoins(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table a (x int, y int, key lo ((x + 1)))")
	c.exec("create table b (x int, z int, key lo ((x + 1)))")
	c.exec("insert into a values (1, 10), (2, 20)")
	c.exec("insert into b values (2, 200), (3, 300)")
	for _, query := range []string{"select * from a natural join b", "select * from a join b using (x)", "select * from a natural join b where a.x + 1 = 3"} {
		require.Equal(t, [][]string{{"2", "20", "200"}}, c.query(query), query)
	}
	require.Equal(t, [][]string{{"1", "10", "<nil>"}, {"2", "20", "200"}}, c.query("select * from a natural left join b order by x"))
	require.Equal(t, [][]string{{"2", "20", "2", "200"}}, c.query("select * from a, b where a.x + 1 = 3 and b.x + 1 = 3"))
}

func TestExpressionIndexesInTheSchema(t *testing.T) {
	c := newJobNode(t).c
	c.exec("create table t (id int primary key, a int, s varchar(20) not null, unique key u (a, (a + 1), s(4)), key i ((lower(s))) comment 'low' invisible)")
	require.Equal(t, [][]string{
		{"PRIMARY", "1", "id", "<nil>", "0", "", "YES", "", "<nil>"},
		{"u", "1", "a", "<nil>", "0", "YES", "YES", "", "<nil>"},
		{"u", "2", "<nil>", "<nil>", "0", "YES", "YES", "", "`a` + 1"},
		{"u", "3", "s", "4", "0", "", "YES", "", "<nil>"},
		{"i", "1", "<nil>", "<nil>", "1", "YES", "NO", "low", "lower(`s`)"},
	}, c.query(`select index_name, seq_in_index, column_name, sub_part, non_unique, nullable, is_visible, index_comment, expression
		from information_schema.statistics where table_schema = 'test'`))
	require.Equal(t, [][]string{{"PRIMARY", "id"}, {"u", "a"}, {"u", "s"}},
		c.query("select constraint_name, column_name from information_schema.key_column_usage where table_schema = 'test'"))
	require.Equal(t, [][]string{{"u", "<nil>", "YES", "`a` + 1"}, {"i", "<nil>", "NO", "lower(`s`)"}},
		pick(slices.DeleteFunc(c.query("show index from t"), func(r []string) bool { return r[4] != "<nil>" }), 2, 4, 13, 14))
	require.Equal(t, "<nil>", explainKey(c, "select * from t where lower(s) = 'x'")[0][2])
	c.exec("create table u like t")
	require.Contains(t, c.query("show create table u")[0][1], "UNIQUE KEY `u` (`a`,(`a` + 1),`s`(4)),\n  KEY `i` ((lower(`s`))) COMMENT 'low' /*!80000 INVISIBLE */\n")
	requireCode(t, c.try("create table e (a int, g int as (a + nope))"), 1054, "Unknown column 'nope' in 'generated column function'")
	requireCode(t, c.try("create table e (a int, key i ((a + nope)))"), 1054, "Unknown column 'nope' in 'generated column function'")
}

// A projection has its values where its schema has their columns, in whichever
// order they are asked for.
func TestProjectionsWithHiddenColumnsInAnyOrder(t *testing.T) {
	n := newNode(t)
	n.conn().exec("create table t (a int, b int, g int as (a + b), key lo ((a * 2)))")
	n.conn().exec("insert into t (a, b) values (1, 10), (2, 20)")
	s := n.session()
	_, _, err := n.engine.Query(t.Context(), s, "begin")
	require.NoError(t, err)
	ctx := gms.NewContext(t.Context(), gms.WithSession(s))
	table, _, err := n.engine.GMS().Analyzer.Catalog.Table(ctx, "test", "t")
	require.NoError(t, err)
	var names []string
	for _, col := range table.Schema(ctx) {
		names = append(names, col.Name)
	}
	values := map[string]any{"a": int32(2), "b": int32(20), "g": int32(22), names[3]: int64(2), names[4]: nil}
	for _, columns := range [][]string{names, {names[3], "a"}, {"g", names[3], "b"}, {names[3]}, {"b", "a"}, {}} {
		projected, err := table.(gms.ProjectedTable).WithProjections(ctx, columns)
		require.NoError(t, err)
		parts, err := projected.Partitions(ctx)
		require.NoError(t, err)
		rows, err := gms.RowIterToRows(ctx, gms.NewTableRowIter(ctx, projected, parts))
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Len(t, rows[1], len(projected.Schema(ctx)))
		for i, col := range projected.Schema(ctx) {
			require.Equal(t, values[col.Name], rows[1][i], "%s of %v", col.Name, columns)
		}
	}
	_, _, err = n.engine.Query(t.Context(), s, "rollback")
	require.NoError(t, err)
}
