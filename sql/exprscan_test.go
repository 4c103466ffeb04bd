package sql_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const exprColumns = `id int primary key, s varchar(20) collate utf8mb4_bin, g varchar(20) collate utf8mb4_general_ci, a int,
	u bigint unsigned, f double, n decimal(8,2), d datetime, e enum('x','y','z'), b bit(4), y year, tm time, j json`

// indexedExprs are expressions for indexes, of all kinds of values.
var indexedExprs = []string{
	"lower(s)", "upper(g)", "concat(s, g)", "left(s, 2)", "replace(s, 'a', 'b')", "coalesce(s, 'zz')", "md5(s)", "hex(s)",
	"cast(a as char(10))", "cast(j->>'$.s' as char(20))", "s collate utf8mb4_general_ci", "case when a > 2 then s else g end", "concat(e)",
	"binary s", "cast(g as binary(5))", "date_format(d, '%Y-%m')", "if(a > 3, 'big', 'small')", "elt(a, 'x', 'y', 'z')",
	"a + 1", "a * 2", "a div 2", "-a", "a % 3", "a << 2", "a & 3", "abs(a)", "u - 1", "cast(s as signed)", "cast(s as unsigned)",
	"cast(j->'$.n' as signed)", "year(d)", "length(s)", "char_length(g)", "e + 0", "b + 0", "y + 1", "a > 3", "a is null", "s like 'a%'",
	"a in (1, 2)", "ifnull(a, -1)", "nullif(a, 2)", "greatest(a, u)", "datediff(d, '2024-01-01')", "strcmp(s, g)", "floor(n)",
	"a / 3", "n * 2", "n + a", "cast(s as decimal(10,2))", "cast(f as decimal(10,3))", "cast(n as decimal(8,1))", "round(n)",
	"f * 2", "f + a", "round(f, 1)", "power(a, 2)", "least(a, f)", "cast(s as double)",
	"date(d)", "last_day(d)", "date_add(d, interval 1 day)", "cast(s as datetime)", "cast(d as date)", "time(d)", "cast(s as time)",
}

// comparedValues are what expressions are compared with, whether it makes sense or
// not.
var comparedValues = []string{
	"'a'", "'A'", "'abc'", "'ABC'", "5", "'5'", "'5.0'", "5.0", "5e0", "-1", "2.5", "0.5", "0", "1", "2", "3", "10", "'3x'", "true", "null", "''",
	"'é'", "'big'", "'2024-02-29'", "'2024-02-29 12:30:00'", "date '2024-02-29'", "timestamp '2024-02-29 12:30:00'", "2024", "20240229",
	"'12:30:00'", "123000", "9223372036854775807", "18446744073709551615", "-9223372036854775808", "1.6667", "0.3333", "0.33333333333",
	"1e100", "'1.25'", "0x35", "X'61'", "cast('a' as binary)", "'ABC' collate utf8mb4_general_ci", "'abc' collate utf8mb4_bin",
	"cast('5' as decimal(10,2))", "concat('a', 'bc')", "cast('2024-02-29' as date)", "2 + 3",
}

// With an index on an expression every condition on the expression gives the rows
// that it gives without one, and does not fail where it does not without one.
func TestExpressionIndexesGiveWhatScansGive(t *testing.T) {
	long := os.Getenv("FASTDDL_LONG") != ""
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	exprs, conditions := indexedExprs, 600
	if !long {
		rnd.Shuffle(len(exprs), func(i, j int) { exprs[i], exprs[j] = exprs[j], exprs[i] })
		exprs, conditions = exprs[:16], 60
	}
	c := newNode(t).conn()
	c.exec("create table plain (" + exprColumns + ")")
	insertExprRows(c, rnd)
	used := 0
	for i, expr := range exprs {
		indexed := fmt.Sprintf("t%d", i)
		c.exec("create table " + indexed + " (" + exprColumns + ", key k ((" + expr + ")))")
		// Texts that are no numbers are cast as clients cast them.
		c.exec("set sql_mode = ''")
		c.exec("insert into " + indexed + " select * from plain")
		for range conditions {
			if checkCondition(t, c, indexed, randomCondition(rnd, expr)) {
				used++
			}
		}
	}
	require.Greater(t, used, len(exprs)*conditions/20, "conditions that used an index")
}

func insertExprRows(c *conn, rnd *rand.Rand) {
	pick := func(values ...string) string { return values[rnd.IntN(len(values))] }
	for i := range 60 {
		c.exec("insert into plain values (" + strings.Join([]string{
			fmt.Sprint(i),
			pick("null", "'a'", "'A'", "'abc'", "'ABC'", "'5'", "'5.0'", "'3x'", "''", "'é'", "'2024-02-29'", "'12:30:00'", "'2.5'", "'big'"),
			pick("null", "'a'", "'A'", "'abc'", "'Abc'", "'5'", "'É'"),
			pick("null", "-1", "0", "1", "2", "3", "4", "5"),
			pick("null", "1", "2", "3", "5", "7"),
			pick("null", "0.5", "1.25", "2", "2.5", "-1", "0.1", "5"),
			pick("null", "0.5", "1.25", "2", "2.5", "-1", "0.01", "5"),
			pick("null", "'2024-02-29 12:30:00'", "'2024-02-28'", "'2023-12-31 23:59:59'", "'2024-01-31 00:00:00'"),
			pick("null", "'x'", "'y'", "'z'"), pick("null", "b'1'", "b'101'"), pick("null", "2024", "2023"),
			pick("null", "'12:30:00'", "'00:00:00'", "'-01:00:00'"),
			pick("null", `'{"n": 5, "s": "abc"}'`, `'{"n": null, "s": "A"}'`, `'{"n": 2, "s": "5"}'`, `'{}'`),
		}, ", ") + ")")
	}
}

func randomCondition(rnd *rand.Rand, expr string) string {
	value := func() string { return comparedValues[rnd.IntN(len(comparedValues))] }
	ops := []string{"=", "<=>", "<", "<=", ">", ">=", "!=", "in", "not in", "between", "not between", "is null", "is not null", "<expr", "=or>"}
	switch op := ops[rnd.IntN(len(ops))]; op {
	case "in", "not in":
		return fmt.Sprintf("%s %s (%s, %s)", expr, op, value(), value())
	case "between", "not between":
		return fmt.Sprintf("%s %s %s and %s", expr, op, value(), value())
	case "is null", "is not null":
		return expr + " " + op
	case "<expr":
		return value() + " < " + expr
	case "=or>":
		return fmt.Sprintf("(%s = %s or %s > %s)", expr, value(), expr, value())
	default:
		return expr + " " + op + " " + value()
	}
}

// checkCondition says whether the index was used.
func checkCondition(t *testing.T, c *conn, table, where string) bool {
	t.Helper()
	want, scanErr := c.tryQuery("select id from plain where " + where)
	if scanErr != nil {
		// Rows that an index leaves out cannot fail.
		return false
	}
	requireRows(t, c, table, where, want)
	return explainKey(c, "select * from "+table+" where "+where)[0][2] == "k"
}

// requireRows checks that a condition gives the wanted rows of the table, in any
// order.
func requireRows(t *testing.T, c *conn, table, where string, want [][]string) {
	t.Helper()
	got, err := c.tryQuery("select id from " + table + " where " + where)
	require.NoError(t, err, where)
	require.ElementsMatch(t, column(want, 0), column(got, 0), where)
}

// TestIndexOnATimeIsNotAskedForTextsOfAnotherForm: a text such as '5.0' or the empty
// one is a time in one comparison and none in the other.
func TestIndexOnATimeIsNotAskedForTextsOfAnotherForm(t *testing.T) {
	c := newNode(t).conn()
	c.exec("create table plain (id int primary key, s varchar(20))")
	c.exec("create table indexed (id int primary key, s varchar(20), key k ((cast(s as time))))")
	c.exec("set sql_mode = ''")
	c.exec("insert into plain values (1, '5.0'), (2, ''), (3, '12:30:00'), (4, 'a'), (5, '5'), (6, null), (7, '00:00:05')")
	c.exec("insert into indexed select * from plain")
	for _, where := range []string{
		"cast(s as time) in ('5.0', '')", "cast(s as time) = '5.0'", "cast(s as time) = ''", "cast(s as time) = '5'", "cast(s as time) > '00:00'",
		"cast(s as time) in ('12:30:00', '00:00:05')", "cast(s as time) = '12:30:00'", "cast(s as time) < '12:30:00.5'", "cast(s as time) in ('', '12:30:00')",
	} {
		want, err := c.tryQuery("select id from plain where " + where)
		require.NoError(t, err, where)
		requireRows(t, c, "indexed", where, want)
	}
	require.Equal(t, "k", explainKey(c, "select * from indexed where cast(s as time) = '12:30:00'")[0][2])
}
