package encode

import (
	"fmt"
	"slices"
	"time"

	"github.com/pingcap/tidb/pkg/expression"
	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"

	"fastddl/kv"
)

// virtualColumns computes the virtual columns of a projection for batches of rows.
// Expressions hold buffers, so each worker has its own.
type virtualColumns struct {
	p       *Projection
	columns []*expression.Column // by position in the layout
	offsets []int                // positions of the virtual ones
	results []*types.FieldType   // their types
	fields  []*types.FieldType   // of the layout
	zoned   []int                // positions of scanned TIMESTAMPs that expressions are computed from
	times   []int                // positions of virtual TIMESTAMPs
	batch   kv.RowBatch
}

// OnVirtual says that an index is on a generated column that is not stored.
func OnVirtual(table *model.TableInfo, idx *model.IndexInfo) bool {
	return slices.ContainsFunc(idx.Columns, func(ic *model.IndexColumn) bool { return table.Columns[ic.Offset].IsVirtualGenerated() })
}

// newVirtualColumns returns nil if the projection has none.
func newVirtualColumns(p *Projection) (*virtualColumns, error) {
	if len(p.layout) == len(p.columns) {
		return nil, nil
	}
	if expression.BuildSimpleExpr == nil { // set by TiDB's planner, which every server links
		return nil, fmt.Errorf("%w: expressions of table %s in a program without TiDB's package planner/core", ErrUnsupported, p.table.Name.O)
	}
	v := &virtualColumns{p: p}
	for i, col := range p.layout {
		v.fields = append(v.fields, &col.FieldType)
		if i >= len(p.columns) {
			v.offsets = append(v.offsets, i)
			v.results = append(v.results, &col.FieldType)
		}
	}
	if p.zone != time.UTC {
		v.findTimes()
	}
	var err error
	v.columns, _, err = expression.ColumnInfos2ColumnsAndNames(p.exprs.ctx, pmodel.CIStr{}, p.table.Name, p.layout, p.table)
	if err != nil {
		return nil, fmt.Errorf("backfill: expressions of table %s: %w", p.table.Name.O, err)
	}
	return v, nil
}

// findTimes finds the TIMESTAMPs that are converted.
func (v *virtualColumns) findTimes() {
	used := make(map[string]bool)
	for _, i := range v.offsets {
		for name := range v.p.layout[i].Dependences {
			used[name] = true
		}
	}
	for i, col := range v.p.layout {
		switch {
		case col.GetType() != mysql.TypeTimestamp:
		case i >= len(v.p.columns):
			v.times = append(v.times, i)
		case used[col.Name.L]:
			v.zoned = append(v.zoned, i)
		}
	}
}

// extend returns b with the virtual columns behind those that were scanned, good
// until the next call. It fails with a *RowError if an expression has no value for a row.
//
// Expressions see TIMESTAMPs in the statement's zone, as DML gives them to its own. What is
// indexed are the scanned ones, not these turned back: of a time that clocks show twice the
// instant is lost. Where an expression gives such a time, it becomes the instant that DML takes.
func (v *virtualColumns) extend(b *kv.RowBatch, physicalID int64) (*kv.RowBatch, error) {
	rows := chunk.NewEmptyChunk(v.fields)
	for i := range v.p.columns {
		rows.SetCol(i, b.Rows.Column(i))
	}
	for _, i := range v.zoned {
		rows.SetCol(i, b.Rows.Column(i).CopyConstruct(nil))
		if err := v.convert(rows, i, time.UTC, v.p.zone); err != nil {
			return nil, err
		}
	}
	if len(v.p.columns) == 0 { // a chunk has as many rows as its first column
		for range b.NumRows() {
			rows.AppendNull(0)
		}
	}
	err := table.FillVirtualColumnValue(v.results, v.offsets, v.columns, v.p.layout, v.p.exprs.ctx, rows)
	for _, i := range v.times {
		if err == nil {
			err = v.convert(rows, i, v.p.zone, time.UTC)
		}
	}
	if err != nil {
		return nil, v.rowError(b, rows, physicalID, err)
	}
	for _, i := range v.zoned {
		rows.SetCol(i, b.Rows.Column(i))
	}
	v.batch = *b
	v.batch.Rows = rows
	return &v.batch, nil
}

// convert turns the times of a column from one zone into another.
func (v *virtualColumns) convert(rows *chunk.Chunk, i int, from, to *time.Location) error {
	col := rows.Column(i)
	times := col.Times()
	for row := range times {
		if col.IsNull(row) {
			continue
		}
		if err := times[row].ConvertTimeZone(from, to); err != nil {
			return fmt.Errorf("backfill: column %s of table %s: %w", v.p.layout[i].Name.O, v.p.table.Name.O, err)
		}
	}
	return nil
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

// indexOf returns the first index that has a column, or the first of all if none has it: then others are computed from it.
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
