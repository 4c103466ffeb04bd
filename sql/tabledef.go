package sql

import (
	"fmt"
	"strings"

	gms "github.com/dolthub/go-mysql-server/sql"
	gmstypes "github.com/dolthub/go-mysql-server/sql/types"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/catalog"
	"fastddl/sql/sqltype"
	"fastddl/table"
)

// tableDef is what go-mysql-server needs to know of one version of a table. It
// is immutable and computed once per version.
type tableDef struct {
	catalog *catalog.Table
	table   *table.Table
	info    *model.TableInfo
	db      string

	// codecs and schema are in the order of the table's visible columns. Behind
	// them schema has, where there is one, a column that carries the row ID from a
	// scan to the editor that changes the row; and then the hidden columns of
	// expression indexes.
	codecs    []*sqltype.Codec
	schema    gms.Schema
	hidden    []*hiddenColumn
	pk        gms.PrimaryKeySchema
	collation gms.CollationID
	ordinals  map[string]int
	hasRowID  bool
	// zoned says that some column depends on the session's time zone.
	zoned bool
	// autoInc is the position of the AUTO_INCREMENT column, -1 if none.
	autoInc int
	// indexes are all indexes that are public, offered those for the optimizer,
	// shown those for SHOW INDEX.
	indexes []*index
	offered []gms.Index
	shown   []gms.Index
	// sessionCollated says that some index can be used only under the collation
	// that its expressions were declared in.
	sessionCollated bool
	// pkIndex is the primary key, if whole values are its key; oneRow describes
	// a row that it finds.
	pkIndex *index
	oneRow  *gms.FuncDepSet
	err     error
}

type tableDefKey struct{}

// defOf returns the definition of a table version. It fails for a table with a
// column that go-mysql-server has no type for.
func defOf(t *catalog.Table) (*tableDef, error) {
	def := t.Derived(tableDefKey{}, func(t *catalog.Table) any {
		def, err := newTableDef(t)
		if err != nil {
			return &tableDef{err: fmt.Errorf("table %s: %w", t.Info.Name.O, err)}
		}
		return def
	}).(*tableDef)
	return def, def.err
}

func newTableDef(t *catalog.Table) (*tableDef, error) {
	def := &tableDef{
		catalog:  t,
		table:    table.Of(t),
		info:     t.Info,
		db:       t.DB.Name.O,
		ordinals: make(map[string]int),
		autoInc:  -1,
	}
	var err error
	if def.collation, err = sqltype.Collation(t.Info.Collate); err != nil {
		return nil, err
	}
	if err := def.addColumns(); err != nil {
		return nil, err
	}
	def.addPrimaryKey()
	def.addIndexes()
	return def, nil
}

func (d *tableDef) addColumns() error {
	for i, info := range d.table.Columns() {
		codec, err := sqltype.NewCodec(info)
		if err != nil {
			return err
		}
		col, err := sqltype.Column(d.db, d.info.Name.O, info, codec)
		if err != nil {
			return err
		}
		if col.AutoIncrement {
			d.autoInc = i
		}
		if err := generate(col, info); err != nil {
			return err
		}
		d.zoned = d.zoned || codec.Zoned()
		d.codecs = append(d.codecs, codec)
		d.schema = append(d.schema, col)
		d.ordinals[info.Name.L] = i
	}
	if d.hasRowID = d.table.HasHiddenRowID(); d.hasRowID {
		d.addHidden(fmt.Sprintf("%srowid!%d", gms.HiddenSystemColumnPrefix, d.info.ID), gmstypes.Int64)
	}
	return d.addHiddenColumns()
}

// addHidden adds a column that only go-mysql-server gets to see. Its name has the
// table's ID, which keeps it out of NATURAL JOINs, and the prefix of hidden
// columns, which keeps it out of the stars of SELECTs.
func (d *tableDef) addHidden(name string, typ gms.Type) *gms.Column {
	col := &gms.Column{
		Name:           name,
		Source:         d.info.Name.O,
		DatabaseSource: d.db,
		Type:           typ,
		Nullable:       true,
		HiddenSystem:   true,
	}
	d.ordinals[col.Name] = len(d.schema)
	d.schema = append(d.schema, col)
	return col
}

func (d *tableDef) addPrimaryKey() {
	pk := d.primaryKey()
	if pk == nil {
		d.pk = gms.NewPrimaryKeySchema(d.schema)
		return
	}
	ordinals := make([]int, len(pk.Columns))
	for i, col := range pk.Columns {
		ordinals[i] = d.ordinals[col.Name.L]
	}
	d.pk = gms.NewPrimaryKeySchema(d.schema, ordinals...)
}

// primaryKey returns the primary key as an index, also that of an integer
// handle, which has none; nil if the table has no primary key.
func (d *tableDef) primaryKey() *model.IndexInfo {
	if d.info.PKIsHandle {
		col := d.info.GetPkColInfo()
		return &model.IndexInfo{
			Name:    pmodel.NewCIStr(mysql.PrimaryKeyName),
			Columns: []*model.IndexColumn{{Name: col.Name, Offset: col.Offset, Length: types.UnspecifiedLength}},
			State:   model.StatePublic,
			Primary: true,
			Unique:  true,
		}
	}
	for _, idx := range d.info.Indices {
		if idx.Primary && idx.State == model.StatePublic {
			return idx
		}
	}
	return nil
}

func (d *tableDef) addIndexes() {
	if pk := d.primaryKey(); pk != nil {
		x := newIndex(d, pk)
		d.addIndex(x)
		if x.prefixLengths == nil && !x.hidden && !pk.Invisible {
			d.pkIndex, d.oneRow = x, oneRowDeps(d.schema)
		}
	}
	for _, info := range d.table.PublicIndexes() {
		if info.Primary || info.MVIndex {
			continue
		}
		d.addIndex(newIndex(d, info))
	}
}

func (d *tableDef) addIndex(x *index) {
	if x.hidden {
		return
	}
	d.indexes = append(d.indexes, x)
	if x.info.Invisible {
		d.shown = append(d.shown, invisibleIndex{shownIndex{x}})
		return
	}
	d.shown = append(d.shown, shownIndex{x})
	d.offered = append(d.offered, x)
	d.sessionCollated = d.sessionCollated || x.collation != 0
}

// width is the number of values of a row that are the table's own.
func (d *tableDef) width() int { return len(d.codecs) }

// ordinal returns the position of a column in the schema, by name.
func (d *tableDef) ordinal(name string) (int, bool) {
	if at, ok := d.ordinals[name]; ok {
		return at, true
	}
	at, ok := d.ordinals[strings.ToLower(name)]
	return at, ok
}
