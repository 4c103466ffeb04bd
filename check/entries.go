package check

import (
	"fmt"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/pingcap/tidb/pkg/util/stringutil"

	"fastddl/catalog"
	"fastddl/generated"
)

// layout is what the rows of a table look like: enough to compute the entries
// they must have. It is immutable.
type layout struct {
	tbl  *model.TableInfo
	cols []rowcodec.ColInfo
	fts  map[int64]*types.FieldType
	// handleCols are the columns that the handle is made of.
	handleCols []int64
	defaults   map[int64]types.Datum
	pk         *model.IndexInfo
	// virtual computes the columns of the indexes that rows do not hold; nil if
	// there are none.
	virtual *generated.Plan
}

// newLayout returns what the rows of t look like to those who check indexes.
func newLayout(t *catalog.Table, indexes []*model.IndexInfo) (*layout, error) {
	tbl := t.Info
	l := &layout{tbl: tbl, fts: make(map[int64]*types.FieldType), defaults: make(map[int64]types.Datum)}
	for _, col := range tbl.Columns {
		isHandle := tbl.PKIsHandle && mysql.HasPriKeyFlag(col.GetFlag())
		if isHandle {
			l.handleCols = []int64{col.ID}
		}
		l.cols = append(l.cols, rowcodec.ColInfo{ID: col.ID, IsPKHandle: isHandle, Ft: &col.FieldType})
		l.fts[col.ID] = &col.FieldType
		d := types.NewDatum(col.GetOriginDefaultValue())
		if !d.IsNull() {
			var err error
			if d, err = d.ConvertTo(types.DefaultStmtNoWarningContext, &col.FieldType); err != nil {
				return nil, fmt.Errorf("origin default of column %s: %w", col.Name.O, err)
			}
		}
		l.defaults[col.ID] = d
	}
	if tbl.IsCommonHandle {
		l.pk = tbl.GetPrimaryKey()
		for _, ic := range l.pk.Columns {
			l.handleCols = append(l.handleCols, tbl.Columns[ic.Offset].ID)
		}
	}
	columns, err := generated.Compile(tbl, t.Expressions)
	if err != nil {
		return nil, err
	}
	var indexed []int
	for _, idx := range indexes {
		for _, ic := range idx.Columns {
			indexed = append(indexed, ic.Offset)
		}
	}
	l.virtual = columns.Virtual(indexed)
	return l, nil
}

// rowReader decodes rows one after the other. It belongs to one goroutine.
type rowReader struct {
	*layout
	decoder *rowcodec.DatumMapDecoder
	row     map[int64]types.Datum
	ordered []types.Datum // over all columns, for expressions
}

func (l *layout) reader() *rowReader {
	return &rowReader{
		layout: l, decoder: rowcodec.NewDatumMapDecoder(l.cols, time.UTC),
		row:     make(map[int64]types.Datum, len(l.cols)),
		ordered: make([]types.Datum, len(l.cols)),
	}
}

// read decodes a row; its values are good until the next call.
func (r *rowReader) read(key, value []byte) (tkv.Handle, error) {
	h, err := tablecodec.DecodeRowKey(key)
	if err != nil {
		return nil, undecodable("row key", key, err)
	}
	if err := guard(func() error { return r.decode(h, value) }); err != nil {
		return nil, undecodable("row", key, err)
	}
	for id, d := range r.defaults {
		if _, ok := r.row[id]; !ok {
			r.row[id] = d
		}
	}
	if err := r.compute(); err != nil {
		return nil, fmt.Errorf("row %s of table %s: %w", h, r.tbl.Name.O, err)
	}
	return h, nil
}

// compute adds the virtual columns to the row.
func (r *rowReader) compute() error {
	if r.virtual == nil {
		return nil
	}
	for i, col := range r.tbl.Columns {
		r.ordered[i] = r.row[col.ID]
	}
	if err := r.virtual.Fill(r.ordered); err != nil {
		return err
	}
	for i, col := range r.tbl.Columns {
		if col.IsVirtualGenerated() {
			r.row[col.ID] = r.ordered[i]
		}
	}
	return nil
}

func (r *rowReader) decode(h tkv.Handle, value []byte) (err error) {
	clear(r.row)
	if rowcodec.IsNewFormat(value) {
		_, err = r.decoder.DecodeToDatumMap(value, r.row)
	} else {
		r.row, err = tablecodec.DecodeRowWithMap(value, r.fts, time.UTC, r.row)
	}
	if err != nil {
		return err
	}
	r.row, err = tablecodec.DecodeHandleToDatumMap(h, r.handleCols, r.fts, time.UTC, r.row)
	return err
}

// guard turns a panic into an error: the library's decoders run off the end of
// values that were cut short.
func guard(decode func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decoder failed: %v", p)
		}
	}()
	return decode()
}

// entryOf encodes the entries of one index. It belongs to one goroutine.
type entryOf struct {
	tbl           *model.TableInfo
	idx           *model.IndexInfo
	pk            *model.IndexInfo
	needsRestored bool
	values        []types.Datum
	keyBuf        []byte
	valueBuf      []byte
}

func newEntryOf(l *layout, idx *model.IndexInfo) *entryOf {
	e := &entryOf{tbl: l.tbl, idx: idx, pk: l.pk, values: make([]types.Datum, len(idx.Columns))}
	for _, ic := range idx.Columns {
		if types.ColumnNeedRestoredData(ic, l.tbl.Columns) {
			e.needsRestored = true
		}
	}
	return e
}

// encode returns the entry that the row read last must have; it is good until
// the next call.
func (e *entryOf) encode(h tkv.Handle, row map[int64]types.Datum) (key, value []byte, err error) {
	for i, ic := range e.idx.Columns {
		e.values[i] = row[e.tbl.Columns[ic.Offset].ID]
	}
	key, distinct, err := tablecodec.GenIndexKey(time.UTC, e.tbl, e.idx, e.tbl.ID, e.values, h, e.keyBuf[:0])
	if err != nil {
		return nil, nil, fmt.Errorf("entry of index %s for handle %s: %w", e.idx.Name.O, h, err)
	}
	e.keyBuf = key
	value, err = tablecodec.GenIndexValuePortal(time.UTC, e.tbl, e.idx, e.needsRestored, distinct, false,
		e.values, h, 0, e.handleRest(row), e.valueBuf[:0])
	if err != nil {
		return nil, nil, fmt.Errorf("entry of index %s for handle %s: %w", e.idx.Name.O, h, err)
	}
	e.valueBuf = value
	return key, value, nil
}

// handleRest is what an entry stores of a common handle because its key has lost
// it: the strings that the collation folds, or the number of spaces they end in.
func (e *entryOf) handleRest(row map[int64]types.Datum) []types.Datum {
	if e.pk == nil || e.tbl.CommonHandleVersion == 0 {
		return nil
	}
	var rest []types.Datum
	for _, pkCol := range e.pk.Columns {
		col := e.tbl.Columns[pkCol.Offset]
		if !types.NeedRestoredData(&col.FieldType) {
			continue
		}
		// The value is cut to the longer of the two prefixes.
		length := pkCol.Length
		for _, ic := range e.idx.Columns {
			if ic.Offset == pkCol.Offset && length != types.UnspecifiedLength {
				if ic.Length == types.UnspecifiedLength {
					length = types.UnspecifiedLength
				} else {
					length = max(length, ic.Length)
				}
				break
			}
		}
		d := row[col.ID]
		tablecodec.TruncateIndexValue(&d, &model.IndexColumn{Offset: pkCol.Offset, Length: length}, col)
		if collate.IsBinCollation(col.GetCollate()) {
			d.SetInt64(stringutil.GetTailSpaceCount(d.GetString()))
		}
		rest = append(rest, d)
	}
	return rest
}
