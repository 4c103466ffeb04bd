package sql_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

var pointsOfBuild = []string{"after change-schema write-only", "before backfill backfilled", betweenScanAndImport}

var queriesOfLowerC = []string{
	"select id, c from t where lower(c) = 'row 3'",
	"select id from t where lower(c) in ('row 5', 'row 6', 'new 7', 'gone') order by id",
	"select id, k, c from t where lower(c) >= 'a' order by c, id",
}

// A value that the expression makes of two rows is a duplicate, whoever wrote them
// and when: the job fails and leaves no trace.
func TestUniqueExpressionIndexMeetsDuplicates(t *testing.T) {
	before := func(*jobNode) {}
	for _, tc := range []struct {
		name, point string
		before      func(n *jobNode)
		statements  []string
	}{
		{name: "both before", before: func(n *jobNode) { n.c.exec("insert into t values (2000, 1, 'ROW 3')") }},
		{"one while it is built", pointsOfBuild[0], before, []string{"insert into t values (2000, 1, 'ROW 3')"}},
		{"one after the scan", pointsOfBuild[1], before, []string{"update t set c = 'Row 3' where id = 4"}},
		{"one before the import", betweenScanAndImport, before, []string{"replace into t values (7, 7, 'ROW 3')"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newJobNode(t)
			n.fill(300)
			tc.before(n)
			if tc.point != "" {
				n.during(tc.point, tc.statements...)
			}
			requireCode(t, n.c.try("create unique index lo on t ((lower(c)))"), 1062, "Duplicate entry 'row 3' for key 't.lo'")
			require.Empty(t, n.at)
			require.NotContains(t, n.c.query("show create table t")[0][1], "lo")
			n.c.exec("admin check table t")
			require.Len(t, n.c.query("select * from t where lower(c) = 'row 3'"), 2)
			require.Equal(t, []string{"id", "k", "c"}, column(n.c.query("show columns from t"), 0))

			n.c.exec("delete from t where c <> 'row 3' collate utf8mb4_bin and lower(c) = 'row 3'")
			n.c.exec("create unique index lo on t ((lower(c)))")
			requireCode(t, n.c.try("insert into t values (3000, 1, 'rOW 3')"), 1062, "Duplicate entry 'row 3' for key 't.lo'")
			n.requireIndex("lo", queriesOfLowerC...)
		})
	}
}

// Values of an expression change hands while its unique index is built, and are at
// no time two rows'.
func TestExpressionValuesChangeHandsDuringTheBuild(t *testing.T) {
	for _, point := range pointsOfBuild {
		t.Run(point, func(t *testing.T) {
			n := newJobNode(t)
			n.fill(300)
			n.during(point,
				"delete from t where id = 3", "insert into t values (1003, 3, 'ROW 3')",
				"begin", "update t set c = 'aside' where id = 5", "update t set c = 'ROW 5' where id = 6", "update t set c = 'Row 6' where id = 5", "commit",
				"update t set c = upper(c) where id between 20 and 40",
				"insert into t values (41, 1, 'ROW 41') on duplicate key update c = values(c)",
				"replace into t values (42, 2, 'ROW 42')",
				"insert into t values (1100, 1, null), (1101, 1, null)",
			)
			n.alter("alter table t add unique index lo ((lower(c)))")
			require.Equal(t, []string{"1003"}, n.c.queryFlat("select id from t where lower(c) = 'row 3'"))
			require.Equal(t, []string{"6"}, n.c.queryFlat("select id from t where lower(c) = 'row 5'"))
			require.Equal(t, []string{"41"}, n.c.queryFlat("select id from t where lower(c) = 'row 41'"))
			n.requireIndex("lo", queriesOfLowerC...)
		})
	}
}

// Columns, prefixes and expressions in one key, and several such indexes and a
// virtual column of one ALTER, beside writes.
func TestCompositeExpressionIndexesBesideWrites(t *testing.T) {
	for _, point := range pointsOfBuild {
		t.Run(point, func(t *testing.T) {
			n := newJobNode(t)
			n.fill(300)
			n.during(point,
				"update t set k = k + 100, c = concat('New', id) where id % 3 = 0",
				"delete from t where id % 5 = 0",
				"insert into t values "+rowList(301, 400, "Late"),
			)
			n.alter("alter table t add column v int as (k * 2) virtual, add index v (v, k), " +
				"add index mix (k, (upper(c)), c(3)), add unique index u ((id * 2), (k + 1))")
			n.c.exec("admin check table t")
			n.c.exec("update t set c = 'Later' where id = 301")
			require.Equal(t, []string{"301"}, n.c.queryFlat("select id from t where k = 1 and upper(c) = 'LATER'"))
			require.Equal(t, []string{"399"}, n.c.queryFlat("select id from t where id * 2 = 798"))
			require.Equal(t, fmt.Sprint(400-60), n.c.queryFlat("select count(*) from t")[0])
			require.ElementsMatch(t, n.c.queryFlat("select id from t where k * 2 + 0 = 208"), n.c.queryFlat("select id from t where v = 208"))
			n.c.exec("admin check table t")
			n.c.exec("alter table t drop index mix, drop index v, drop column v")
			n.c.exec("admin check table t")
			require.Equal(t, []string{"id", "k", "c"}, column(n.c.query("show columns from t"), 0))
		})
	}
}

// A row that the expression has no value for fails the job, which leaves no trace;
// while the index is built such rows are refused.
func TestRowsWithoutAValueOfTheExpression(t *testing.T) {
	const add = "alter table t add index j ((cast(json_extract(c, '$.a') as signed)))"
	n := newJobNode(t)
	n.c.exec("create table t (id int primary key, k int, c varchar(40))")
	n.c.exec(`insert into t values (1, 1, '{"a": 17}'), (2, 2, null), (3, 3, '{')`)
	requireCode(t, n.c.try(add), 3141, "")
	require.NotContains(t, n.c.query("show create table t")[0][1], "json_extract")
	n.c.exec("delete from t where id = 3")

	other := n.conn()
	n.at[pointsOfBuild[0]] = func() error {
		requireCode(t, other.try("insert into t values (4, 4, '[')"), 3141, "")
		return other.try(`insert into t values (5, 5, '{"a": 18}')`)
	}
	n.alter(add)
	require.Equal(t, []string{"5"}, n.c.queryFlat("select id from t where cast(json_extract(c, '$.a') as signed) = 18"))
	n.requireIndex("j", "select id from t where cast(json_extract(c, '$.a') as signed) > 1")
}
