package cop

import (
	"fmt"
	"math/rand"
	"strings"
)

// generator makes random tables' rows and queries over the columns of all types.
type generator struct {
	rnd *rand.Rand
}

// columnsOfAllTypes is shared by all tables of the test.
const columnsOfAllTypes = `i int, u bigint unsigned, ti tinyint, f float, d double, dc decimal(20,6), v varchar(40) collate utf8mb4_bin,
	ci varchar(40) collate utf8mb4_general_ci, un varchar(40) collate utf8mb4_unicode_ci, la varchar(20) charset latin1 collate latin1_bin,
	ch char(12), bi varbinary(20), tx text, bl blob, dt datetime(3), ts timestamp, da date, tm time(2), y year,
	e enum('red','Green','blue','') collate utf8mb4_general_ci, s set('a','b','c','D'), b bit(12), j json`

var columnNames = strings.Split("i,u,ti,f,d,dc,v,ci,un,la,ch,bi,tx,bl,dt,ts,da,tm,y,e,s,b,j", ",")

// one returns one of the values.
func one[T any](g *generator, values ...T) T { return values[g.rnd.Intn(len(values))] }

func (g *generator) text() string {
	return one(g, "", " ", "a", "A", "á", "ab", "aB", "abc  ", "Zebra", "zebra", "10", "-3.5", "1e3", "x1", "2021-01-02", "10:11:12",
		"中文", "ß", "ss", "%", "a_b", fmt.Sprint("w", g.rnd.Intn(30)), fmt.Sprint(g.rnd.Intn(200)))
}

func (g *generator) integer() string {
	return one(g, "0", "1", "-1", "7", "100", "-100", fmt.Sprint(g.rnd.Intn(50)), fmt.Sprint(g.rnd.Intn(1000)-500))
}

func (g *generator) decimal() string {
	return one(g, "0", "1.5", "-2.25", "0.000001", "99999.999999", fmt.Sprintf("%d.%03d", g.rnd.Intn(100)-50, g.rnd.Intn(1000)))
}

func (g *generator) date() string {
	return fmt.Sprintf("%04d-%02d-%02d", 2000+g.rnd.Intn(30), 1+g.rnd.Intn(12), 1+g.rnd.Intn(28))
}

func (g *generator) clock() string {
	return fmt.Sprintf("%02d:%02d:%02d.%02d", 3+g.rnd.Intn(20), g.rnd.Intn(60), g.rnd.Intn(60), g.rnd.Intn(100))
}

// literal returns a value for the column, as it is written in SQL.
func (g *generator) literal(col string) string {
	if g.rnd.Intn(12) == 0 {
		return "null"
	}
	switch col {
	case "i":
		return one(g, g.integer(), g.integer(), "2147483647", "-2147483648")
	case "u":
		return one(g, fmt.Sprint(g.rnd.Intn(50)), fmt.Sprint(g.rnd.Intn(50)), "18446744073709551615", "9223372036854775808")
	case "ti":
		return fmt.Sprint(g.rnd.Intn(256) - 128)
	case "f", "d":
		return one(g, g.decimal(), "-0.0", "1e10", "-3.25")
	case "dc":
		return g.decimal()
	case "v", "ci", "un", "tx", "bi", "bl":
		return "'" + g.text() + "'"
	case "ch":
		return "'" + strings.TrimRight(g.text(), " ") + "'"
	case "la":
		return "'" + one(g, "", "a", "A", "b ", "zz", fmt.Sprint(g.rnd.Intn(20))) + "'"
	case "dt":
		return one(g, "'"+g.date()+" "+g.clock()+"'", "'"+g.date()+"'", "'2020-02-02 02:02:02'")
	case "ts":
		return "'" + g.date() + " " + g.clock() + "'"
	case "da":
		return "'" + g.date() + "'"
	case "tm":
		return one(g, "'"+g.clock()+"'", "'-12:13:14'", "'100:00:00'")
	case "y":
		return fmt.Sprint(1990 + g.rnd.Intn(50))
	case "e":
		return one(g, "'red'", "'Green'", "'blue'", "''")
	case "s":
		return one(g, "''", "'a'", "'a,c'", "'b,D'", "'a,b,c,D'")
	case "b":
		return fmt.Sprint(g.rnd.Intn(4096))
	case "j":
		return one(g, "'null'", "'1'", "'1.5'", "'\"a\"'", "'[1,2,3]'", "'{\"a\": 1, \"b\": [true, null]}'",
			"'{\"a\": \"x\"}'", "'[]'", "'{\"m\": [1, 3, 7]}'", "'{\"m\": [3]}'")
	}
	panic("no such column: " + col)
}

// row returns the values of a row, in the order of columnNames.
func (g *generator) row() string {
	values := make([]string, len(columnNames))
	for i, col := range columnNames {
		values[i] = g.literal(col)
	}
	return strings.Join(values, ",")
}

func (g *generator) column() string { return one(g, columnNames...) }

// ordered returns a column that unistore can order: it orders bits and JSON values unlike TiDB.
func (g *generator) ordered() string {
	for {
		if col := g.column(); col != "b" && col != "j" {
			return col
		}
	}
}

// number returns an expression that is a number.
func (g *generator) number(depth int) string {
	if depth <= 0 {
		return one(g, "i", "u", "ti", "f", "d", "dc", "y", "id", g.integer(), g.decimal())
	}
	a, b := g.number(depth-1), g.number(depth-1)
	str, tm := g.str(depth-1), one(g, "dt", "ts", "da")
	return one(g,
		fmt.Sprintf("(%s + %s)", a, b), fmt.Sprintf("(%s - %s)", a, b), fmt.Sprintf("(%s * %s)", a, b), fmt.Sprintf("(%s / %s)", a, b),
		fmt.Sprintf("(%s div %s)", a, b), fmt.Sprintf("(%s %% %s)", a, b), fmt.Sprintf("abs(%s)", a), fmt.Sprintf("round(%s)", a),
		fmt.Sprintf("ceil(%s)", a), fmt.Sprintf("floor(%s)", a), fmt.Sprintf("sign(%s)", a), fmt.Sprintf("sqrt(abs(%s))", a),
		fmt.Sprintf("if(%s, %s, %s)", g.condition(depth-1), a, b), fmt.Sprintf("ifnull(%s, %s)", a, b),
		fmt.Sprintf("coalesce(%s, %s, 1)", a, b),
		fmt.Sprintf("case when %s then %s else %s end", g.condition(depth-1), a, b),
		fmt.Sprintf("(%s & %s)", a, b), fmt.Sprintf("(%s | %s)", a, b), fmt.Sprintf("(%s ^ %s)", a, b), fmt.Sprintf("-(%s)", a),
		fmt.Sprintf("length(%s)", str), fmt.Sprintf("char_length(%s)", str), fmt.Sprintf("ascii(%s)", str),
		fmt.Sprintf("strcmp(%s, %s)", str, g.str(0)),
		fmt.Sprintf("year(%s)", tm), fmt.Sprintf("month(%s)", tm), fmt.Sprintf("dayofmonth(%s)", tm), "hour(tm)",
		fmt.Sprintf("datediff(%s, da)", tm), "time_to_sec(tm)", fmt.Sprintf("weekofyear(%s)", tm), fmt.Sprintf("crc32(%s)", str),
		fmt.Sprintf("cast(%s as signed)", a), fmt.Sprintf("cast(%s as decimal(20,3))", a), fmt.Sprintf("cast(%s as signed)", str),
		"json_length(j)", "cast(json_extract(j, '$.a') as signed)", fmt.Sprintf("field(%s, 'a', 'b')", str), fmt.Sprintf("sin(%s)", a),
		fmt.Sprintf("(%s = %s)", a, b))
}

// str returns an expression that is a string.
func (g *generator) str(depth int) string {
	if depth <= 0 {
		return one(g, "v", "ci", "un", "ch", "tx", "la", "e", "'"+g.text()+"'")
	}
	a, b := g.str(depth-1), g.str(depth-1)
	return one(g,
		fmt.Sprintf("concat(%s, %s)", a, b), fmt.Sprintf("upper(%s)", a), fmt.Sprintf("lower(%s)", a), fmt.Sprintf("replace(%s, 'a', %s)", a, b),
		fmt.Sprintf("substring(%s, 2)", a), fmt.Sprintf("substring(%s, 1, 2)", a), fmt.Sprintf("right(%s, 2)", a), fmt.Sprintf("hex(%s)", a),
		fmt.Sprintf("reverse(%s)", a), fmt.Sprintf("ltrim(%s)", a), fmt.Sprintf("rtrim(%s)", a), fmt.Sprintf("if(%s, %s, %s)", g.condition(depth-1), a, b),
		fmt.Sprintf("ifnull(%s, %s)", a, b), fmt.Sprintf("cast(%s as char)", g.number(depth-1)),
		fmt.Sprintf("date_format(%s, '%%Y/%%m')", one(g, "dt", "da", "ts")),
		fmt.Sprintf("concat_ws('-', %s, %s)", a, b), fmt.Sprintf("elt(2, %s, %s)", a, b), "json_unquote(json_extract(j, '$.a'))", fmt.Sprintf("md5(%s)", a),
		"monthname(da)", "json_type(j)")
}

// condition returns an expression for WHERE.
func (g *generator) condition(depth int) string {
	if depth > 0 && g.rnd.Intn(2) == 0 {
		a, b := g.condition(depth-1), g.condition(depth-1)
		return one(g, fmt.Sprintf("(%s and %s)", a, b), fmt.Sprintf("(%s or %s)", a, b), fmt.Sprintf("(not %s)", a), fmt.Sprintf("(%s xor %s)", a, b))
	}
	col := g.column()
	op := one(g, "=", "<", "<=", ">", ">=", "!=", "<=>")
	switch g.rnd.Intn(11) {
	case 9:
		return fmt.Sprintf("%s %sregexp '%s'", one(g, "v", "ci", "tx", "lower(ch)"), one(g, "", "not "), one(g, "^a", "[0-9]+", "b$", "a|z"))
	case 8:
		return one(g, "3 member of (j->'$.m')", "json_contains(j->'$.m', '[1, 7]')", "lower(ci) = 'a'", "json_overlaps(j->'$.m', '[3, 9]')")
	case 0:
		return fmt.Sprintf("%s is %snull", col, one(g, "", "not "))
	case 1:
		return fmt.Sprintf("%s %sin (%s, %s, %s)", col, one(g, "", "not "), g.literal(col), g.literal(col), g.literal(col))
	case 2:
		return fmt.Sprintf("%s between %s and %s", col, g.literal(col), g.literal(col))
	case 3:
		return fmt.Sprintf("%s %slike '%s'", one(g, "v", "ci", "un", "ch", "tx"), one(g, "", "not "), one(g, "a%", "%b%", "_", "A%", "w1_", "%"))
	case 4:
		return fmt.Sprintf("%s %s %s", g.number(depth), op, g.number(depth-1))
	case 5:
		return fmt.Sprintf("%s %s %s", g.str(depth), op, g.str(depth-1))
	case 6:
		return fmt.Sprintf("id %s %s", op, g.integer())
	case 7:
		return fmt.Sprintf("date_add(%s, interval %d %s) %s '%s'", one(g, "dt", "da"), g.rnd.Intn(20), one(g, "day", "hour", "month"), op, g.date())
	}
	return fmt.Sprintf("%s %s %s", col, op, g.literal(col))
}

// query returns a random SELECT over the table, and whether its result is determined to the last digit.
func (g *generator) query(table string, indexes []string) (sql string, exact bool) {
	hint := ""
	if len(indexes) > 0 && g.rnd.Intn(2) == 0 {
		hint = fmt.Sprintf(" %s index (%s)", one(g, "force", "use", "ignore"), one(g, indexes...))
	}
	where := ""
	if g.rnd.Intn(5) > 0 {
		where = " where " + g.condition(2)
	}
	from := fmt.Sprintf(" from %s%s%s", table, hint, where)
	switch g.rnd.Intn(8) {
	case 0:
		return "select *" + from, true
	case 1:
		return fmt.Sprintf("select %s, %s, id%s order by %s %s, id limit %d",
			g.column(), g.column(), from, g.ordered(), one(g, "", "desc"), g.rnd.Intn(40)), true
	case 2:
		return fmt.Sprintf("select id, %s%s limit %d", g.column(), from, g.rnd.Intn(60)), false
	case 3:
		return fmt.Sprintf("select %s, %s, %s%s", g.aggregate(), g.aggregate(), g.aggregate(), from), false
	case 4:
		key := one(g, g.column(), g.column(), g.number(1), g.folded())
		return fmt.Sprintf("select %s%s, %s%s group by %s", one(g, "", "/*+ stream_agg() */ ", "/*+ hash_agg() */ "), key, g.aggregate(), from, key), false
	case 5:
		return fmt.Sprintf("select %s, %s, id%s order by id %s", g.number(2), g.str(2), from, one(g, "", "desc")), true
	case 6:
		a, b := g.column(), g.column()
		return fmt.Sprintf("select %s, %s, count(*), min(id)%s group by %s, %s", a, b, from, a, b), false
	}
	return fmt.Sprintf("select distinct %s%s", g.column(), from), false
}

// folded returns a string expression that is no column after TiDB has folded its constants. An if() whose condition is
// folded away leaves a column, and the collation of the expression is lost: TiKV compares and groups by the column's, as
// this coprocessor does, and unistore by the expression's.
func (g *generator) folded() string { return "concat('', " + g.str(1) + ")" }

func (g *generator) aggregate() string {
	col := g.column()
	ord := g.ordered()
	return one(g, "count(*)", "count("+col+")", "max("+ord+")", "min("+ord+")", "sum("+one(g, "i", "u", "f", "d", "dc", "ti")+")",
		"sum("+g.number(1)+")",
		"avg("+one(g, "i", "f", "d", "dc")+")", "bit_or("+one(g, "i", "u", "ti")+")", "bit_and(u)", "bit_xor(i)", "count(distinct "+col+")",
		"max("+g.number(1)+")", "min("+g.folded()+")", "any_value("+col+")", "count("+g.condition(1)+")")
}
