package shapes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// family says which expressions can be made of a column.
type family int

const (
	numeric family = iota
	textual
	binary
	temporal
	document
)

// column is a column of a random table.
type column struct {
	name, typ  string // typ with its collation
	attributes string // behind the type
	family     family
	values     values // nil for a generated column
	prefix     int    // the longest prefix in an index; 0 if it can have none
	needPrefix bool   // an index needs a prefix of it
	notNull    bool
	virtual    bool
	zoned      bool // its values depend on the session's time zone
}

func (c *column) definition() string { return c.name + " " + c.typ + " " + c.attributes }

// key returns the column as a part of an index, perhaps with a prefix.
func (c *column) key(r *rand.Rand) string {
	if c.needPrefix || c.prefix > 0 && chance(r, 3) {
		return fmt.Sprintf("%s(%d)", c.name, 1+r.IntN(c.prefix))
	}
	return c.name
}

// randomTable is a table and the changes that its statements have made.
type randomTable struct {
	r        *rand.Rand
	columns  []*column
	created  []*column // by CREATE TABLE
	key      []*column // of the primary key
	keyParts []string
	keyText  string
	suffix   string // partitions and options
	partOn   *column
	names    int
	repeated bool // timestamps are of hours that the clock repeats when summer time ends
	byRows   bool // the entries are compared with those computed from the rows, not with TiDB's build
}

var collations = []string{
	"utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_0900_ai_ci", "utf8mb4_0900_bin", "utf8_bin", "utf8_general_ci", "utf8_unicode_ci",
	"latin1_bin", "ascii_bin", "gbk_bin", "gbk_chinese_ci", "binary",
}

func (t *randomTable) name() string {
	t.names++
	return fmt.Sprintf("c%d", t.names)
}

// newColumn returns a column of a random type.
func (t *randomTable) newColumn() *column {
	r := t.r
	c := &column{name: t.name()}
	unsigned := chance(r, 3)
	sign := ""
	if unsigned {
		sign = pick(r, []string{" unsigned", " unsigned zerofill"})
	}
	switch r.IntN(22) {
	case 0, 1, 2:
		n := r.IntN(5)
		c.typ = []string{"tinyint", "smallint", "mediumint", "int", "bigint"}[n] + sign
		c.values = integers([]int{8, 16, 24, 32, 64}[n], unsigned)
	case 3:
		c.typ, c.values = pick(r, []string{"float", "double", "float(7,2)", "double(12,3)"}), floats
		if chance(r, 4) {
			c.typ += " unsigned"
		}
	case 4, 5:
		before, after := 1+r.IntN(20), r.IntN(10)
		if chance(r, 5) {
			before, after = 1+r.IntN(35), r.IntN(31)
		}
		c.typ, c.values = fmt.Sprintf("decimal(%d,%d)%s", before+after, after, sign), decimals(before, after)
	case 6:
		c.typ, c.values = "year", oneOf("0", "1901", "2155", "2000", "1999")
	case 7:
		c.typ, c.values, c.family = "date", datetimes(1990), temporal
	case 8:
		c.typ, c.values, c.family = fmt.Sprintf("datetime(%d)", r.IntN(7)), datetimes(1960), temporal
	case 9, 10:
		c.typ, c.values, c.family, c.zoned = fmt.Sprintf("timestamp(%d)", r.IntN(7)), timestamps(t.repeated), temporal, true
		c.attributes = "null"
	case 11:
		c.typ, c.values, c.family = fmt.Sprintf("time(%d)", r.IntN(7)), durations, temporal
	case 12:
		c.typ, c.values = "enum('x','X y','zz','é','')", oneOf("'x'", "'X y'", "'zz'", "'é'", "''", "'not there'", "1")
		c.family = textual
		if chance(r, 2) {
			c.typ = "enum('x','yy','zz') collate " + pick(r, collations[:8])
		}
	case 13:
		c.typ, c.values, c.family = "set('a','b','cc','d e')", oneOf("''", "'a,cc'", "'b'", "'d e,a'", "15"), textual
		if chance(r, 2) {
			c.typ += " collate " + pick(r, collations[:8])
		}
	case 14:
		n := 1 + r.IntN(64)
		c.typ, c.values = fmt.Sprintf("bit(%d)", n), bits(n)
	case 15:
		c.typ, c.values, c.family = "json", pick(r, []values{documents, numbers, words}), document
	case 16:
		n := 1 + r.IntN(40)
		c.typ, c.values, c.family, c.prefix = fmt.Sprintf("%s(%d)", pick(r, []string{"binary", "varbinary"}), n), octets(n), binary, n
	case 17:
		c.typ, c.values, c.family, c.prefix, c.needPrefix = pick(r, []string{"blob", "tinyblob", "longblob"}), octets(60), binary, 40, true
	default:
		t.text(c)
	}
	if c.attributes == "" && chance(r, 3) || c.family == document && chance(r, 4) {
		c.notNull, c.attributes = true, "not null"
	}
	if !c.notNull {
		c.values = orNull(r, c.values)
	}
	return c
}

// text makes c a column of text.
func (t *randomTable) text(c *column) {
	r := t.r
	collation := pick(r, collations[:8])
	if chance(r, 5) {
		collation = pick(r, collations)
	}
	n := 1 + r.IntN(40)
	if chance(r, 8) {
		n = 200
	}
	c.family, c.values, c.prefix = textual, texts(n), n
	set := collation
	if i := strings.IndexByte(collation, '_'); i > 0 {
		set = collation[:i]
	}
	tp := fmt.Sprintf("%s(%d)", pick(r, []string{"char", "varchar", "varchar"}), n)
	if chance(r, 4) {
		tp, c.needPrefix = pick(r, []string{"text", "tinytext", "longtext"}), true
		c.prefix = min(n, 60)
	}
	c.typ = tp + " charset " + set + " collate " + collation
	if collation == "binary" {
		c.family = binary
	}
}

// defaults may give a default to a column that is added to a table with rows.
func (c *column) defaults(r *rand.Rand) {
	if c.needPrefix || c.family == document || c.notNull && chance(r, 2) || chance(r, 3) {
		return
	}
	for range 3 {
		// TiDB cannot read defaults back that are not UTF-8.
		if v := c.values(r); v != "NULL" && !strings.HasPrefix(v, "json") && !strings.HasPrefix(v, "x'") {
			c.attributes += " default " + v
			return
		}
	}
}

// newRandomTable returns a table of up to 30 columns.
func newRandomTable(r *rand.Rand) *randomTable {
	t := &randomTable{r: r, repeated: chance(r, 4)}
	n := 2 + r.IntN(7)
	if chance(r, 6) {
		n = 1 + r.IntN(30)
	}
	for range n {
		t.columns = append(t.columns, t.newColumn())
	}
	t.addKey()
	for range r.IntN(4) {
		t.columns = append(t.columns, t.generated())
	}
	if chance(r, 3) {
		r.Shuffle(len(t.columns), func(i, j int) {
			if !t.columns[i].virtual && !t.columns[j].virtual && t.columns[i].values != nil && t.columns[j].values != nil {
				t.columns[i], t.columns[j] = t.columns[j], t.columns[i]
			}
		})
	}
	t.created = slices.Clone(t.columns)
	t.addPartitions()
	return t
}

// addKey chooses the primary key, or a hidden row ID.
func (t *randomTable) addKey() {
	r := t.r
	switch r.IntN(8) {
	case 0: // a hidden row ID
		if chance(r, 2) {
			t.suffix = " shard_row_id_bits = 4"
		}
		return
	case 1, 2:
		unsigned := chance(r, 2)
		c := &column{name: t.name(), typ: pick(r, []string{"bigint", "int", "tinyint"}), values: integers(8, unsigned), notNull: true}
		if c.typ != "tinyint" {
			c.values = integers(32, unsigned)
		}
		if unsigned {
			c.typ += " unsigned"
		}
		switch {
		case chance(r, 5):
			c.typ, c.attributes, c.values = "bigint", "auto_random("+fmt.Sprint(1+r.IntN(6))+")", oneOf("default")
			if unsigned {
				c.typ += " unsigned"
			}
		case chance(r, 5):
			c.attributes, c.values = "auto_increment", oneOf("default")
		}
		t.columns = append(t.columns, c)
		t.setKey([]*column{c}, []string{c.name}, "clustered")
		return
	}
	var key []*column
	var parts []string
	for range 1 + r.IntN(4) {
		c := pick(r, t.columns)
		if chance(r, 2) {
			c = t.newColumn()
			t.columns = append(t.columns, c)
		}
		if c.family == document || slices.Contains(key, c) {
			continue
		}
		key, parts = append(key, c), append(parts, c.key(r))
	}
	if len(key) > 0 {
		t.setKey(key, parts, pick(r, []string{"clustered", "clustered", "clustered", "nonclustered"}))
	}
}

func (t *randomTable) setKey(key []*column, parts []string, kind string) {
	for _, c := range key {
		if !c.notNull {
			// What TiDB makes of a NULL that is ignored is not always the zero of the type: partitions are chosen by it.
			c.notNull, c.attributes, c.values = true, strings.Replace(c.attributes, "null", "", 1)+" not null", notNull(c.values)
		}
	}
	t.key, t.keyParts = key, parts
	t.keyText = "primary key (" + strings.Join(parts, ", ") + ") " + kind
}

// generated returns a new generated column.
func (t *randomTable) generated() *column {
	r := t.r
	from := pick(r, t.columns)
	expr, typ := expression(r, from, pick(r, t.columns))
	c := &column{name: t.name(), typ: typ, family: numeric, zoned: from.zoned}
	switch {
	case strings.HasPrefix(typ, "varchar"), strings.HasPrefix(typ, "char"):
		c.family, c.prefix = textual, 10
		if chance(r, 2) {
			c.typ += " collate " + pick(r, collations[:5])
		}
	case strings.HasPrefix(typ, "date"), strings.HasPrefix(typ, "timestamp"):
		c.family = temporal
	case typ == "json":
		c.family = document
	}
	c.attributes = "as (" + expr + ")"
	if !c.zoned && !strings.Contains(strings.Join(t.keyParts, " "), from.name) && chance(r, 3) {
		c.attributes += " stored"
	} else {
		c.virtual = true
	}
	return c
}

// expression returns an expression of a column, and a type for its values.
func expression(r *rand.Rand, c, other *column) (expr, typ string) {
	n := c.name
	if chance(r, 8) {
		return pick(r, []string{n + " is null", "length(" + n + ")"}), "int"
	}
	switch c.family {
	case numeric:
		return pick2(r, "@ + 1", "double", "@ % 7", "decimal(30,4)", "-@", "double", "@ * 1.5", "decimal(65,5)", "cast(@ as char(20))", "varchar(30)",
			"@ div 3", "bigint", "concat(@, 'é')", "varchar(80)", "json_array(@)", "json", "cast(@ as decimal(20,2))", "decimal(20,2)", "@", "int unsigned").of(n)
	case temporal:
		return pick2(r, "date_format(@, '%Y-%m %H')", "varchar(40)", "hour(@)", "int", "@", "datetime(2)", "cast(@ as char(30))", "varchar(30)", "cast(@ as date)", "date",
			"year(@)", "year", "@", "timestamp(1)", "@", "time(3)", "@ + interval 1 hour", "datetime(6)").of(n)
	case document:
		return pick2(r, "json_length(@)", "int", "cast(@->>'$.b' as char(10))", "varchar(10)", "cast(@->'$.a' as signed)", "bigint", "json_extract(@, '$[0]')", "json",
			"json_unquote(json_extract(@, '$.b'))", "varchar(40)", "cast(@ as char(64))", "varchar(64)").of(n)
	}
	if other.family == textual && chance(r, 4) {
		return "concat(" + n + ", " + other.name + ")", "varchar(500)"
	}
	return pick2(r, "lower(@)", "varchar(250)", "left(@, 2)", "varchar(2)", "reverse(@)", "varchar(250)", "hex(@)", "varchar(1000)", "trim(@)", "char(250)",
		"cast(@ as signed)", "bigint", "substring(@, 2, 3)", "varchar(12)", "upper(@)", "varchar(250)", "cast(@ as binary(8))", "binary(8)", "cast(@ as date)", "date",
		"char_length(@)", "tinyint", "@", "varchar(3)", "@ = 'A'", "bool").of(n)
}

// pair is an expression of @ and its type.
type pair struct{ expr, typ string }

func pick2(r *rand.Rand, pairs ...string) pair {
	i := 2 * r.IntN(len(pairs)/2)
	return pair{pairs[i], pairs[i+1]}
}

func (p pair) of(name string) (string, string) { return strings.ReplaceAll(p.expr, "@", name), p.typ }

// addPartitions partitions the table, or does not.
func (t *randomTable) addPartitions() {
	r := t.r
	if !chance(r, 3) {
		return
	}
	candidates := t.key
	if len(candidates) == 0 {
		candidates = t.columns
	}
	for range 4 {
		c := pick(r, candidates)
		if c.values == nil || c.needPrefix {
			continue
		}
		integer := strings.Contains(c.typ, "int")
		switch {
		case integer && chance(r, 2):
			t.suffix += fmt.Sprintf(" partition by hash (%s) partitions %d", c.name, 1+r.IntN(9))
		case integer && chance(r, 2):
			t.suffix += fmt.Sprintf(" partition by range (%s) (partition p0 values less than (10), partition p1 values less than (60), partition p2 values less than maxvalue)", c.name)
		case c.typ == "date" || strings.HasPrefix(c.typ, "datetime"):
			t.suffix += fmt.Sprintf(" partition by range columns (%s) (partition p0 values less than ('1999-01-01'), partition p1 values less than (maxvalue))", c.name)
		case c.family == textual && strings.Contains(c.typ, "char") && chance(r, 2):
			t.suffix += fmt.Sprintf(" partition by list columns (%s) (partition p0 values in ('a', ''), partition p1 default)", c.name)
		case c.family == numeric || c.family == temporal && !c.zoned || c.family == textual && strings.Contains(c.typ, "char"):
			t.suffix += fmt.Sprintf(" partition by key (%s) partitions %d", c.name, 1+r.IntN(5))
		default:
			continue
		}
		t.partOn = c
		return
	}
}

// create returns the statement that creates the table.
func (t *randomTable) create() string {
	var parts []string
	for _, c := range t.created {
		parts = append(parts, c.definition())
	}
	if t.keyText != "" {
		parts = append(parts, t.keyText)
	}
	return "create table t (" + strings.Join(parts, ", ") + ")" + t.suffix
}

// insert returns a statement that inserts up to 30 rows.
func (t *randomTable) insert() string {
	var names, rows []string
	for _, c := range t.columns {
		if c.values != nil {
			names = append(names, c.name)
		}
	}
	for range 1 + t.r.IntN(30) {
		var row []string
		for _, c := range t.columns {
			if c.values != nil {
				row = append(row, c.values(t.r))
			}
		}
		rows = append(rows, "("+strings.Join(row, ",")+")")
	}
	return "insert ignore into t (" + strings.Join(names, ",") + ") values " + strings.Join(rows, ",")
}

// change returns a statement that changes the columns, and a function to call after it has
// succeeded, which records the change in t.
func (t *randomTable) change() (statement string, done func()) {
	r := t.r
	free := func(c *column) bool { // nothing depends on it
		if slices.Contains(t.key, c) || c == t.partOn || c.values == nil {
			return false
		}
		return !slices.ContainsFunc(t.columns, func(g *column) bool { return g.values == nil && strings.Contains(g.attributes, c.name) })
	}
	switch c := pick(r, t.columns); {
	case chance(r, 4) && free(c) && len(t.columns) > 1:
		return "alter table t drop column " + c.name, func() { t.columns = slices.DeleteFunc(t.columns, func(o *column) bool { return o == c }) }
	case chance(r, 3) && free(c):
		n := t.newColumn()
		if c.family == numeric && chance(r, 2) {
			n.typ, n.family, n.values, n.prefix, n.needPrefix = "varchar(100)", textual, texts(20), 20, false
		}
		n.name, n.notNull, n.attributes = c.name, false, "null"
		return "alter table t modify column " + n.definition(), func() { *c = *n }
	case chance(r, 4):
		if g := t.generated(); g.virtual {
			return "alter table t add column " + g.definition(), func() { t.columns = append(t.columns, g) }
		}
	}
	n := t.newColumn()
	n.defaults(r)
	at := pick(r, []string{"", "", " first"})
	return "alter table t add column " + n.definition() + at, func() { t.columns = append(t.columns, n) }
}
