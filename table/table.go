package table

import (
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"

	"fastddl/catalog"
	"fastddl/generated"
	"fastddl/kv"
)

// Table reads and writes the rows of one table as one version of its
// definition describes them. It is immutable and may be used concurrently.
type Table struct {
	catalog *catalog.Table
	meta    *model.TableInfo

	public  []*model.ColumnInfo
	rowCols []rowcodec.ColInfo
	// defaults holds, per column of meta.Columns, the value of rows written
	// before the column existed.
	defaults []types.Datum
	// pk is the primary key's index definition: of a common handle, or of a
	// non-clustered key; nil for an integer handle and for no key at all.
	pk *model.IndexInfo
	// handleColIDs are the columns the handle is made of; nil for hidden row
	// IDs.
	handleColIDs []int64
	// pkOffset is the offset of the integer handle column, -1 if there is none.
	pkOffset int
	indexes  []*index
	// hasHiddenCols says that rows hold columns that are writable but not public.
	hasHiddenCols bool
	// generated are the generated columns, nil if there are none; onWrite computes
	// those that rows hold.
	generated *generated.Columns
	onWrite   *generated.Plan
	// notNull are the columns that take no new NULL because a job makes them
	// NOT NULL; what is NOT NULL already is checked before it gets here.
	notNull []*model.ColumnInfo
	err     error
}

type derivedKey struct{}

// Of returns the Table of a definition. It is computed once per definition.
func Of(t *catalog.Table) *Table {
	return t.Derived(derivedKey{}, func(t *catalog.Table) any { return newTable(t) }).(*Table)
}

func newTable(c *catalog.Table) *Table {
	info := c.Info
	t := &Table{catalog: c, meta: info, public: VisibleColumns(info), pkOffset: -1}
	t.generated, t.err = generated.Compile(info, c.Expressions)
	t.onWrite = t.generated.Stored()
	t.defaults = make([]types.Datum, len(info.Columns))
	for i, col := range info.Columns {
		d, err := OriginDefault(col)
		if err != nil {
			t.err = fmt.Errorf("origin default of column %s: %w", col.Name.O, err)
		}
		t.defaults[i] = d
		t.hasHiddenCols = t.hasHiddenCols || col.State != model.StatePublic && !col.IsVirtualGenerated()
		if mysql.HasPreventNullInsertFlag(col.GetFlag()) {
			t.notNull = append(t.notNull, col)
		}
		isHandle := info.PKIsHandle && mysql.HasPriKeyFlag(col.GetFlag())
		if isHandle {
			t.pkOffset = i
			t.handleColIDs = []int64{col.ID}
		}
		t.rowCols = append(t.rowCols, rowcodec.ColInfo{
			ID: col.ID, IsPKHandle: isHandle, VirtualGenCol: col.IsVirtualGenerated(), Ft: &col.FieldType,
		})
	}
	for _, idx := range info.Indices {
		if idx.Primary {
			t.pk = idx
		}
		if idx.Primary && info.IsCommonHandle {
			for _, col := range idx.Columns {
				t.handleColIDs = append(t.handleColIDs, info.Columns[col.Offset].ID)
			}
			continue
		}
		t.indexes = append(t.indexes, t.newIndex(idx))
	}
	return t
}

// Meta returns the table's definition.
func (t *Table) Meta() *model.TableInfo { return t.meta }

// Catalog returns the catalog's entry for the table.
func (t *Table) Catalog() *catalog.Table { return t.catalog }

// VisibleColumns are the public columns in schema order, but for the hidden ones
// of expression indexes.
func VisibleColumns(info *model.TableInfo) []*model.ColumnInfo {
	return slices.DeleteFunc(info.Cols(), func(col *model.ColumnInfo) bool { return col.Hidden })
}

// Columns returns the visible columns in schema order: the columns of a row.
func (t *Table) Columns() []*model.ColumnInfo { return t.public }

// HandleColumnIDs returns the IDs of the columns the handle is made of, in key
// order; nil for a table with hidden row IDs.
func (t *Table) HandleColumnIDs() []int64 { return t.handleColIDs }

// HasHiddenRowID says that rows have no clustered primary key, so that
// AddRecord needs a row ID.
func (t *Table) HasHiddenRowID() bool { return t.handleColIDs == nil }

// PublicIndexes returns the indexes that reads may use, without the primary
// key of a clustered table.
func (t *Table) PublicIndexes() []*model.IndexInfo {
	var out []*model.IndexInfo
	for _, idx := range t.indexes {
		if idx.info.State == model.StatePublic {
			out = append(out, idx.info)
		}
	}
	return out
}

// RecordRange is the range of all row keys.
func (t *Table) RecordRange() kv.KeyRange { return RecordRange(t.meta.ID) }

// IndexRange is the range of all entries of an index.
func (t *Table) IndexRange(idx *model.IndexInfo) kv.KeyRange { return IndexRange(t.meta.ID, idx.ID) }

// RecordRange is the range of all row keys of a table.
func RecordRange(tableID int64) kv.KeyRange {
	return kv.PrefixRange(tablecodec.GenTableRecordPrefix(tableID))
}

// IndexRange is the range of all entries of an index.
func IndexRange(tableID, indexID int64) kv.KeyRange {
	return kv.PrefixRange(tablecodec.EncodeTableIndexPrefix(tableID, indexID))
}

// Range is the range of everything stored under a table's ID.
func Range(tableID int64) kv.KeyRange {
	return kv.PrefixRange(tablecodec.EncodeTablePrefix(tableID))
}

// withCollation gives string datums their column's collation, which decides
// how they are encoded in keys.
func withCollation(d *types.Datum, col *model.ColumnInfo) {
	if d.Kind() == types.KindString && d.Collation() != col.GetCollate() {
		d.SetString(d.GetString(), col.GetCollate())
	}
}

// fullRow returns the row over all columns of the definition. hidden gives the
// values of the columns that are not public.
func (t *Table) fullRow(public, hidden []types.Datum) ([]types.Datum, error) {
	if t.err != nil {
		return nil, t.err
	}
	if len(public) != len(t.public) {
		return nil, fmt.Errorf("table %s: row has %d columns, want %d", t.meta.Name.O, len(public), len(t.public))
	}
	row := slices.Clone(hidden)
	for i, col := range t.public {
		row[col.Offset] = public[i]
		withCollation(&row[col.Offset], col)
	}
	return row, nil
}
