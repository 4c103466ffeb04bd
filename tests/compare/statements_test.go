package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

const (
	// fewRows is the number of ids of most tables. Many rows change between two looks at one of them.
	fewRows = 60
	// manyRows is the number of ids of a large table: more groups, first rows and pages than the stores' operators
	// handle at a time.
	manyRows = 6000
)

// table is a random table: id, columns, and the other table of the pair has the
// same column i for joins.
type table struct {
	name    string
	columns []column
	primary string
	indexes int
	// ids is the number of ids that rows may have, and groups that of the values of g.
	ids, groups int
}

func newTable(r *rand.Rand, name string, large bool) *table {
	ids, groups := fewRows, 4
	if large {
		ids, groups = manyRows, pick(r, 4, 900, 1100, 3000)
	}
	return &table{
		name: name, columns: columns(r), ids: ids, groups: groups,
		primary: pick(r, "PRIMARY KEY (id) CLUSTERED", "PRIMARY KEY (id) NONCLUSTERED", "PRIMARY KEY (g, id) CLUSTERED", "UNIQUE KEY uid (id)",
			"PRIMARY KEY (id) CLUSTERED) PARTITION BY HASH (id) PARTITIONS 3", "PRIMARY KEY (s, id) CLUSTERED"),
	}
}

func (t *table) create() string {
	parts := []string{"id BIGINT NOT NULL", "g INT NOT NULL DEFAULT 0", "s VARCHAR(10) NOT NULL DEFAULT 'd'"}
	for _, c := range t.columns {
		parts = append(parts, c.name+" "+c.definition)
	}
	end := ")"
	if strings.Contains(t.primary, "PARTITION") {
		end = ""
	}
	return fmt.Sprintf("CREATE TABLE %s (%s, %s%s", t.name, strings.Join(parts, ", "), t.primary, end)
}

func (t *table) column(r *rand.Rand) *column { return &t.columns[r.IntN(len(t.columns))] }

func (t *table) literal(r *rand.Rand, c *column) string {
	if oneIn(r, 8) {
		return "NULL"
	}
	return c.value(r)
}

func (t *table) names() []string {
	names := []string{"id", "g", "s"}
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	return names
}

func (t *table) tuple(r *rand.Rand) string {
	values := []string{fmt.Sprint(r.IntN(t.ids)), fmt.Sprint(r.IntN(t.groups)), "'" + pick(r, "a", "b", "B", "c ") + "'"}
	for i := range t.columns {
		values = append(values, t.literal(r, &t.columns[i]))
	}
	return "(" + strings.Join(values, ", ") + ")"
}

// fill returns a statement that adds up to n rows.
func (t *table) fill(r *rand.Rand, n int) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = t.tuple(r)
	}
	return fmt.Sprintf("INSERT IGNORE INTO %s (%s) VALUES %s", t.name, strings.Join(t.names(), ", "), strings.Join(rows, ", "))
}

// split returns a statement that cuts the table into regions.
func (t *table) split(r *rand.Rand) string {
	if !strings.HasPrefix(t.primary, "PRIMARY KEY (id) CLUSTERED") {
		return ""
	}
	return fmt.Sprintf("SPLIT TABLE %s BY (%d), (%d)", t.name, 1+r.IntN(t.ids/2), t.ids/2+1+r.IntN(t.ids/2))
}

// first is a number of rows for LIMIT.
func (t *table) first(r *rand.Rand) int {
	if t.ids == manyRows && oneIn(r, 2) {
		return r.IntN(manyRows / 2)
	}
	return r.IntN(20)
}

// condition is a filter on the table's columns, which are qualified.
func (t *table) condition(r *rand.Rand, alias string) string {
	c := t.column(r)
	name := alias + "." + c.name
	x := of(c.expression(r, name), name)
	switch r.IntN(9) {
	case 0:
		return fmt.Sprintf("%s IN (%s, %s)", name, c.value(r), c.value(r))
	case 1:
		return fmt.Sprintf("%s BETWEEN %s AND %s", name, c.value(r), c.value(r))
	case 2:
		return name + pick(r, " IS NULL", " IS NOT NULL")
	case 3:
		return fmt.Sprintf("%s.id %s %d", alias, pick(r, "=", "<", ">=", "<>"), r.IntN(t.ids))
	case 4:
		return fmt.Sprintf("(%s OR %s)", t.condition(r, alias), t.condition(r, alias))
	case 5:
		return fmt.Sprintf("%s AND %s", t.condition(r, alias), t.condition(r, alias))
	case 6:
		return fmt.Sprintf("NOT (%s <=> %s)", name, c.value(r))
	}
	return fmt.Sprintf("%s %s %s", x, pick(r, "=", "<", "<=", ">", "<>", "<=>"), c.value(r))
}

// change returns a DML statement. Rows that LIMIT takes are fixed by the order.
func (t *table) change(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0, 1:
		rows := make([]string, 1+r.IntN(4))
		for i := range rows {
			rows[i] = t.tuple(r)
		}
		verb := pick(r, "INSERT INTO", "INSERT INTO", "INSERT IGNORE INTO", "REPLACE INTO")
		statement := fmt.Sprintf("%s %s (%s) VALUES %s", verb, t.name, strings.Join(t.names(), ", "), strings.Join(rows, ", "))
		if verb == "INSERT INTO" && oneIn(r, 2) {
			c := t.column(r)
			statement += fmt.Sprintf(" ON DUPLICATE KEY UPDATE g = g + 1, %s = %s", c.name, pick(r, "VALUES("+c.name+")", t.literal(r, c)))
		}
		return statement
	case 2:
		return fmt.Sprintf("DELETE FROM %s WHERE id = %d", t.name, r.IntN(t.ids))
	case 3:
		return fmt.Sprintf("DELETE FROM %s WHERE %s ORDER BY id, g, s LIMIT %d", t.name, t.condition(r, t.name), r.IntN(3))
	case 4:
		return fmt.Sprintf("UPDATE %s SET id = %d WHERE id = %d", t.name, r.IntN(t.ids), r.IntN(t.ids))
	}
	c, d := t.column(r), t.column(r)
	return fmt.Sprintf("UPDATE %s SET %s = %s, g = g + %d, %s = %s WHERE %s ORDER BY id, g, s LIMIT %d",
		t.name, c.name, t.literal(r, c), r.IntN(2), d.name, pick(r, d.name, t.literal(r, d)), t.condition(r, t.name), 1+r.IntN(4))
}

// query returns a SELECT, with a hint at times, and whether its rows come in a fixed order.
func query(r *rand.Rand, a, b *table) (statement string, ordered bool) {
	statement, ordered = plainQuery(r, a, b)
	if oneIn(r, 3) {
		statement = strings.Replace(statement, "SELECT", "SELECT /*+ "+hint(r)+" */", 1)
	}
	return statement, ordered
}

// hint asks for a plan that the optimizer may not have taken. Tables are x and y.
func hint(r *rand.Rand) string {
	return pick(r, fmt.Sprintf("use_index(x, i%d)", r.IntN(5)), fmt.Sprintf("order_index(x, i%d)", r.IntN(5)), "use_index_merge(x)", "ignore_index(x, primary)",
		"hash_agg()", "stream_agg()", "agg_to_cop()", "agg_to_cop() hash_agg()", "agg_to_cop() stream_agg()", "limit_to_cop()",
		"inl_join(x)", "inl_join(y)", "inl_hash_join(y)", "merge_join(x, y)", "hash_join(x, y)", "no_index_merge()")
}

func plainQuery(r *rand.Rand, a, b *table) (statement string, ordered bool) {
	c := a.column(r)
	x := of(c.expression(r, "x."+c.name), "x."+c.name)
	kind := r.IntN(14)
	if (kind == 2 || kind == 3) && slices.Contains([]string{"js", "en", "se", "bt"}, c.name) {
		kind = 1 // unistore's TopN and MIN put these types in an order of their own
	}
	switch kind {
	case 0:
		return fmt.Sprintf("SELECT * FROM %s WHERE id = %d", a.name, r.IntN(a.ids)), false
	case 1:
		return fmt.Sprintf("SELECT x.id, x.g, x.s, %s FROM %s x WHERE %s ORDER BY x.id %s, x.g, x.s LIMIT %d",
			x, a.name, a.condition(r, "x"), pick(r, "", "DESC"), a.first(r)), true
	case 2:
		return fmt.Sprintf("SELECT x.%s, x.id, x.g, x.s FROM %s x WHERE %s ORDER BY x.%s %s, x.id, x.g, x.s LIMIT %d, %d",
			c.name, a.name, a.condition(r, "x"), c.name, pick(r, "", "DESC"), a.first(r)/4, a.first(r)), true
	case 3:
		least := "x." + c.name
		if c.text {
			least = "ASCII(" + least + ")" // which of several equal texts is the least is left open
		}
		return fmt.Sprintf("SELECT x.g, COUNT(*), COUNT(x.%s), MIN(%s), %s FROM %s x WHERE %s GROUP BY x.g",
			c.name, least, a.sum(r), a.name, a.condition(r, "x")), false
	case 4:
		if c.text {
			x = "ASCII(x." + c.name + ")" // which of several equal texts stands for a group is left open
		}
		return fmt.Sprintf("SELECT %s k, COUNT(*), MAX(x.id), %s FROM %s x GROUP BY k%s HAVING COUNT(*) > %d",
			x, a.sum(r), a.name, pick(r, "", ", x.g", ", x.id"), r.IntN(3)), false
	case 5:
		return fmt.Sprintf("SELECT x.id, y.id, %s FROM %s x %s JOIN %s y ON %s WHERE %s",
			x, a.name, pick(r, "", "LEFT", "RIGHT"), b.name, pick(r, "x.id = y.id", "x.g = y.g AND y.id < 10", "x.s = y.s AND x.id = y.id"), a.condition(r, "x")), false
	case 6:
		return fmt.Sprintf("SELECT x.id FROM %s x WHERE x.g %s (SELECT y.g FROM %s y WHERE %s)",
			a.name, pick(r, "IN", "NOT IN", "= ANY", "> ALL"), b.name, b.condition(r, "y")), false
	case 7:
		return fmt.Sprintf("SELECT COUNT(DISTINCT x.%s), COUNT(DISTINCT %s), %s FROM %s x", c.name, x, a.sum(r), a.name), false
	case 8:
		return fmt.Sprintf("SELECT x.id, x.g, x.s, %s FROM %s x WHERE x.%s IN (%s) ORDER BY x.id, x.g, x.s",
			x, a.name, pick(r, "id", "g", c.name), a.list(r, c)), true
	case 9:
		return fmt.Sprintf("SELECT x.g, COUNT(DISTINCT x.%s, x.s), GROUP_CONCAT(x.id ORDER BY x.id, x.s), BIT_XOR(x.id) FROM %s x WHERE %s GROUP BY x.g",
			c.name, a.name, a.condition(r, "x")), false
	case 10:
		return fmt.Sprintf("SELECT x.id, x.g, x.s, ROW_NUMBER() OVER w, LAG(x.id) OVER w, %s FROM %s x WHERE %s WINDOW w AS (PARTITION BY x.g ORDER BY x.id, x.s)",
			x, a.name, a.condition(r, "x")), false
	case 11:
		return fmt.Sprintf("SELECT COUNT(*), SUM(q.one) FROM (SELECT 1 AS one FROM %s x WHERE %s LIMIT %d, %d) q", a.name, a.condition(r, "x"), a.first(r), a.first(r)), false
	case 12:
		return fmt.Sprintf("SELECT x.id, x.g, x.s, %s FROM %s x WHERE x.id BETWEEN %d AND %d ORDER BY x.%s, x.id, x.g, x.s LIMIT %d %s",
			x, a.name, r.IntN(a.ids), r.IntN(a.ids), pick(r, "g", "s"), a.first(r), pick(r, "", "FOR UPDATE", "FOR UPDATE NOWAIT")), true
	}
	return fmt.Sprintf("SELECT DISTINCT x.g, x.s FROM %s x WHERE %s UNION SELECT y.g, y.s FROM %s y WHERE %s",
		a.name, a.condition(r, "x"), b.name, b.condition(r, "y")), false
}

// list is a list of ids, of groups and of the column's values.
func (t *table) list(r *rand.Rand, c *column) string {
	values := []string{c.value(r), c.value(r)}
	if c.exact {
		for range r.IntN(200) {
			values = append(values, fmt.Sprint(r.IntN(t.ids)))
		}
	}
	return strings.Join(values, ", ")
}

// sum is an aggregate that does not depend on the order of rows.
func (t *table) sum(r *rand.Rand) string {
	for range 4 {
		if c := t.column(r); c.exact {
			return fmt.Sprintf(pick(r, "SUM(x.%s)", "AVG(x.%s)", "BIT_OR(x.%s)", "MAX(x.%s)"), c.name)
		}
	}
	return "SUM(x.g)"
}

// alter returns a change of the table's definition.
func (t *table) alter(r *rand.Rand) string {
	c := t.column(r)
	if t.indexes > 3 || oneIn(r, 4) {
		return fmt.Sprintf("ALTER TABLE %s DROP INDEX i%d", t.name, r.IntN(t.indexes+1))
	}
	t.indexes++
	part := c.name
	if c.name == "tx" || c.name == "bl" || c.text && oneIn(r, 3) {
		part += fmt.Sprintf("(%d)", 1+r.IntN(3))
	}
	if c.name == "js" {
		part = "(CAST(js->'$.a' AS CHAR(10)))"
	}
	return fmt.Sprintf("ALTER TABLE %s ADD %s i%d (%s)", t.name, pick(r, "INDEX", "INDEX", "INDEX", "UNIQUE INDEX"), t.indexes,
		pick(r, part, part+", id", "g, "+part, part+", s"))
}

// setting returns a statement that changes how the SQL layer asks the store.
func setting(r *rand.Rand) string {
	return "SET " + pick(r,
		"tidb_enable_paging = "+pick(r, "ON", "OFF"),
		"tidb_min_paging_size = "+pick(r, "1", "64", "128", "1000"),
		"tidb_max_paging_size = "+pick(r, "1024", "50000"),
		"tidb_max_chunk_size = "+pick(r, "32", "1024"),
		"tidb_enable_chunk_rpc = "+pick(r, "ON", "OFF"),
		"tidb_distsql_scan_concurrency = "+pick(r, "1", "15"),
		"tidb_opt_agg_push_down = "+pick(r, "ON", "OFF"),
		"tidb_opt_distinct_agg_push_down = "+pick(r, "ON", "OFF"),
		"tidb_store_batch_size = "+pick(r, "0", "4"),
		"tidb_index_lookup_size = "+pick(r, "20000", "100"),
		"tidb_index_join_batch_size = "+pick(r, "25000", "30"),
		"tidb_opt_limit_push_down_threshold = "+pick(r, "100", "10000"))
}
