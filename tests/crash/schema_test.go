package crash

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

const (
	workers = 4
	// hotIDs is how many ids a worker owns and changes all the time; there are
	// rows beside those that it changes now and then.
	hotIDs   = 60
	idStride = 1_000_000
)

// null is the text of NULL in a row.
const null = "NULL"

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

func oneIn(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }

// column is a column of a random table beside id.
type column struct {
	name, def string
	// literal says that values are quoted.
	quoted bool
	value  func(rng *rand.Rand) string
}

func (c *column) literal(value string) string {
	if value == null || !c.quoted {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", "''") + "'"
}

var words = []string{"", "a", "A", "ab", "aB ", "abcdef", "Äb", "äB", "日本語", "zzzzzzzzzz"}

// table is a random table (id, k, n, ...).
type table struct {
	name    string
	columns []*column
	primary string
	// uniqueID says that the primary key is the id.
	uniqueID bool
	ballast  int
}

func nullable(value func(rng *rand.Rand) string) func(rng *rand.Rand) string {
	return func(rng *rand.Rand) string {
		if oneIn(rng, 6) {
			return null
		}
		return value(rng)
	}
}

func number(n int) func(rng *rand.Rand) string {
	return func(rng *rand.Rand) string { return strconv.Itoa(rng.IntN(n)) }
}

func randomTable(rng *rand.Rand, name string) *table {
	t := &table{name: name, ballast: pick(rng, 0, 200, 1000, 3000)}
	word := func(rng *rand.Rand) string { return pick(rng, words...) }
	t.columns = []*column{
		{name: "k", def: "INT", value: nullable(number(20))},
		{name: "n", def: "BIGINT"}, // values as the statement wants them
		{name: "s", def: "VARCHAR(30) COLLATE " + pick(rng, "utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci") + " NOT NULL", quoted: true, value: word},
	}
	for _, c := range []*column{
		{name: "d", def: "DECIMAL(10,2)", value: nullable(func(rng *rand.Rand) string {
			return fmt.Sprintf("%d.%02d", rng.IntN(30), rng.IntN(100))
		})},
		{name: "t", def: pick(rng, "DATETIME", "TIMESTAMP NULL"), quoted: true, value: nullable(func(rng *rand.Rand) string {
			return fmt.Sprintf("20%02d-%02d-%02d 12:%02d:00", 10+rng.IntN(10), 1+rng.IntN(12), 1+rng.IntN(28), rng.IntN(60))
		})},
		{name: "e", def: "ENUM('red','green','blue') NOT NULL", quoted: true, value: func(rng *rand.Rand) string {
			return pick(rng, "red", "green", "blue")
		}},
		{name: "b", def: pick(rng, "BLOB", "TEXT"), quoted: true, value: nullable(word)},
	} {
		if rng.IntN(2) == 0 {
			t.columns = append(t.columns, c)
		}
	}
	t.primary = pick(rng, "PRIMARY KEY (id) CLUSTERED", "PRIMARY KEY (id) NONCLUSTERED",
		"PRIMARY KEY (s, id) CLUSTERED, KEY by_id (id)", "PRIMARY KEY (id, s) NONCLUSTERED", "KEY by_id (id)")
	t.uniqueID = strings.HasPrefix(t.primary, "PRIMARY KEY (id)")
	return t
}

func (t *table) create() string {
	defs := []string{"id BIGINT NOT NULL"}
	for _, c := range t.columns {
		defs = append(defs, c.name+" "+c.def)
	}
	return fmt.Sprintf("CREATE TABLE %s (%s, %s)", t.name, strings.Join(defs, ", "), t.primary)
}

// columnList names all columns, id first.
func (t *table) columnList() string {
	names := []string{"id"}
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// row is a row as SELECT gives it: the id and the other columns as texts.
type row struct {
	id     int64
	values []string
}

const (
	colK = 0
	colN = 1
)

func (t *table) newRow(rng *rand.Rand, id int64, n string) row {
	r := row{id: id, values: make([]string, len(t.columns))}
	for i, c := range t.columns {
		if i == colN {
			r.values[i] = n
		} else {
			r.values[i] = c.value(rng)
		}
	}
	return r
}

func (r row) String() string { return fmt.Sprintf("%d (%s)", r.id, strings.Join(r.values, "|")) }

// with returns a copy with another value.
func (r row) with(col int, value string) row {
	r.values = append([]string(nil), r.values...)
	r.values[col] = value
	return r
}

// tuple is the row as a list of literals.
func (t *table) tuple(r row) string {
	out := []string{strconv.FormatInt(r.id, 10)}
	for i, c := range t.columns {
		out = append(out, c.literal(r.values[i]))
	}
	return "(" + strings.Join(out, ", ") + ")"
}

// indexDef is an index that an ALTER adds.
type indexDef struct {
	name   string
	unique bool
	// columns are key parts as written, "s(2)" and "k DESC" among them.
	columns []string
}

func (x *indexDef) sql() string {
	kind := "INDEX"
	if x.unique {
		kind = "UNIQUE INDEX"
	}
	return fmt.Sprintf("ADD %s %s (%s)", kind, x.name, strings.Join(x.columns, ", "))
}

// randomIndex returns an index of random columns. Unique ones are of columns of
// numbers, whose values in an error message can be compared with rows.
func (t *table) randomIndex(rng *rand.Rand, name string, unique bool) *indexDef {
	x := &indexDef{name: name, unique: unique}
	if unique {
		x.columns = pick(rng, []string{"n"}, []string{"n"}, []string{"n", "k"}, []string{"k", "n"})
		return x
	}
	names := []string{"id"}
	for _, c := range t.columns {
		names = append(names, c.name)
	}
	for _, i := range rng.Perm(len(names))[:1+rng.IntN(3)] {
		part := names[i]
		if part == "b" || part == "s" && oneIn(rng, 3) {
			part += fmt.Sprintf("(%d)", 1+rng.IntN(4))
		}
		if oneIn(rng, 5) {
			part += " DESC"
		}
		x.columns = append(x.columns, part)
	}
	return x
}

// keyText is the row's value in a unique index as an error message prints it,
// or "" if it has a NULL.
func keyText(columns []string, k, n string) string {
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = map[string]string{"k": k, "n": n}[c]
		if values[i] == null {
			return ""
		}
	}
	return strings.Join(values, "-")
}
