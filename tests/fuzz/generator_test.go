package fuzz

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

const (
	database   = "fuzz"
	tables     = 4
	maxDepth   = 4
	maxColumns = 8
)

// function is a function of the server with one of the numbers of arguments that
// it takes.
type function struct {
	name      string
	arguments int
}

// generator writes random statements. They are grammatical, most of them; that
// they make sense is left to chance.
type generator struct {
	rng       *rand.Rand
	functions []function
	depth     int
	// params makes some literals parameters, with args as their values.
	params bool
	args   []any
}

// chance is true in one of n cases.
func (g *generator) chance(n int) bool { return g.rng.IntN(n) == 0 }

func (g *generator) table() string { return fmt.Sprintf("t%d", g.rng.IntN(tables)) }

func (g *generator) column() string { return string(rune('a' + g.rng.IntN(maxColumns))) }

// list joins up to n of what next gives.
func (g *generator) list(n int, next func() string) string {
	parts := make([]string, 1+g.rng.IntN(n))
	for i := range parts {
		parts[i] = next()
	}
	return strings.Join(parts, ", ")
}

func (g *generator) literal() string {
	if g.params && g.chance(3) {
		g.args = append(g.args, g.argument())
		return "?"
	}
	if g.chance(300) {
		return pick(g.rng, hugeLiterals)
	}
	return pick(g.rng, literals)
}

// argument is a value of a parameter in the binary protocol.
func (g *generator) argument() any {
	switch g.rng.IntN(8) {
	case 0:
		return nil
	case 1:
		return g.rng.Int64() - g.rng.Int64()
	case 2:
		return g.rng.Uint64()
	case 3:
		return g.rng.NormFloat64() * 1e10
	case 4:
		b := make([]byte, g.rng.IntN(300))
		for i := range b {
			b[i] = byte(g.rng.IntN(256))
		}
		return b
	case 5:
		return strings.Repeat("ä😀", g.rng.IntN(5000))
	case 6:
		return g.chance(2)
	default:
		return strings.Trim(pick(g.rng, literals), "'")
	}
}

// expression is any expression, of any type.
func (g *generator) expression() string {
	if g.depth >= maxDepth || g.chance(3) {
		if g.chance(2) {
			return g.column()
		}
		return g.literal()
	}
	g.depth++
	defer func() { g.depth-- }()
	e := g.expression
	switch g.rng.IntN(16) {
	case 0, 1, 2:
		return fmt.Sprintf("(%s %s %s)", e(), pick(g.rng, binaryOperators), e())
	case 3, 4, 5, 6:
		return g.call()
	case 7:
		return fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", e(), e(), e())
	case 8:
		return fmt.Sprintf("CAST(%s AS %s)", e(), pick(g.rng, castTypes))
	case 9:
		return fmt.Sprintf("(%s %sIN (%s))", e(), pick(g.rng, []string{"", "NOT "}), g.list(5, e))
	case 10:
		return fmt.Sprintf("(%s BETWEEN %s AND %s)", e(), e(), e())
	case 11:
		return fmt.Sprintf("(%s IS %s)", e(), pick(g.rng, []string{"NULL", "NOT NULL", "TRUE", "FALSE", "UNKNOWN"}))
	case 12:
		return "(" + pick(g.rng, []string{"NOT ", "-", "~", "!", "BINARY "}) + e() + ")"
	case 13:
		return fmt.Sprintf("DATE_ADD(%s, INTERVAL %s %s)", e(), e(), pick(g.rng, units))
	case 14:
		return fmt.Sprintf("(%s COLLATE %s)", e(), pick(g.rng, []string{"utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci", "binary", "latin1_bin"}))
	default:
		return g.subquery()
	}
}

// call calls any function that the server has, seldom with a number of arguments
// that it does not take.
func (g *generator) call() string {
	f := pick(g.rng, g.functions)
	if g.chance(1000) {
		f.arguments = g.rng.IntN(6)
	}
	args := make([]string, f.arguments)
	for i := range args {
		args[i] = g.expression()
	}
	return f.name + "(" + strings.Join(args, ", ") + ")"
}

func (g *generator) subquery() string {
	one := fmt.Sprintf("SELECT %s FROM %s x WHERE %s LIMIT 1", g.expression(), g.table(), g.expression())
	switch g.rng.IntN(4) {
	case 0:
		return "EXISTS (" + one + ")"
	case 1:
		comparison := pick(g.rng, []string{"=", "<>", "<", ">="}) + " " + pick(g.rng, []string{"ANY", "ALL"})
		return fmt.Sprintf("(%s %s (SELECT %s FROM %s))", g.expression(), comparison, g.column(), g.table())
	case 2:
		return fmt.Sprintf("(%s IN (SELECT %s FROM %s WHERE %s))", g.expression(), g.column(), g.table(), g.expression())
	default:
		return "(" + one + ")"
	}
}

// output is an expression of a select list.
func (g *generator) output() string {
	switch g.rng.IntN(8) {
	case 0:
		return fmt.Sprintf(pick(g.rng, aggregates), g.expression())
	case 1:
		function := strings.ReplaceAll(pick(g.rng, windows), "%s", g.expression())
		over := "ORDER BY " + g.expression()
		if g.chance(2) {
			over = "PARTITION BY " + g.expression() + " " + over
		}
		if g.chance(3) {
			over += pick(g.rng, frames)
		}
		return fmt.Sprintf("%s OVER (%s)", function, over)
	default:
		return g.expression()
	}
}

// source is what a query reads from.
func (g *generator) source(alias string) string {
	if g.depth >= maxDepth || !g.chance(6) {
		return g.table() + " " + alias
	}
	g.depth++
	defer func() { g.depth-- }()
	if g.chance(5) {
		return pick(g.rng, systemTables) + " " + alias
	}
	return fmt.Sprintf("(SELECT %s AS a, %s AS b, %s AS c FROM %s x WHERE %s LIMIT %d) %s",
		g.output(), g.output(), g.column(), g.table(), g.expression(), 1+g.rng.IntN(50), alias)
}

// query is a SELECT of any kind.
func (g *generator) query() string {
	var b strings.Builder
	if g.chance(15) {
		fmt.Fprintf(&b, "WITH RECURSIVE r (a, b) AS (SELECT %s, 1 UNION %s SELECT %s, b + 1 FROM r WHERE b < %d) ",
			g.literal(), pick(g.rng, []string{"ALL", "DISTINCT"}), g.expression(), g.rng.IntN(50))
		fmt.Fprintf(&b, "SELECT * FROM r JOIN %s LIMIT 100", g.source("s"))
		return b.String()
	}
	b.WriteString("SELECT ")
	if g.chance(6) {
		b.WriteString(pick(g.rng, hints))
	}
	b.WriteString(g.list(3, g.output))
	b.WriteString(" FROM " + g.source("s"))
	if g.chance(3) {
		fmt.Fprintf(&b, " %s %s ON %s = %s", pick(g.rng, []string{"JOIN", "LEFT JOIN", "RIGHT JOIN"}), g.source("u"), "s."+g.column(), "u."+g.column())
		if g.chance(3) {
			b.WriteString(" AND " + g.expression())
		}
	}
	if g.chance(2) {
		b.WriteString(" WHERE " + g.expression())
	}
	if g.chance(4) {
		b.WriteString(" GROUP BY " + g.list(3, g.expression))
		if g.chance(4) {
			b.WriteString(" WITH ROLLUP")
		}
	}
	if g.chance(6) {
		b.WriteString(" HAVING " + g.output())
	}
	if g.chance(3) {
		b.WriteString(" ORDER BY " + g.list(2, g.output) + pick(g.rng, []string{"", " DESC"}))
	}
	if g.chance(3) {
		b.WriteString(pick(g.rng, limits))
	}
	if g.chance(15) {
		b.WriteString(pick(g.rng, []string{" FOR UPDATE", " FOR SHARE", " FOR UPDATE NOWAIT", " LOCK IN SHARE MODE"}))
	}
	if g.chance(10) {
		both := pick(g.rng, []string{"UNION", "UNION ALL", "EXCEPT", "INTERSECT"})
		return fmt.Sprintf("(%s) %s (SELECT %s FROM %s)", b.String(), both, g.list(3, g.expression), g.source("s"))
	}
	return b.String()
}

func (g *generator) write() string {
	t := g.table()
	assign := func() string { return g.column() + " = " + g.expression() }
	switch g.rng.IntN(10) {
	case 0, 1, 2, 3:
		columns := g.rng.Perm(maxColumns)[:1+g.rng.IntN(maxColumns)]
		names := make([]string, len(columns))
		for i, c := range columns {
			names[i] = string(rune('a' + c))
		}
		row := func() string {
			values := make([]string, len(names))
			for i := range values {
				values[i] = g.expression()
			}
			return "(" + strings.Join(values, ", ") + ")"
		}
		verb := pick(g.rng, []string{"INSERT", "INSERT IGNORE", "REPLACE", "INSERT IGNORE"})
		s := fmt.Sprintf("%s INTO %s (%s) VALUES %s", verb, t, strings.Join(names, ", "), g.list(4, row))
		if strings.HasPrefix(s, "INSERT") && g.chance(3) {
			s += " ON DUPLICATE KEY UPDATE " + g.list(2, assign)
		}
		return s
	case 4:
		return fmt.Sprintf("INSERT IGNORE INTO %s (a, b, c) SELECT %s, %s, %s FROM %s LIMIT 20",
			t, g.expression(), g.expression(), g.expression(), g.source("s"))
	case 5, 6:
		return fmt.Sprintf("UPDATE %s %s SET %s WHERE %s LIMIT %d",
			pick(g.rng, []string{"", "IGNORE"}), t, g.list(3, assign), g.expression(), 1+g.rng.IntN(20))
	case 7:
		return fmt.Sprintf("UPDATE %s s JOIN %s u ON s.a = u.a SET s.%s = %s", t, g.table(), g.column(), g.literal())
	case 8:
		return fmt.Sprintf("DELETE FROM %s WHERE %s LIMIT %d", t, g.expression(), 1+g.rng.IntN(20))
	default:
		return fmt.Sprintf("DELETE s FROM %s s LEFT JOIN %s u ON s.b = u.b WHERE %s", t, g.table(), g.expression())
	}
}
