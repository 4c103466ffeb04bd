package compare

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// column is a column of a random table.
type column struct {
	name, definition string
	// value returns a literal.
	value func(r *rand.Rand) string
	// exact says that sums of it do not depend on the order of rows.
	exact bool
	// text says that it is compared by a collation.
	text bool
}

// pick returns one of the values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func oneIn(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// words hold what collations and prefixes disagree about.
var words = []string{
	"", " ", "a", "A", "a ", "ab", "aB", "abc", "ä", "Ä", "é", "e", "E", "ß", "ss", "œ", "oe", "æ", "日本", "日本語",
	"z", "Z", "zz", "0", "1", "10", "-1", "1e2", "2024-02-29", "a\\'b", "a%b", "a_b", "😀", "ﬀ", "ĳ",
}

func word(r *rand.Rand) string { return "'" + pick(r, words...) + "'" }

func integer(bits int, unsigned bool) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		if oneIn(r, 12) { // the ends of the range, and over
			if unsigned {
				return pick(r, "0", fmt.Sprint(uint64(1)<<(bits-1)), fmt.Sprint(uint64(1)<<(bits-1)*2-1), "-1")
			}
			return pick(r, fmt.Sprint(-(int64(1)<<(bits-2))*2), fmt.Sprint(int64(1)<<(bits-2)*2-1), fmt.Sprint(uint64(1)<<(bits-1)))
		}
		if unsigned {
			return fmt.Sprint(r.IntN(12))
		}
		return fmt.Sprint(r.IntN(24) - 12)
	}
}

func decimal(r *rand.Rand) string {
	return fmt.Sprintf("%d.%0*d", r.IntN(2000)-1000, 1+r.IntN(5), r.IntN(10))
}

func date(r *rand.Rand) string {
	return fmt.Sprintf("%d-%02d-%02d", 1990+r.IntN(40), 1+r.IntN(12), 1+r.IntN(28))
}

func datetime(r *rand.Rand) string {
	return fmt.Sprintf("'%s %02d:%02d:%02d.%06d'", date(r), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(4)*250_000)
}

func document(r *rand.Rand) string {
	return "'" + pick(r, `{}`, `[]`, `null`, `1`, `-1.5`, `"a"`, `{"a": 1}`, `{"a": [1, 2, 3], "b": {"c": "x"}}`, `[1, "a", null]`, `9007199254740993`) + "'"
}

// columns returns the columns that a table may have.
func columns(r *rand.Rand) []column {
	collation := pick(r, "utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_0900_ai_ci", "utf8mb4_0900_bin")
	all := []column{
		{name: "ti", definition: "TINYINT", value: integer(8, false), exact: true},
		{name: "su", definition: "SMALLINT UNSIGNED", value: integer(16, true), exact: true},
		{name: "i", definition: "INT", value: integer(32, false), exact: true},
		{name: "bi", definition: "BIGINT", value: integer(64, false), exact: true},
		{name: "bu", definition: "BIGINT UNSIGNED", value: integer(64, true), exact: true},
		{name: "de", definition: "DECIMAL(12,4)", value: decimal, exact: true},
		{name: "fl", definition: "FLOAT", value: decimal},
		{name: "db", definition: "DOUBLE", value: decimal},
		{name: "vc", definition: "VARCHAR(20) COLLATE " + collation, value: word, text: true},
		{name: "ch", definition: "CHAR(10) COLLATE " + collation, value: word, text: true},
		{name: "tx", definition: "TEXT", value: word, text: true},
		{name: "vb", definition: "VARBINARY(30)", value: word},
		{name: "bl", definition: "BLOB", value: word},
		{name: "en", definition: "ENUM('red','green','blue')", value: func(r *rand.Rand) string { return pick(r, "'red'", "'green'", "'BLUE'", "'no'") }},
		{name: "se", definition: "SET('x','y','z')", value: func(r *rand.Rand) string { return pick(r, "''", "'x'", "'x,z'", "'z,y'") }},
		{name: "da", definition: "DATE", value: func(r *rand.Rand) string { return "'" + date(r) + "'" }},
		{name: "dt", definition: "DATETIME(3)", value: datetime},
		{name: "ts", definition: "TIMESTAMP(6) NULL", value: datetime},
		{name: "tm", definition: "TIME(2)", value: func(r *rand.Rand) string {
			return fmt.Sprintf("'%d:%02d:%02d'", r.IntN(900)-450, r.IntN(60), r.IntN(60))
		}},
		{name: "ye", definition: "YEAR", value: func(r *rand.Rand) string { return fmt.Sprint(1990 + r.IntN(60)) }},
		{name: "bt", definition: "BIT(9)", value: func(r *rand.Rand) string { return fmt.Sprintf("b'%b'", r.IntN(512)) }},
		{name: "js", definition: "JSON", value: document},
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:3+r.IntN(6)]
}

// expression returns a scalar expression over a column that many statements can
// use: in a projection, a filter, a GROUP BY.
func (c *column) expression(r *rand.Rand, name string) string {
	switch {
	case oneIn(r, 2):
		return name
	case c.text:
		return pick(r, "UPPER(%s)", "LENGTH(%s)", "CHAR_LENGTH(%s)", "CONCAT(%s, 'x')", "SUBSTRING(%s, 1, 2)", "TRIM(%s)", "REVERSE(%s)",
			"IFNULL(%s, 'none')", "HEX(%s)", "REPLACE(%s, 'a', 'b')", "LOCATE('a', %s)", "ASCII(%s)", "%s LIKE 'a%%%%'", "LEFT(%s, 1)", "LPAD(%s, 5, '*')")
	case c.exact:
		one := "1"
		if c.name == "de" {
			one = "1.0000" // TiDB groups decimals by their digits, and unistore's coprocessor by the type's
		}
		return pick(r, "%s + 1", "%s * 2", "-%s", "ABS(%s)", "%s %% 3", "%s DIV 2", "IFNULL(%s, "+one+")", "COALESCE(%s, -"+one+")", "IF(%s > 0, 'p', 'n')",
			"CASE WHEN %s IS NULL THEN 0 ELSE 1 END", "CAST(%s AS CHAR)", "%s & 3", "SIGN(%s)", "ROUND(%s, 1)", "CAST(%s AS DECIMAL(20,2))")
	case c.name == "da" || c.name == "dt" || c.name == "ts":
		return pick(r, "YEAR(%s)", "MONTH(%s)", "DATE_FORMAT(%s, '%%Y-%%m')", "DATE_ADD(%s, INTERVAL 1 DAY)", "DATEDIFF(%s, '2000-01-01')", "DAYNAME(%s)", "IFNULL(%s, '2000-01-01')")
	case c.name == "js":
		return pick(r, "JSON_TYPE(%s)", "%s->'$.a'", "JSON_LENGTH(%s)", "JSON_EXTRACT(%s, '$.b.c')", "JSON_CONTAINS(%s, '1')")
	}
	return pick(r, "%s IS NULL", "HEX(%s)", "%s = %s", "COALESCE(%s, 'none')")
}

// of puts a name into an expression's places.
func of(expression, name string) string {
	if !strings.Contains(expression, "%s") {
		return expression
	}
	return strings.ReplaceAll(strings.ReplaceAll(expression, "%s", name), "%%", "%")
}
