package fuzz

import (
	"fmt"
	"strings"
)

// create defines a table with a random column of each letter.
func (g *generator) create(table string) string {
	var parts []string
	for i := range maxColumns {
		column := string(rune('a'+i)) + " " + pick(g.rng, types)
		if i == 0 {
			column = "a BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY " + pick(g.rng, []string{"CLUSTERED", "NONCLUSTERED"})
		}
		if i > 4 && g.chance(6) {
			column = fmt.Sprintf("%c %s AS (%s) %s", 'a'+i, pick(g.rng, types), g.simple(), pick(g.rng, []string{"VIRTUAL", "STORED"}))
		}
		parts = append(parts, column)
	}
	for range g.rng.IntN(3) {
		parts = append(parts, pick(g.rng, []string{"KEY", "UNIQUE KEY"})+" "+g.keyParts())
	}
	s := fmt.Sprintf("CREATE TABLE %s (%s)", table, strings.Join(parts, ", "))
	if g.chance(4) {
		s += pick(g.rng, tableOptions)
	}
	return s
}

// simple is an expression over columns that generated columns may use.
func (g *generator) simple() string {
	return pick(g.rng, []string{"b", "b + 1", "CONCAT(b, c)", "b->'$.a'", "LOWER(c)", "a * 2", "JSON_EXTRACT(b, '$[0]')", "CAST(b AS SIGNED)"})
}

func (g *generator) keyParts() string {
	return "(" + g.list(3, func() string {
		switch g.rng.IntN(6) {
		case 0:
			return fmt.Sprintf("%s(%d)", g.column(), g.rng.IntN(20))
		case 1:
			return "(" + g.simple() + ")"
		case 2:
			return g.column() + " DESC"
		case 3:
			return "(CAST(" + g.column() + "->'$' AS UNSIGNED ARRAY))"
		default:
			return g.column()
		}
	}) + ")"
}

func (g *generator) ddl() string {
	t := g.table()
	index := fmt.Sprintf("i%d", g.rng.IntN(4))
	switch g.rng.IntN(18) {
	case 0, 1, 2, 3:
		return fmt.Sprintf("ALTER TABLE %s ADD %s %s %s", t, pick(g.rng, []string{"INDEX", "UNIQUE INDEX", "KEY"}), index, g.keyParts())
	case 4:
		return fmt.Sprintf("CREATE %s INDEX %s ON %s %s", pick(g.rng, []string{"", "UNIQUE"}), index, t, g.keyParts())
	case 5, 6, 7:
		return fmt.Sprintf("ALTER TABLE %s DROP INDEX %s", t, index)
	case 8:
		return fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", t, g.column(), pick(g.rng, types))
	case 9:
		return fmt.Sprintf("ALTER TABLE %s DROP COLUMN %s", t, pick(g.rng, []string{"f", "g", "h"}))
	case 10:
		return fmt.Sprintf("ALTER TABLE %s MODIFY COLUMN %s %s", t, g.column(), pick(g.rng, types))
	case 11:
		return "DROP TABLE IF EXISTS " + t
	case 12, 13:
		return g.create(t)
	case 14:
		return fmt.Sprintf("TRUNCATE TABLE %s", t)
	case 15:
		return fmt.Sprintf("CREATE OR REPLACE VIEW v%d AS %s", g.rng.IntN(3), g.query())
	case 16:
		return fmt.Sprintf("ALTER TABLE %s %s", t, pick(g.rng, alterations))
	default:
		return fmt.Sprintf("RENAME TABLE %s TO other, %s TO %s, other TO %s", t, g.table(), t, g.table())
	}
}

// admin is a statement about the server, the jobs, or the session.
func (g *generator) admin() string {
	t := g.table()
	switch g.rng.IntN(10) {
	case 0:
		return "ADMIN CHECK TABLE " + t
	case 1:
		return fmt.Sprintf("ADMIN CHECK INDEX %s i%d", t, g.rng.IntN(4))
	case 2:
		return on(t, pick(g.rng, adminStatements))
	case 3:
		return fmt.Sprintf("ADMIN %s DDL JOBS %d", pick(g.rng, []string{"CANCEL", "PAUSE", "RESUME"}), 80+g.rng.IntN(300))
	case 4:
		return on(t, pick(g.rng, showStatements))
	case 5:
		return pick(g.rng, explanations) + g.query()
	case 6:
		quoted := strings.ReplaceAll(strings.ReplaceAll(g.query(), `\`, `\\`), "'", "''")
		return fmt.Sprintf("PREPARE s%d FROM '%s'", g.rng.IntN(3), quoted)
	case 7:
		return fmt.Sprintf("EXECUTE s%d", g.rng.IntN(3)) + pick(g.rng, []string{"", " USING @v", " USING @v, @w"})
	case 8:
		return "SET " + pick(g.rng, variables)
	default:
		return on(t, pick(g.rng, sessionStatements))
	}
}

// statement is any statement.
func (g *generator) statement() string {
	g.depth, g.args = g.rng.IntN(maxDepth+1), nil // simple statements get further than deep ones
	var s string
	switch n := g.rng.IntN(100); {
	case n < 50:
		s = g.query()
	case n < 84:
		s = g.write()
	case n < 86:
		s = g.ddl()
	default:
		s = g.admin()
	}
	if !g.params && g.chance(15) {
		s = garble(g.rng, s)
	}
	return s
}
