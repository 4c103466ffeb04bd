package sql

import (
	"fmt"
	"slices"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/kv"
)

// Table is one version of a table as go-mysql-server sees it. It holds no state
// of a session: snapshot and transaction come from the context of each call. It
// implements none of go-mysql-server's interfaces for altering tables: schema
// changes are jobs of package ddl.
type Table struct {
	def    *tableDef
	engine *Engine
	// columns are the positions in def.schema of a projection, nil for all;
	// schema are the columns so chosen.
	columns []int
	schema  gms.Schema
}

var (
	_ gms.Table                 = (*Table)(nil)
	_ gms.ProjectedTable        = (*Table)(nil)
	_ gms.IndexAddressableTable = (*Table)(nil)
	_ gms.PrimaryKeyTable       = (*Table)(nil)
	_ gms.StatisticsTable       = (*Table)(nil)
	_ gms.CommentedTable        = (*Table)(nil)
	_ gms.AutoIncrementTable    = (*Table)(nil)
	_ gms.InsertableTable       = (*Table)(nil)
	_ gms.UpdatableTable        = (*Table)(nil)
	_ gms.DeletableTable        = (*Table)(nil)
	_ gms.ReplaceableTable      = (*Table)(nil)
	_ gms.Databaseable          = (*Table)(nil)
	_ gms.TemporaryTable        = (*Table)(nil)
	_ gms.IndexedTable          = (*indexedTable)(nil)
)

// Name implements sql.Table.
func (t *Table) Name() string { return t.def.info.Name.O }

// String implements fmt.Stringer.
func (t *Table) String() string { return t.Name() }

// Database implements sql.Databaseable.
func (t *Table) Database() string { return t.def.db }

// IsTemporary implements sql.TemporaryTable. go-mysql-server asks all tables in
// a read-only transaction.
func (t *Table) IsTemporary() bool { return false }

// Schema implements sql.Table.
func (t *Table) Schema(*gms.Context) gms.Schema { return t.schema }

// Collation implements sql.Table.
func (t *Table) Collation() gms.CollationID { return t.def.collation }

// Comment implements sql.CommentedTable.
func (t *Table) Comment() string { return t.def.info.Comment }

// PrimaryKeySchema implements sql.PrimaryKeyTable.
func (t *Table) PrimaryKeySchema(*gms.Context) gms.PrimaryKeySchema { return t.def.pk }

// WithProjections implements sql.ProjectedTable.
func (t *Table) WithProjections(_ *gms.Context, names []string) (gms.Table, error) {
	return t.project(names)
}

// project returns the table with some columns. The hidden ones stay: the
// optimizer, which comes later, finds indexes on expressions by them.
func (t *Table) project(names []string) (*Table, error) {
	n := len(names) + len(t.def.hidden)
	out := &Table{def: t.def, engine: t.engine, columns: make([]int, 0, n), schema: make(gms.Schema, 0, n)}
	add := func(at int) { out.columns, out.schema = append(out.columns, at), append(out.schema, t.def.schema[at]) }
	for _, name := range names {
		at, ok := t.def.ordinal(name)
		if !ok {
			return nil, fmt.Errorf("table %s has no column %s", t.Name(), name)
		}
		if t.def.hasValue(at) {
			add(at)
		}
	}
	for at := len(t.def.schema) - len(t.def.hidden); at < len(t.def.schema); at++ {
		add(at)
	}
	return out, nil
}

// wantsRowID says that the hidden row ID is among the columns.
func (t *Table) wantsRowID() bool {
	return t.def.hasRowID && (t.columns == nil || slices.Contains(t.columns, t.def.width()))
}

// readColumns are the columns that rows have values for, without the row ID; nil
// for all.
func (t *Table) readColumns() []int {
	if t.columns == nil {
		return nil
	}
	out := make([]int, 0, len(t.columns))
	for _, at := range t.columns {
		if at < t.def.width() {
			out = append(out, at)
		}
	}
	return out
}

// Projections implements sql.ProjectedTable.
func (t *Table) Projections() []string {
	if t.columns == nil {
		return nil
	}
	names := make([]string, 0, len(t.columns))
	for i, at := range t.columns {
		if t.def.hasValue(at) {
			names = append(names, t.schema[i].Name)
		}
	}
	return names
}

// GetIndexes implements sql.IndexAddressable.
func (t *Table) GetIndexes(ctx *gms.Context) ([]gms.Index, error) {
	s, err := sessionOf(ctx)
	if err != nil {
		return nil, err
	}
	if s.showing {
		return t.def.shown, nil
	}
	tx := s.current()
	bound := tx != nil && tx.bound[t.def.info.ID] != nil
	if !bound && !t.def.sessionCollated {
		return t.def.offered, nil
	}
	var readable []gms.Index
	for _, x := range t.def.offered {
		x := x.(*index)
		if x.usable(s) && (!bound || x.clustered || tx.readable(t.def.info.ID, x.info.ID)) {
			readable = append(readable, x)
		}
	}
	return readable, nil
}

// PreciseMatch implements sql.IndexAddressable. Ranges are widened where the
// index cannot tell values apart, so filters are always applied again.
func (t *Table) PreciseMatch() bool { return false }

// IndexedAccess implements sql.IndexAddressable.
func (t *Table) IndexedAccess(_ *gms.Context, lookup gms.IndexLookup) gms.IndexedTable {
	x, ok := lookup.Index.(*index)
	if !ok {
		return nil
	}
	return &indexedTable{Table: t, index: x}
}

// partition is the whole of a table, or what an index lookup selects.
type partition struct {
	index   *index
	ranges  []kv.KeyRange
	reverse bool
	// point holds the values of a whole unique key, instead of ranges.
	point []types.Datum
}

// Key implements sql.Partition.
func (p *partition) Key() []byte { return []byte{0} }

// Partitions implements sql.Table.
func (t *Table) Partitions(*gms.Context) (gms.PartitionIter, error) {
	return gms.PartitionsToPartitionIter(&partition{ranges: []kv.KeyRange{t.def.table.RecordRange()}}), nil
}

// PartitionRows implements sql.Table.
func (t *Table) PartitionRows(ctx *gms.Context, p gms.Partition) (gms.RowIter, error) {
	part, ok := p.(*partition)
	if !ok {
		return nil, fmt.Errorf("table %s: partition of type %T", t.Name(), p)
	}
	return newRowIter(ctx, t, part)
}

// indexedTable is a table that is read through an index.
type indexedTable struct {
	*Table
	index *index
}

// WithProjections implements sql.ProjectedTable.
func (t *indexedTable) WithProjections(_ *gms.Context, names []string) (gms.Table, error) {
	projected, err := t.Table.project(names)
	if err != nil {
		return nil, err
	}
	return &indexedTable{Table: projected, index: t.index}, nil
}

// LookupPartitions implements sql.IndexedTable.
func (t *indexedTable) LookupPartitions(ctx *gms.Context, lookup gms.IndexLookup) (gms.PartitionIter, error) {
	x, ok := lookup.Index.(*index)
	if !ok {
		return nil, fmt.Errorf("table %s: index of type %T", t.Name(), lookup.Index)
	}
	part, err := x.lookup(ctx, lookup)
	if err != nil {
		return nil, err
	}
	if part == nil {
		return gms.PartitionsToPartitionIter(), nil
	}
	return gms.PartitionsToPartitionIter(part), nil
}

// ownTable returns the table of ours that t is.
func ownTable(t gms.Table) (*Table, bool) {
	switch t := t.(type) {
	case *Table:
		return t, true
	case *indexedTable:
		return t.Table, true
	}
	return nil, false
}
