package fuzz

import (
	"fmt"
	"strings"
)

// columns are those that rows are inserted with.
func (t *changingTable) columns() string {
	if t.id != "" {
		return " (k, u, s, t, d, at, j, b)"
	}
	return " (id, k, u, s, t, d, at, j, b)"
}

func (c *schemaClient) word() string {
	return pick(c.rng, []string{"a", "A", "ä", "b ", "B", "ss", "ß", "日本", "😀", "", " "}) + fmt.Sprint(c.rng.IntN(3*keys))
}

// rows are the values of new rows.
func (c *schemaClient) rows(t *changingTable, n int) string {
	all := make([]string, n)
	for i := range all {
		var values []string
		if t.id == "" {
			values = append(values, fmt.Sprint(c.rng.IntN(4*firstRows)))
		}
		values = append(values, fmt.Sprint(c.rng.IntN(keys)), c.nullable(fmt.Sprint(c.rng.IntN(100*firstRows))), "'"+c.word()+"'", c.nullable("'"+c.word()+"'"),
			c.nullable(fmt.Sprintf("%d.%03d", c.rng.IntN(1e6)-5e5, c.rng.IntN(1000))),
			c.nullable(fmt.Sprintf("'20%02d-%02d-%02d %02d:00:00.%03d'", c.rng.IntN(40), 1+c.rng.IntN(12), 1+c.rng.IntN(28), c.rng.IntN(24), c.rng.IntN(1000))),
			c.nullable(c.document()), c.nullable(c.long()))
		all[i] = "(" + strings.Join(values, ", ") + ")"
	}
	return strings.Join(all, ", ")
}

func (c *schemaClient) nullable(literal string) string {
	if c.rng.IntN(6) == 0 {
		return "NULL"
	}
	return literal
}

func (c *schemaClient) document() string {
	elements := make([]string, c.rng.IntN(5))
	for i := range elements {
		elements[i] = fmt.Sprint(c.rng.IntN(100 * firstRows))
	}
	return fmt.Sprintf(`'{"a": [%s], "n": %d}'`, strings.Join(elements, ", "), c.rng.IntN(keys))
}

// long is a text that is now and then very long.
func (c *schemaClient) long() string {
	n := c.rng.IntN(100)
	if c.rng.IntN(200) == 0 {
		n = 100000
	}
	return fmt.Sprintf("REPEAT('%s', %d)", pick(c.rng, []string{"x", "é", "日"}), n)
}

// write changes rows.
func (c *schemaClient) write() {
	for c.going() {
		if c.rng.IntN(3) > 0 {
			c.dml("autocommit", pick(c.rng, c.run.tables))
			continue
		}
		mode := pick(c.rng, []string{"PESSIMISTIC", "PESSIMISTIC", "OPTIMISTIC"})
		if !c.do(mode, "BEGIN "+mode) {
			continue
		}
		for range 1 + c.rng.IntN(4) {
			c.dml(mode, pick(c.rng, c.run.tables))
		}
		if end := pick(c.rng, []string{"COMMIT", "COMMIT", "COMMIT", "ROLLBACK"}); !c.do(mode+" "+end, end) {
			c.do(mode, "ROLLBACK")
		}
	}
}

// dml does one statement that changes rows, or reads them.
func (c *schemaClient) dml(mode string, t *changingTable) {
	where := c.where()
	into := " INTO " + t.name + t.columns() + " VALUES "
	statement := ""
	switch c.rng.IntN(16) {
	case 0, 1, 2:
		statement = "INSERT" + into + c.rows(t, 1+c.rng.IntN(5))
	case 3:
		statement = "INSERT IGNORE" + into + c.rows(t, 1+c.rng.IntN(20))
	case 4, 5:
		statement = "REPLACE" + into + c.rows(t, 1+c.rng.IntN(3))
	case 6, 7:
		statement = "INSERT" + into + c.rows(t, 1) + " ON DUPLICATE KEY UPDATE " + c.assignment()
	case 8, 9, 10:
		statement = "UPDATE " + t.name + " SET " + c.assignment() + " WHERE " + where + " LIMIT 20"
	case 11:
		statement = "UPDATE IGNORE " + t.name + " SET " + c.assignment() + ", " + c.assignment() + " WHERE " + where + " LIMIT 20"
	case 12, 13:
		statement = "DELETE FROM " + t.name + " WHERE " + where + fmt.Sprintf(" LIMIT %d", 1+c.rng.IntN(30))
	case 14:
		statement = "SELECT COUNT(*), SUM(v), MAX(w), MIN(x) FROM " + t.name + " WHERE " + where
	default:
		statement = "SELECT id, k, w FROM " + t.name + " WHERE " + where + " LIMIT 10 FOR UPDATE"
	}
	c.do(mode, statement)
}

func (c *schemaClient) where() string {
	// Nothing looks for elements of documents: where the statistics of a multi-valued index were not loaded in time and its table has not changed since
	// they were made, TiDB's planner panics (pkg/planner/cardinality/row_count_index.go:422), and the connection ends.
	switch c.rng.IntN(7) {
	case 0:
		return fmt.Sprintf("k = %d", c.rng.IntN(keys))
	case 1:
		return fmt.Sprintf("u BETWEEN %d AND %d", c.rng.IntN(100*firstRows), c.rng.IntN(100*firstRows))
	case 2:
		return "s = '" + c.word() + "'"
	case 3:
		return "t LIKE '" + c.word() + "%'"
	case 4:
		return fmt.Sprintf("v > %d", c.rng.IntN(4*keys))
	case 5:
		return fmt.Sprintf("x = '%.2s'", c.word())
	default:
		return fmt.Sprintf("id < %d", c.rng.IntN(4*firstRows))
	}
}

func (c *schemaClient) assignment() string {
	return pick(c.rng, []string{
		fmt.Sprintf("k = %d", c.rng.IntN(keys)), fmt.Sprintf("u = %s", c.nullable(fmt.Sprint(c.rng.IntN(100*firstRows)))), "u = u + 1", "s = '" + c.word() + "'",
		"t = " + c.nullable("'"+c.word()+"'"), "d = d + 1", "at = at + INTERVAL 1 DAY", "j = " + c.nullable(c.document()), "b = " + c.nullable(c.long()),
		"k = k + 1", "s = UPPER(s)",
	})
}

// do does a statement of a transaction and says whether it succeeded.
func (c *schemaClient) do(mode, statement string) bool {
	_, err := c.query(statement)
	c.run.writes.Add(1)
	if err == nil {
		return true
	}
	c.run.writesFailed.Add(1)
	verb, _, _ := strings.Cut(statement, " ")
	if !c.explained(mode+" "+verb, err) {
		c.failf("%.2000s: %v", statement, err)
	}
	return false
}
