package backfill

import (
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"

	"fastddl/generated"
	"fastddl/kv"
)

// computedColumns computes the virtual columns of an index for a batch of rows.
// The batch it makes has the columns of the scan and then the virtual ones, so
// that entries are encoded from either alike.
type computedColumns struct {
	plan *generated.Plan
	// inputs are the columns that are read, outputs those that are computed.
	inputs  []scannedColumn
	outputs []int // offsets in the table
	scanned int   // columns of the scan

	row      []types.Datum // over all columns of the table
	computed *chunk.Chunk
	fields   []*types.FieldType
	batch    kv.RowBatch
}

// scannedColumn says where a column of the table is found in a scan.
type scannedColumn struct {
	offset, position int
	ft               *types.FieldType
}

// virtualColumns returns the offsets of the columns of an index that rows do not
// hold.
func virtualColumns(table *model.TableInfo, idx *model.IndexInfo) []int {
	var offsets []int
	for _, ic := range idx.Columns {
		if table.Columns[ic.Offset].IsVirtualGenerated() {
			offsets = append(offsets, ic.Offset)
		}
	}
	return offsets
}

// newComputedColumns returns nil if all columns of the index are in the rows.
func newComputedColumns(idx *model.IndexInfo, p *projection) *computedColumns {
	outputs := virtualColumns(p.table, idx)
	if len(outputs) == 0 {
		return nil
	}
	columns := p.table.Columns
	c := &computedColumns{
		plan: p.generated.Virtual(outputs), outputs: outputs, scanned: len(p.columns),
		row: make([]types.Datum, len(columns)),
	}
	for _, at := range c.plan.Inputs {
		c.inputs = append(c.inputs, scannedColumn{at, p.position[columns[at].ID], &columns[at].FieldType})
	}
	for _, col := range p.columns {
		c.fields = append(c.fields, col.Ft)
	}
	for _, at := range outputs {
		c.fields = append(c.fields, &columns[at].FieldType)
	}
	return c
}

// position is where the extended batch has a virtual column.
func (c *computedColumns) position(offset int) int {
	return c.scanned + slices.Index(c.outputs, offset)
}

// extend sets c.batch to b with the virtual columns; it is good until the next
// call. If it fails, row is the row that there is no value for.
func (c *computedColumns) extend(b *kv.RowBatch) (row int, err error) {
	n := b.NumRows()
	if c.computed == nil || c.computed.Capacity() < n {
		c.computed = chunk.New(c.fields[c.scanned:], n, n)
	}
	c.computed.Reset()
	for i := range n {
		r := b.Rows.GetRow(i)
		for _, in := range c.inputs {
			r.DatumWithBuffer(in.position, in.ft, &c.row[in.offset])
		}
		if err := c.plan.Fill(c.row); err != nil {
			return i, err
		}
		for k, at := range c.outputs {
			c.computed.AppendDatum(k, &c.row[at])
		}
	}
	c.batch = *b
	c.batch.Rows = chunk.NewEmptyChunk(c.fields)
	for k := range c.fields {
		if k < c.scanned {
			c.batch.Rows.SetCol(k, b.Rows.Column(k))
		} else {
			c.batch.Rows.SetCol(k, c.computed.Column(k-c.scanned))
		}
	}
	return 0, nil
}
