package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tidb/pkg/util/stringutil"

	"fastddl/generated"
	"fastddl/kv"
)

// index is an index of one version of a table.
type index struct {
	info             *model.IndexInfo
	needRestoredData bool
	// computed computes the index's columns that rows do not hold; nil if there
	// are none.
	computed *generated.Plan
}

func (t *Table) newIndex(info *model.IndexInfo) *index {
	offsets := make([]int, len(info.Columns))
	for i, col := range info.Columns {
		offsets[i] = col.Offset
	}
	return &index{info: info, needRestoredData: NeedRestoredData(t.meta, info), computed: t.generated.Virtual(offsets)}
}

// puts and deletes say what DML does to an index in its schema state.
func (x *index) puts() bool {
	switch x.info.State {
	case model.StateWriteOnly, model.StateWriteReorganization, model.StatePublic:
		return true
	}
	return false
}

func (x *index) deletes() bool { return x.puts() || x.info.State == model.StateDeleteOnly }

// NeedRestoredData says that the index's keys do not tell the values of its
// columns, so that the values are stored beside them.
func NeedRestoredData(tbl *model.TableInfo, idx *model.IndexInfo) bool {
	for _, col := range idx.Columns {
		if types.ColumnNeedRestoredData(col, tbl.Columns) {
			return true
		}
	}
	return false
}

// HandleRestoredData returns what an entry of idx stores to restore the
// columns of a common handle: for each primary key column whose encoding loses
// its value, the value or, under a binary collation, the number of trailing
// spaces. row is a row over all columns of the definition.
// The format is TiDB's (tablecodec.GenIndexValueForClusteredIndexVersion1).
func HandleRestoredData(tbl *model.TableInfo, idx *model.IndexInfo, row []types.Datum) []types.Datum {
	if !tbl.IsCommonHandle || tbl.CommonHandleVersion == 0 {
		return nil
	}
	var out []types.Datum
	for _, pkCol := range tbl.GetPrimaryKey().Columns {
		col := tbl.Columns[pkCol.Offset]
		if !types.NeedRestoredData(&col.FieldType) {
			continue
		}
		d := row[pkCol.Offset]
		tablecodec.TruncateIndexValue(&d, longerPrefix(pkCol, idx), col)
		if collate.IsBinCollation(col.GetCollate()) {
			d = types.NewIntDatum(stringutil.GetTailSpaceCount(d.GetString()))
		}
		out = append(out, d)
	}
	return out
}

// longerPrefix returns, of the primary key's column and the same column in idx,
// the one that holds more of the value.
func longerPrefix(pkCol *model.IndexColumn, idx *model.IndexInfo) *model.IndexColumn {
	for _, col := range idx.Columns {
		if col.Offset != pkCol.Offset || pkCol.Length == types.UnspecifiedLength {
			continue
		}
		if col.Length == types.UnspecifiedLength || col.Length > pkCol.Length {
			return col
		}
	}
	return pkCol
}

// indexEntry is one entry of an index.
type indexEntry struct {
	key, value []byte
	// distinct: the key belongs to a unique index and has no NULL, so no two
	// rows may have it.
	distinct bool
}

func (a indexEntry) equal(b indexEntry) bool {
	return bytes.Equal(a.key, b.key) && bytes.Equal(a.value, b.value)
}

// IndexEntry returns the entry of idx for a row with public columns only, as
// TiDB encodes it. distinct says that the key must be unique.
func (t *Table) IndexEntry(idx *model.IndexInfo, row []types.Datum, h tkv.Handle) (key, value []byte, distinct bool, err error) {
	full, err := t.fullRow(row, t.defaults)
	if err != nil {
		return nil, nil, false, err
	}
	e, err := t.entry(t.newIndex(idx), full, h)
	return e.key, e.value, e.distinct, err
}

// entry returns the entry of a row. It sets the virtual columns of the index in
// the row.
func (t *Table) entry(x *index, row []types.Datum, h tkv.Handle) (indexEntry, error) {
	if err := x.computed.Fill(row); err != nil {
		return indexEntry{}, err
	}
	values := x.values(row)
	// GenIndexKey truncates the values to the index's prefix lengths.
	key, distinct, err := tablecodec.GenIndexKey(time.UTC, t.meta, x.info, t.meta.ID, values, h, nil)
	if err != nil {
		return indexEntry{}, fmt.Errorf("encode key of index %s: %w", x.info.Name.O, err)
	}
	value, err := tablecodec.GenIndexValuePortal(time.UTC, t.meta, x.info, x.needRestoredData, distinct, false,
		values, h, 0, HandleRestoredData(t.meta, x.info, row), nil)
	if err != nil {
		return indexEntry{}, fmt.Errorf("encode value of index %s: %w", x.info.Name.O, err)
	}
	return indexEntry{key, value, distinct}, nil
}

// newEntry returns the entry that a row which replaces another is to have: none
// where an expression has no value for it in an index that takes no entries yet.
func (t *Table) newEntry(x *index, row []types.Datum, h tkv.Handle) (indexEntry, error) {
	if x.puts() {
		return t.entry(x, row, h)
	}
	e, _, err := t.storedEntry(x, row, h)
	return e, err
}

// storedEntry returns the entry that a row in the store has, if it has one: in an
// index that is being built, a row for which an expression has no value has none.
func (t *Table) storedEntry(x *index, row []types.Datum, h tkv.Handle) (e indexEntry, ok bool, err error) {
	e, err = t.entry(x, row, h)
	var noValue *generated.ValueError
	if x.info.State != model.StatePublic && errors.As(err, &noValue) {
		return indexEntry{}, false, nil
	}
	return e, err == nil, err
}

func (x *index) values(row []types.Datum) []types.Datum {
	values := make([]types.Datum, len(x.info.Columns))
	for i, col := range x.info.Columns {
		values[i] = row[col.Offset]
	}
	return values
}

// checkUnique fails with a DuplicateError if another row has the entry's key.
func (t *Table) checkUnique(ctx context.Context, txn kv.Txn, x *index, e indexEntry, row []types.Datum) error {
	if !e.distinct {
		return nil
	}
	value, err := txn.Get(ctx, e.key)
	if errors.Is(err, kv.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	existing, err := tablecodec.DecodeHandleInIndexValue(value)
	if err != nil {
		return fmt.Errorf("decode entry of index %s: %w", x.info.Name.O, err)
	}
	values := x.values(row)
	tablecodec.TruncateIndexValues(t.meta, x.info, values)
	return t.duplicateError(ctx, txn, x.info, values, existing)
}

func (t *Table) putEntry(txn kv.Txn, x *index, e indexEntry) error {
	if !e.distinct {
		return txn.Set(e.key, e.value, kv.NoConflictCheck)
	}
	if err := t.putMarker(txn, x, e); err != nil {
		return err
	}
	return txn.Set(e.key, e.value)
}

func (t *Table) deleteEntry(ctx context.Context, txn kv.Txn, x *index, e indexEntry) error {
	if !e.distinct {
		return txn.Delete(e.key, kv.NoConflictCheck)
	}
	if x.marks() {
		return t.deleteMarked(ctx, txn, x, e)
	}
	return txn.Delete(e.key)
}
