package cop

import (
	"fmt"
	"math"
	"math/rand"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tipb/go-tipb"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// TestRandomlyPushedAsAtTheRoot compares random statements whose expressions are pushed down with the same ones over rows that
// were read before, as TestPushedAsAtTheRoot does: conditions, projections, sort keys, arguments of aggregates and items of
// GROUP BY, of mixed types, with columns of an outer query and evaluated subqueries, which are constants here. It takes two
// seconds, five minutes with FASTDDL_LONG.
//
// What may differ, and is not compared or not generated:
//
//   - Warnings and the texts of errors. At the root a warning may quote a buffer that was used again.
//   - Whether there is an error, if which rows are evaluated depends on the plan: those of a TopN, and those for which the other
//     parts of a conjunction hold.
//   - Error 3854 of strings that are not valid in a character set: TiDB does not send whether it is to be a warning.
//   - Error 1815, by which TiDB fails a statement that it has decided to push down and cannot encode, as for JSON constants.
//   - The last digits of floating point numbers, since sums depend on the order; arguments of sums have a bounded size so that
//     no others do. The sign of zero.
//   - Which of several strings that are equal MIN and MAX return.
//   - The time of dates, if it is zero: a cast to DATE or DATETIME may leave another type in a value, which is lost on the way.
//   - The number that an ENUM or BIT inside of IF and the like is for SUM and BIT_OR. At the root TiDB casts what is inside.
//   - The number that x'41' or b'101' is as it stands: TiDB sends a string, as it does for a value computed from one.
//   - Groups of quotients. They have more digits than their type shows, and TiDB rounds what it gets of a coprocessor.
//   - The order and groups of a CASE, IF and the like of strings. If TiDB folds its condition away a column is left, and the
//     collation of the whole is lost, as on TiKV (generator.folded).
//   - NOT of JSON in a condition. TiDB's planner pushes down something else: that the number which the JSON is cast to is 0.
//   - WEEK of dates without a month or day: of TiDB's two implementations one makes it NULL, and it is the rows of a batch that
//     decide which one is used.
//   - What goes by the settings that are not sent (docs/compatibility.md): the session has their defaults.
func TestRandomlyPushedAsAtTheRoot(t *testing.T) {
	slice := randtest.Time(t, 2*time.Second, 5*time.Minute)
	g := &pushedGenerator{generator: generator{rnd: rand.New(rand.NewSource(int64(randtest.Seed(t))))}}
	s := newSQLSession(t)
	s.createPushedTable(g)
	deadline := time.Now().Add(slice)
	const least = 200 // statements, however slow the machine is
	n, failed, wrong := 0, 0, 0
	for ; (n < least || time.Now().Before(deadline)) && wrong < 10; n++ {
		if n%20 == 0 {
			s.vary(&g.generator)
			s.exec("set collation_connection = " + one(&g.generator, "utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci"))
		}
		sql := g.statement()
		pushed, err := s.tryPushed(sql, "w")
		root, rootErr := s.tryPushed(sql, "(select * from w order by id limit 1000000)")
		if err != nil || rootErr != nil {
			failed++
		}
		if diff := comparePushed(sql, pushed, root, err, rootErr); diff != "" {
			wrong++
			t.Errorf("%s\n%s\nsettings %v", sql, diff, s.exec("select @@tidb_enable_chunk_rpc, @@tidb_opt_distinct_agg_push_down,"+
				" @@div_precision_increment, @@time_zone, @@collation_connection"))
		}
	}
	_, executors := s.oracle.counts()
	t.Logf("%d statements, %d failed, executors %v", n, failed, executors)
	for _, tp := range []tipb.ExecType{tipb.ExecType_TypeSelection, tipb.ExecType_TypeProjection, tipb.ExecType_TypeTopN, tipb.ExecType_TypeAggregation} {
		require.NotZero(t, executors[tp], tp)
	}
	require.LessOrEqual(t, failed, n/2)
}

// columnsForPushing are types that columnsOfAllTypes does not have.
const columnsForPushing = `bg bigint, f2 float(7,2), dz decimal(5,0), ai varchar(40) collate utf8mb4_0900_ai_ci,
	gb varchar(20) charset gbk collate gbk_chinese_ci, cb binary(6), d6 datetime(6), t0 time, b6 bit(64)`

func (s *sqlSession) createPushedTable(g *pushedGenerator) {
	const rows = 100
	s.exec("set sql_mode = ''") // also zero dates and what is cut off
	s.createTable(&g.generator, differentialTable{name: "w", create: "create table w (id int primary key, %s, " + columnsForPushing + ")"}, rows)
	for id := range rows {
		s.exec(fmt.Sprintf("update ignore w set bg = %s, f2 = %s, dz = %s, ai = '%s', gb = %s, cb = %s, d6 = %s, t0 = %s, b6 = %s where id = %d",
			one(&g.generator, g.integer(), "9223372036854775807", "-9223372036854775808", "20200102"), g.decimal(),
			one(&g.generator, "99999", "-5", "0"), g.text(), one(&g.generator, "'a'", "'A'", "'中文'", "'b '"), one(&g.generator, "'a'", "x'00ff'", "'12'"),
			one(&g.generator, "'"+g.date()+" 10:11:12.123456'", "'0000-00-00'", "'2020-02-00'", "'9999-12-31 23:59:59.999999'", "null"),
			one(&g.generator, "'"+g.clock()+"'", "'-838:59:59'", "'00:00:00'", "null"),
			one(&g.generator, "0", "1", "18446744073709551615", "65", "null"), id))
	}
	s.exec("split table w by (30), (60), (90)")
	s.exec("set sql_mode = default")
}

// tryPushed runs the statement with the rows from there.
func (s *sqlSession) tryPushed(sql, from string) (rows [][]string, err error) {
	defer func() {
		if p := recover(); p != nil { // of the client, which cannot decode an answer
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return s.try(strings.ReplaceAll(sql, rowsOfW, from+" w"))
}

var (
	pushedBroken  = regexp.MustCompile("panic|runtime error|other error")
	pushedExcused = regexp.MustCompile(":(3854|1815)]")
	pushedPartly  = regexp.MustCompile(" limit | and | between ")
)

// comparePushed says how the results of a statement differ, "" if they do not.
func comparePushed(sql string, pushed, root [][]string, err, rootErr error) string {
	if err != nil && rootErr != nil {
		return ""
	}
	if err != nil || rootErr != nil {
		both := fmt.Sprintf("pushed: %v\nroot: %v", err, rootErr)
		if !pushedBroken.MatchString(both) && (pushedExcused.MatchString(both) || pushedPartly.MatchString(sql)) {
			return ""
		}
		return both
	}
	if len(pushed) != len(root) {
		return fmt.Sprintf("pushed: %d rows\nroot: %d rows", len(pushed), len(root))
	}
	for i := range pushed {
		for k, value := range pushed[i] {
			if !samePushed(value, root[i][k]) {
				return fmt.Sprintf("row %d\npushed: %q\nroot: %q", i, pushed[i], root[i])
			}
		}
	}
	return ""
}

// samePushed says whether two values are equal but for the last digits of a number and for what is written as zero, or equal
// strings.
func samePushed(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	switch {
	case a == b:
		return true
	case errX == nil && errY == nil:
		long := max(len(a), len(b)) > 8 // short ones are exact
		return x == y && x == 0 || long && math.Abs(x-y) <= 1e-6+1e-9*math.Max(math.Abs(x), math.Abs(y))
	}
	c := collate.GetCollator("utf8mb4_unicode_ci")
	return c.Compare(writtenAsZero.ReplaceAllString(a, "$1$2"), writtenAsZero.ReplaceAllString(b, "$1$2")) == 0
}

// writtenAsZero is the time of a date, and the sign of zero in JSON.
var writtenAsZero = regexp.MustCompile(`^(\d{4}-\d\d-\d\d) 00:00:00(?:\.0+)?$|-(0[],}])`)

// rowsOfW stands in a statement for the table, or for its rows at the root.
const rowsOfW = "{w}"

// pushedGenerator makes statements over a table w. With outer its expressions have columns of an outer query o.
type pushedGenerator struct {
	generator
	outer bool
}

var pushedColumns = append(strings.Split("bg,f2,dz,ai,gb,cb,d6,t0,b6", ","), columnNames...)

// pushedLiterals are constants of all types.
var pushedLiterals = []string{"0", "1", "-1", "2.50", "0.0", "1e3", "1.5e0", "'a'", "'A'", "'1'", "' a '", "''", "'1x'", "'2020-01-02'",
	"'10:11:12.5'", "null", "true", "18446744073709551615", "9223372036854775807", "date'2020-02-03'", "time'10:11:12.25'",
	"timestamp'2020-02-03 04:05:06.5'", "cast(null as date)", "cast(null as decimal(5,0))", "cast(1.5 as float)", "cast('a' as binary)",
	"cast('1.50' as decimal(10,3))", "cast('[1]' as json)", "binary 'a'", "_latin1'a'", "cast(3 as unsigned)", "cast('2020-01-01' as year)",
	"'a' collate utf8mb4_general_ci", "cast('2020-01-01 01:02:03.456' as datetime(2))", "cast('中' as char charset gbk)", "cast(-5 as signed)"}

// pushedCalls are expressions by kind: #x is any other, #c a column or constant, #s a string, #t a point in time, #u a unit
// of time.
var pushedCalls = [][]string{
	{"(#x + #x)", "(#x - #x)", "(#x * #x)", "(#x / #x)", "(#x div #x)", "(#x % #x)"},
	{"(#x = #x)", "(#x < #x)", "(#x <= #x)", "(#x > #x)", "(#x >= #x)", "(#x != #x)", "(#x <=> #x)"},
	{"(#x and #x)", "(#x or #x)", "(#x xor #x)", "(#x & #x)", "(#x | #x)", "(#x ^ #x)", "(#x << #x)", "(#x >> #x)"},
	{"(not #x)", "(~#x)", "(-#x)", "(#x is null)", "(#x is true)", "(#x is not false)", "(#x is not true)"},
	{"(#x in (#x, #x, #c))", "(#x between #x and #x)", "(#x like #x)"},
	{"if(#x, #x, #x)", "ifnull(#x, #x)", "coalesce(#x, #x, #x)", "(case when #x then #x else #x end)", "(case #x when #x then #x end)", "nullif(#x, #x)"},
	{"abs(#x)", "ceil(#x)", "floor(#x)", "sqrt(#x)", "sign(#x)", "ln(#x)", "log(#x)", "log2(#x)", "log10(#x)", "exp(#x)", "round(#x)"},
	{"sin(#x)", "asin(#x)", "cos(#x)", "acos(#x)", "atan(#x)", "cot(#x)", "radians(#x)", "degrees(#x)", "crc32(#x)"},
	{"pow(#x, #x)", "atan2(#x, #x)", "log(#x, #x)", "conv(#x, 10, 16)", "conv(#x, 16, -10)", "mod(#x, #x)"},
	{"upper(#x)", "lower(#x)", "length(#x)", "bit_length(#x)", "char_length(#x)", "ascii(#x)", "hex(#x)", "reverse(#x)", "ltrim(#x)", "rtrim(#x)",
		"md5(#x)", "sha1(#x)", "uncompressed_length(#x)"},
	{"concat(#x, #x)", "concat_ws(#x, #x, #x)", "replace(#x, #x, #x)", "strcmp(#x, #x)", "elt(#x, #x, #x)", "field(#x, #x, #x)", "substring(#x, #x)",
		"substring(#x, 2, #x)", "right(#x, #x)", "space(ti)"},
	{"json_type(#x)", "json_type(j)", "json_extract(j, '$.a')", "j->>'$.a'", "json_length(j)", "json_object(#s, #x)", "json_array(#x, #x)",
		"json_merge_patch(j, json_array(1))", "json_set(j, '$.z', #x)", "json_insert(j, '$.z', #x)", "json_replace(j, '$.a', #x)"},
	{"json_remove(j, '$.a')", "json_unquote(#s)", "json_unquote(j)", "json_contains(j, '1')", "json_contains(j, j)", "json_valid(#x)",
		"(#x member of (j))", "json_array_append(j, '$', #x)"},
	{"date(#x)", "monthname(#x)", "time_to_sec(#x)", "hour(#x)", "minute(#x)", "second(#x)", "microsecond(#x)", "month(#x)", "dayofmonth(#x)",
		"dayofweek(#x)", "dayofyear(#x)", "weekofyear(#x)", "year(#x)", "from_days(#x)"},
	{"datediff(#x, #x)", "makedate(#x, #x)", "maketime(#x, #x, #x)", "date_format(#x, '%Y-%m-%d %H:%i:%s.%f %W %b %j %p')", "date_format(#x, v)",
		"period_add(#x, #x)", "period_diff(#x, #x)"},
	{"date_add(#x, interval #x #u)", "date_sub(#t, interval #x #u)", "date_add(#t, interval #c #u)", "date_sub(#x, interval '1:2' #u)",
		"date_add(#t, interval 1.5 #u)", "date_sub(#t, interval i #u)"},
	{"cast(#x as signed)", "cast(#x as unsigned)", "cast(#x as decimal(12,3))", "cast(#x as decimal(5,0))", "cast(#x as double)", "cast(#x as float)",
		"cast(#x as json)"},
	{"cast(#x as char)", "cast(#x as char(3))", "cast(#x as binary)", "cast(#x as binary(4))", "cast(#x as date)", "cast(#x as datetime)",
		"cast(#x as datetime(3))", "cast(#x as time)", "cast(#x as time(2))", "cast(#x as char charset gbk)", "cast(#x as char charset latin1)"},
	{"(#s regexp 'a')", "(#s regexp v)", "regexp_substr(#s, '[a-z]+')", "regexp_replace(#s, 'a', 'xy')", "regexp_instr(#s, 'b')",
		"regexp_like(#s, 'A', 'i')", "(v collate utf8mb4_general_ci = #x)", "(ci collate utf8mb4_bin < #x)"},
}

var pushedPlace = regexp.MustCompile("#[a-z]")

// expr returns an expression of any type.
func (g *pushedGenerator) expr(depth int) string {
	if depth <= 0 {
		return g.leaf()
	}
	call := one(&g.generator, one(&g.generator, pushedCalls...)...)
	return pushedPlace.ReplaceAllStringFunc(call, func(place string) string {
		switch place {
		case "#x":
			return g.expr(depth - 1)
		case "#s":
			return one(&g.generator, "v", "ci", "un", "ai", "la", "gb", "ch", "cb", "bi", "tx", "bl", "e", "'"+g.text()+"'")
		case "#t":
			return one(&g.generator, "dt", "d6", "ts", "da", "tm", "t0", "v")
		case "#u":
			return one(&g.generator, "day", "month", "year", "second", "minute", "hour", "microsecond", "week", "quarter", "hour_minute",
				"day_second", "second_microsecond")
		}
		return g.leaf()
	})
}

// leaf returns a column or a constant.
func (g *pushedGenerator) leaf() string {
	switch g.rnd.Intn(8) {
	case 0:
		return one(&g.generator, pushedLiterals...)
	case 1:
		return "'" + g.text() + "'"
	case 2:
		return fmt.Sprintf("(select %s from w where id = %d)", one(&g.generator, pushedColumns...), g.rnd.Intn(110))
	}
	col := one(&g.generator, pushedColumns...)
	if g.outer && g.rnd.Intn(2) == 0 {
		return "o." + col
	}
	return col
}

// without returns an expression that the pattern does not match.
func (g *pushedGenerator) without(pattern *regexp.Regexp, depth int) string {
	for {
		if e := g.expr(depth); !pattern.MatchString(e) {
			return e
		}
	}
}

// What is excluded somewhere.
var (
	pushedNotJSON = regexp.MustCompile(`\(not .*(json|\bj\b)`)
	pushedGroup   = regexp.MustCompile(` / |` + pushedFolded.String())
	pushedFolded  = regexp.MustCompile(`(\bif|ifnull|coalesce|nullif|\(case)\b.*('|\b(v|ci|un|ai|la|gb|ch|cb|bi|tx|bl|e|s)\b)`)
)

// aggregate returns an aggregate of an expression.
func (g *pushedGenerator) aggregate(depth int) string {
	e := g.without(pushedFolded, depth)
	function := one(&g.generator, "count", "max", "min", "sum", "avg", "bit_or", "bit_and", "bit_xor")
	distinct := ""
	if !strings.HasPrefix(function, "bit") {
		distinct = one(&g.generator, "", "", "distinct ")
	}
	if function != "count" && function != "max" && function != "min" {
		e = one(&g.generator, "if(abs("+e+") < 1e6, "+e+" + 0, 1)", g.leaf())
	}
	return function + "(" + distinct + e + ")"
}

// statement returns a random statement.
func (g *pushedGenerator) statement() string {
	if g.outer = g.rnd.Intn(4) == 0; g.outer {
		return "select o.id, (select /*+ NO_DECORRELATE() */ " + g.inner() + ") from w o where o.id < 12 order by o.id"
	}
	depth, from := 1+g.rnd.Intn(2), " from "+rowsOfW+" "
	desc := one(&g.generator, "", " desc")
	switch g.rnd.Intn(6) {
	case 0:
		return "select id" + from + "where " + g.without(pushedNotJSON, depth) + " order by id"
	case 1:
		return "select id, " + g.expr(depth) + " as x" + from + "where id >= 0 order by id"
	case 2:
		return fmt.Sprintf("select id%sorder by %s%s, %s, id limit %d", from, g.without(pushedFolded, depth), desc, g.leaf(), 1+g.rnd.Intn(40))
	case 3:
		return "select " + g.aggregate(depth) + ", " + g.aggregate(depth) + from
	case 4:
		return "select distinct " + g.without(pushedGroup, depth) + " as x, " + g.leaf() + " as y, i" + from + "order by x, y, i"
	}
	hint := one(&g.generator, "", "/*+ hash_agg() */ ", "/*+ stream_agg() */ ")
	e := g.without(pushedGroup, depth)
	return "select " + hint + "min(id) as m, count(*), " + g.aggregate(depth) + from + "group by " + e + " order by m"
}

// inner returns the subquery of a statement with an outer one.
func (g *pushedGenerator) inner() string {
	from := " from " + rowsOfW + " where w.id >= "
	switch g.rnd.Intn(3) {
	case 0:
		return "count(*)" + from + "0 and " + g.without(pushedNotJSON, 1+g.rnd.Intn(2))
	case 1:
		return g.aggregate(1) + from + "o.id"
	}
	return "sum(t.c * t.c) from (select count(*) as c, w.i" + from + "o.id group by " + g.without(pushedGroup, 1+g.rnd.Intn(2)) + ", w.i) t"
}
