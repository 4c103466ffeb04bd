package table

import (
	"fmt"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/generated"
)

// computedColumns is how a reader gets at virtual columns: it reads what they
// are computed from.
type computedColumns struct {
	rd     *Reader
	plan   *generated.Plan
	inputs []*model.ColumnInfo

	// stored and full are buffers: a row of inputs, and one over all columns of
	// the definition.
	stored, full []types.Datum
}

// newComputedColumns returns nil if a reader wants no virtual column.
func newComputedColumns(rd *Reader) *computedColumns {
	offsets := make([]int, len(rd.cols))
	for i, col := range rd.cols {
		offsets[i] = col.Offset
	}
	plan := rd.table.generated.Virtual(offsets)
	if plan == nil {
		return nil
	}
	columns := rd.table.meta.Columns
	c := &computedColumns{rd: rd, plan: plan, full: make([]types.Datum, len(columns))}
	for _, at := range plan.Inputs {
		c.inputs = append(c.inputs, columns[at])
	}
	c.stored = make([]types.Datum, len(c.inputs))
	return c
}

// decode sets row to the reader's columns. Expressions see TIMESTAMPs in UTC.
func (c *computedColumns) decode(h tkv.Handle, value []byte, row []types.Datum) ([]types.Datum, error) {
	if _, err := c.rd.decodeStored(h, value, c.stored); err != nil {
		return nil, err
	}
	for i, col := range c.inputs {
		c.full[col.Offset] = c.stored[i]
	}
	if err := c.plan.Fill(c.full); err != nil {
		return nil, fmt.Errorf("row %s of table %s: %w", h, c.rd.table.meta.Name.O, err)
	}
	var err error
	for i, col := range c.rd.cols {
		if row[i], err = localDefault(c.full[col.Offset], c.rd.loc); err != nil {
			return nil, err
		}
	}
	return row, nil
}
