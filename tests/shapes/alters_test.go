package shapes

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

const (
	// alterSlice are the rounds of TestRandomAlters in go test, and altersOfTable the statements on each of their tables.
	alterSlice    = 30
	altersOfTable = 6
)

// TestRandomAlters has TiDB and fastddl execute the same statements, each of which adds an index and does more, on tables of the same
// definition and rows, one after the other: the errors, the definitions, the rows and the entries have to be the same.
// It plays rounds as TestRandomShapes does.
func TestRandomAlters(t *testing.T) {
	p := newRounds(t, true)
	each(t, 1, alterSlice, p.playAlters)
	t.Logf("%s", p)
}

func (p *rounds) playAlters(t *testing.T, seed uint64) {
	p.t = t
	p.played++
	d := &round{rounds: p, r: rand.New(rand.NewPCG(seed, 2))}
	p.useWorkers(seed%2 == 0)
	defer func() {
		if t.Failed() {
			randtest.Print(t, seed)
		}
	}()
	d.reset()
	table := newRandomTable(d.r)
	if !d.prepare(table) {
		p.invalid++
		return
	}
	for range altersOfTable {
		statement := d.alter(table)
		d.history = append(d.history, statement)
		if !d.compareAlters(statement) {
			return
		}
	}
}

var invisible = regexp.MustCompile(`"is_invisible": (true|false)`)

// compareAlters has both execute a statement, and says whether to go on.
func (d *round) compareAlters(statement string) bool {
	before := d.definition(d.ours)
	theirs, ours := d.theirs.try(statement), d.ours.try(statement)
	if message(theirs) != message(ours) && (theirs == nil || ours == nil || message(theirs)[:4] != message(ours)[:4]) {
		if theirs != nil && d.computed(theirs) {
			d.causes["excused: "+message(theirs)[:4]]++
			return false
		}
		// Of several causes each finds another one first: TiDB does one thing after the other, and fastddl reads rows at last.
		if theirs != nil && ours != nil && ofRows(theirs) {
			d.causes["several causes"]++
			return true
		}
		d.failf("errors differ", "TiDB: %q\nours: %q", message(theirs), message(ours))
	}
	if theirs != nil {
		d.refused++
		d.causes["refused: "+message(theirs)[:4]]++
		if after := d.definition(d.ours); before != after {
			d.failf("something is left", "%s", firstDifference(before, after))
		}
		return true
	}
	d.built++
	if len(d.warnings()) > 0 {
		d.byTiDB++
	}
	if want, got := d.definition(d.theirs), d.definition(d.ours); want != got {
		if strings.Contains(statement, "alter index ") && invisible.ReplaceAllString(want, "") == invisible.ReplaceAllString(got, "") {
			// TiDB takes an index named c5_2 for one that takes the place of c5 (setIndexVisibility in pkg/ddl/index.go:579).
			d.causes["TiDB hides another index, too"]++
			return false
		}
		d.failf("definitions differ", "%s", firstDifference(want, got))
	}
	first := d.ours.table().Columns[0].Name.O
	if want, got := d.theirs.values(), d.ours.values(); !slices.Equal(want, got) {
		d.failf("rows differ", "%s", firstDifference(strings.Join(want, "\n"), strings.Join(got, "\n")))
	}
	if err := d.ours.check(); err != nil {
		if theirs := d.theirs.check(); theirs == nil {
			d.failf("ADMIN CHECK TABLE", "%s", message(err))
		}
		d.causes["checks fail for both"]++
		return false
	}
	for _, statement := range []string{"update t set " + first + " = " + first, "delete from t where crc32(" + first + ") % 9 = 0"} {
		theirs, ours := d.theirs.try(statement), d.ours.try(statement)
		if ours == nil && d.ours.check() == nil && strings.HasPrefix(message(theirs), "8141 ") {
			// Of a row from before ADD COLUMN it knows the zero default without its fractions of a second, and has another entry than DML.
			d.causes["TiDB's index is wrong"]++
			return false
		}
		if (theirs == nil) != (ours == nil) {
			d.failf("DML", "%s\nTiDB: %q\nours: %q", statement, message(theirs), message(ours))
		}
	}
	if err := d.ours.check(); err != nil && d.theirs.check() == nil {
		d.failf("ADMIN CHECK TABLE after DML", "%s", message(err))
	}
	return true
}

// ofRows says that an error is one of the values of rows.
func ofRows(err error) bool {
	code, _, _ := strings.Cut(message(err), " ")
	return slices.Contains([]string{"1062", "1138", "1292", "1366", "1406", "1690", "3903", "1264"}, code)
}

// computed says that an error is one of a value that cannot be computed: TiDB's transactional build computes all
// virtual columns and defaults.
func (d *round) computed(err error) bool {
	code, _, _ := strings.Cut(message(err), " ")
	return slices.Contains([]string{"1292", "1366", "1406", "1690", "3903", "1264"}, code)
}

// values are the rows of a table as text.
func (c *client) values() []string {
	var columns []string
	for _, col := range c.table().Columns {
		if !col.Hidden {
			columns = append(columns, "ifnull(hex(concat("+col.Name.O+")), '-')")
		}
	}
	rows, err := c.rows("select concat_ws(' ', " + strings.Join(columns, ", ") + ") from t")
	if err != nil { // a generated column has no value
		return []string{message(err)}
	}
	slices.Sort(rows)
	return rows
}

// definition is what a table is, but for its IDs and when it was changed.
func (d *round) definition(c *client) string {
	info := c.table().Clone()
	info.ID, info.Name, info.UpdateTS, info.Revision, info.DBID = 0, pmodel.NewCIStr(""), 0, 0, 0
	info.MaxColumnID, info.MaxIndexID = 0, 0 // what has failed has used some
	if p := info.GetPartitionInfo(); p != nil {
		for i := range p.Definitions {
			p.Definitions[i].ID = 0
		}
	}
	// Hidden columns of an index are in either order, and get their IDs so.
	for _, col := range info.Columns {
		col.ID = 0
		if col.Hidden {
			col.Offset = 0
		}
	}
	for _, idx := range info.Indices {
		idx.ID = 0
		for _, col := range idx.Columns {
			if find := model.FindColumnInfo(info.Columns, col.Name.L); find != nil && find.Hidden {
				col.Offset = 0
			}
		}
	}
	hidden := slices.IndexFunc(info.Columns, func(c *model.ColumnInfo) bool { return c.Hidden })
	if hidden >= 0 {
		slices.SortFunc(info.Columns[hidden:], func(a, b *model.ColumnInfo) int { return strings.Compare(a.Name.L, b.Name.L) })
	}
	text, err := json.MarshalIndent(info, "", " ")
	require.NoError(d.t, err)
	return string(text)
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%q, want %q, after\n%s", b[i], a[i], strings.Join(b[max(0, i-40):i], "\n"))
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(b), len(a))
}

// depended says that something keeps a column from being dropped or changed.
func depended(info *model.TableInfo, name string) bool {
	for _, col := range info.Columns {
		if _, ok := col.Dependences[strings.ToLower(name)]; ok {
			return true
		}
	}
	return slices.ContainsFunc(info.Indices, func(idx *model.IndexInfo) bool {
		return (len(idx.Columns) > 1 || idx.Primary) && slices.ContainsFunc(idx.Columns, func(c *model.IndexColumn) bool { return c.Name.L == strings.ToLower(name) })
	})
}

// alter is a statement that adds an index and does more.
func (d *round) alter(t *randomTable) string {
	r := d.r
	info := d.ours.table()
	var columns, indexes []string
	for _, col := range info.Columns {
		if !col.Hidden {
			columns = append(columns, col.Name.O)
		}
	}
	for _, idx := range info.Indices {
		if !idx.Primary {
			indexes = append(indexes, idx.Name.O)
		}
	}
	if len(indexes) == 0 || chance(r, 5) {
		indexes = append(indexes, "nothing")
	}
	// What is done to a column or index twice is refused.
	r.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
	r.Shuffle(len(indexes), func(i, j int) { indexes[i], indexes[j] = indexes[j], indexes[i] })
	next := 0
	column := func() string {
		if !chance(r, 10) {
			next++
		}
		return columns[next%len(columns)]
	}
	at := 0
	index := func() string {
		if !chance(r, 10) {
			at++
		}
		return indexes[at%len(indexes)]
	}
	new := func() string { return t.name() }
	find := func(name string) *model.ColumnInfo { return model.FindColumnInfo(info.Columns, strings.ToLower(name)) }
	place := func() string {
		return pick(r, []string{"", "", "", " first", " after " + column()})
	}
	typed := func(name string) string { // a column as it is, or nearly
		col := find(name)
		def := col.GetTypeDesc()
		if col.GetCharset() != "binary" && col.GetCollate() != "" && (strings.Contains(def, "char") || strings.Contains(def, "text") || strings.Contains(def, "enum") || strings.Contains(def, "set")) {
			def += " collate " + col.GetCollate()
		}
		if col.IsGenerated() {
			def += " as (" + col.GeneratedExprString + ")"
			if col.GeneratedStored {
				def += " stored"
			}
			return def
		}
		if notNull := col.GetFlag()&1 != 0; notNull {
			def += " not null"
		}
		if chance(r, 4) {
			def += " comment 'changed'"
		}
		return def
	}
	key := func() string {
		var parts []string
		for range 1 + r.IntN(3) {
			name := column()
			switch def := find(name).GetTypeDesc(); {
			case strings.Contains(def, "json"):
				parts = append(parts, "(cast("+name+" as char(20)))")
			case strings.Contains(def, "text"), strings.Contains(def, "blob"), chance(r, 6) && strings.Contains(def, "char("):
				parts = append(parts, name+"(1)")
			case chance(r, 6):
				parts = append(parts, "(hex("+name+"))")
			default:
				parts = append(parts, name)
			}
		}
		slices.Sort(parts)
		return "(" + strings.Join(slices.Compact(parts), ", ") + ")"
	}
	global := ""
	if info.GetPartitionInfo() != nil {
		global = " global"
	}
	unnamed := false
	addIndex := func() string {
		switch r.IntN(12) {
		case 0:
			if info.PKIsHandle || info.IsCommonHandle || info.GetPrimaryKey() != nil {
				return "add index " + new() + " " + key()
			}
			return "add primary key " + key() + " nonclustered" + global
		case 1, 2, 3:
			return "add unique index " + new() + " " + key() + global
		case 4:
			if !unnamed { // TiDB refuses a second one of its name, fastddl gives it another one
				unnamed = true
				return "add index " + key()
			}
		case 5:
			if chance(r, 3) { // it is there, mostly
				return "add index " + index() + " " + key()
			}
		}
		return "add index " + new() + " " + key() + pick(r, []string{"", "", " invisible", " comment 'c'"})
	}
	specs := []string{addIndex()}
	for range 1 + r.IntN(3) {
		name := column()
		spec := ""
		what := r.IntN(20)
		for n := 0; n < len(columns) && what >= 5 && what <= 11 && !chance(r, 10) && (find(name).IsGenerated() || depended(info, name)); n++ {
			name = column()
		}
		if what >= 12 && what <= 15 && len(info.Indices) == 0 {
			what = 0
		}
		switch what {
		case 0, 1, 2:
			c := t.newColumn()
			c.defaults(r)
			spec = "add column " + c.definition() + place()
		case 3:
			a, b := t.newColumn(), t.newColumn()
			spec = "add column (" + a.definition() + ", " + b.definition() + pick(r, []string{"", ", index " + new() + " " + key()}) + ")"
		case 4:
			spec = "add column " + new() + " varchar(40) as (hex(" + name + "))" + pick(r, []string{"", " stored"}) + place()
		case 5, 6:
			spec = "drop column " + name
		case 7:
			spec = "rename column " + name + " to " + new()
		case 8, 9:
			spec = "modify column " + name + " " + typed(name) + place()
		case 10:
			spec = "change column " + name + " " + pick(r, []string{new(), name}) + " " + typed(name) + place()
		case 11:
			spec = "alter column " + name + pick(r, []string{" drop default", " set default null", " set default 1", " set default '2020-01-01'"})
		case 12, 13:
			spec = "drop index " + index()
		case 14:
			spec = "rename index " + index() + " to " + new()
		case 15:
			spec = "alter index " + index() + pick(r, []string{" visible", " invisible"})
		case 16:
			spec = pick(r, []string{"comment = 'new'", "engine = innodb", "order by " + name, "row_format = dynamic", "lock = none", "algorithm = inplace", "disable keys", "with validation"})
		case 17:
			spec = pick(r, []string{"drop column if exists nothing", "drop index if exists nothing", "add column if not exists " + name + " int", "drop primary key"})
		default:
			spec = addIndex()
		}
		specs = append(specs, spec)
	}
	r.Shuffle(len(specs), func(i, j int) { specs[i], specs[j] = specs[j], specs[i] })
	return "alter table t " + strings.Join(specs, ", ")
}
