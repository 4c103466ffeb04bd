package table

import (
	"context"
	"fmt"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"

	"fastddl/kv"
)

// coveringDecoder reads rows from index entries alone.
type coveringDecoder struct {
	rd  *Reader
	idx *model.IndexInfo
	// columns are the index's columns and then the handle's, as
	// tablecodec.DecodeIndexKV wants them.
	columns []rowcodec.ColInfo
	status  tablecodec.HandleStatus
	// from says in which of columns each wanted column is found.
	from []int
}

// newCoveringDecoder returns nil if the index does not hold all columns that
// the reader wants.
func newCoveringDecoder(rd *Reader, idx *model.IndexInfo) *coveringDecoder {
	t := rd.table
	c := &coveringDecoder{rd: rd, idx: idx, status: tablecodec.HandleNotNeeded}
	at := make(map[int64]int)
	for i, col := range idx.Columns {
		info := t.meta.Columns[col.Offset]
		c.columns = append(c.columns, t.rowCols[col.Offset])
		if col.Length == types.UnspecifiedLength {
			at[info.ID] = i
		}
	}
	c.addHandleColumns(at)
	for _, col := range rd.cols {
		i, ok := at[col.ID]
		if !ok {
			return nil
		}
		c.from = append(c.from, i)
	}
	return c
}

func (c *coveringDecoder) addHandleColumns(at map[int64]int) {
	t := c.rd.table
	if t.HasHiddenRowID() {
		return
	}
	c.status = tablecodec.HandleDefault
	if t.pkOffset >= 0 && mysql.HasUnsignedFlag(t.meta.Columns[t.pkOffset].GetFlag()) {
		c.status = tablecodec.HandleIsUnsigned
	}
	whole := func(int) bool { return true }
	if t.meta.IsCommonHandle {
		whole = func(i int) bool { return t.pk.Columns[i].Length == types.UnspecifiedLength }
	}
	for i, id := range t.handleColIDs {
		for _, col := range t.rowCols {
			if col.ID != id {
				continue
			}
			if _, ok := at[id]; !ok && whole(i) {
				at[id] = len(c.columns)
			}
			c.columns = append(c.columns, col)
		}
	}
}

func (c *coveringDecoder) decode(_ context.Context, it kv.Iterator, row []types.Datum) (tkv.Handle, []types.Datum, error) {
	h, err := c.rd.table.handleOfEntry(c.idx, it.Key(), it.Value())
	if err != nil {
		return nil, nil, err
	}
	values, err := tablecodec.DecodeIndexKV(it.Key(), it.Value(), len(c.idx.Columns), c.status, c.columns)
	if err != nil {
		return nil, nil, c.wrap(err)
	}
	for i, from := range c.from {
		// Strings are cut out of the iterator's key, which does not last.
		row[i], err = tablecodec.DecodeColumnValue(values[from], c.columns[from].Ft, c.rd.loc)
		if err != nil {
			return nil, nil, c.wrap(err)
		}
	}
	return h, row, nil
}

func (c *coveringDecoder) wrap(err error) error {
	return fmt.Errorf("decode entry of index %s of table %s: %w", c.idx.Name.O, c.rd.table.meta.Name.O, err)
}
