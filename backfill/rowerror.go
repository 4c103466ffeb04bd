package backfill

import (
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/expression"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/util/chunk"

	"fastddl/ingest"
	"fastddl/kv"
)

// MaxBadRows is how many rows a RowError names.
const MaxBadRows = 100

// RowError says that rows have values for which an index has no entry. It is a verdict on the rows: no further attempt finds others.
type RowError struct {
	// Rows has at least one row and at most MaxBadRows, all of one batch.
	Rows []BadRow
}

// BadRow is a row that gives an index no entry.
type BadRow struct {
	// Index is the first of the build's indexes that wants the entry.
	Index *model.IndexInfo
	// Column has the value, or the expression, that is at fault; nil if none is known.
	Column *model.ColumnInfo
	// Key is the row's.
	Key []byte
	// Err is TiDB's error.
	Err error
}

func (e *RowError) Error() string {
	first := &e.Rows[0]
	row := fmt.Sprintf("%x", first.Key) // as a log may have it: the values of a clustered key are not for everybody
	if _, handle, err := tablecodec.DecodeRecordKey(first.Key); err == nil && handle.IsInt() {
		row = handle.String()
	}
	return fmt.Sprintf("backfill: row %s has no entry in index %s (%d rows found): %v", row, first.Index.Name.O, len(e.Rows), first.Err)
}

// Unwrap returns TiDB's error of the first row.
func (e *RowError) Unwrap() error { return e.Rows[0].Err }

// rowKey is the key of row i of a batch.
func rowKey(b *kv.RowBatch, commonHandle bool, physicalID int64, i int) []byte {
	if commonHandle {
		return tablecodec.EncodeRowKey(physicalID, b.CommonHandle(i))
	}
	return tablecodec.EncodeRowKeyWithHandle(physicalID, tkv.IntHandle(b.IntHandles[i]))
}

// rowError returns the error of a batch that expressions have failed for with err. Which rows and columns it was is found by evaluating
// them one by one. Of rows the first columns are those that were scanned, as expressions see them.
func (v *virtualColumns) rowError(b *kv.RowBatch, rows *chunk.Chunk, physicalID int64, err error) error {
	found := new(RowError)
	for i := 0; i < b.NumRows() && len(found.Rows) < MaxBadRows; i++ {
		row := chunk.NewChunkWithCapacity(v.fields, 1)
		for at := range v.fields {
			if at < len(v.p.columns) && rows.Column(at).Rows() > i {
				row.Column(at).AppendCellNTimes(rows.Column(at), i, 1)
			} else {
				row.AppendNull(at)
			}
		}
		if column, err := v.evaluate(row); err != nil {
			index := v.indexOf(column)
			found.Rows = append(found.Rows, BadRow{Index: index, Column: column, Key: rowKey(b, v.p.table.IsCommonHandle, physicalID, i), Err: nameIndex(index, err)})
		}
	}
	if len(found.Rows) == 0 {
		return fmt.Errorf("backfill: virtual columns of table %s: %w", v.p.table.Name.O, err)
	}
	return found
}

// evaluate computes the virtual columns of one row, and returns the first that has no value.
func (v *virtualColumns) evaluate(row *chunk.Chunk) (*model.ColumnInfo, error) {
	for k, at := range v.offsets {
		column := v.p.layout[at]
		if err := table.FillVirtualColumnValue(v.results[k:k+1], v.offsets[k:k+1], v.columns, v.p.layout, v.p.exprs.ctx, row); err != nil {
			return column, err
		}
	}
	for _, at := range v.times {
		if err := v.convert(row, at, v.p.zone, time.UTC); err != nil {
			return v.p.layout[at], err
		}
	}
	return nil, nil
}

// indexOf is the index that wants a column: the first that has it, or the first of all if it is one that others are computed from.
func (v *virtualColumns) indexOf(column *model.ColumnInfo) *model.IndexInfo {
	for _, idx := range v.p.indexes {
		for _, ic := range idx.Columns {
			if ic.Offset == column.Offset {
				return idx
			}
		}
	}
	return v.p.indexes[0]
}

// nameIndex makes an error name the index that it is about, as TiDB does.
func nameIndex(index *model.IndexInfo, err error) error {
	if index.MVIndex && expression.ErrInvalidJSONForFuncIndex.Equal(err) {
		return expression.ErrInvalidJSONForFuncIndex.FastGenByArgs(index.Name.O)
	}
	return err
}

// rowError returns the error of rows that the index has no entries for: row i, which has failed with err, and those behind it.
func (e *indexEncoder) rowError(i int, err error) error {
	found := &RowError{Rows: []BadRow{e.badRow(i, err)}}
	none := func(int, []byte, int) error { return nil }
	for i++; i < e.batch.NumRows() && len(found.Rows) < MaxBadRows; i++ {
		if e.library != nil {
			err = e.library.encode(i, e.keys, none)
		} else {
			_, _, err = e.entry(i)
		}
		if err != nil && !errors.As(err, new(*ingest.DuplicateError)) {
			found.Rows = append(found.Rows, e.badRow(i, err))
		}
	}
	return found
}

func (e *indexEncoder) badRow(i int, err error) BadRow {
	bad := BadRow{Index: e.index, Key: rowKey(e.batch, e.value.commonHandle, e.physicalID, i), Err: err}
	var null *NullError
	isNull := errors.As(err, &null)
	for k := range e.keys {
		c := &e.keys[k]
		fails := isNull && null.Column == c.info.Name.O
		if !isNull {
			_, err := c.append(nil, e.batch.Rows, i)
			fails = err != nil || len(e.keys) == 1
		}
		if fails {
			bad.Column = c.info
			break
		}
	}
	return bad
}
