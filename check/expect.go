package check

import (
	"fmt"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/table"
)

// columns decodes rows into datums over all columns of a table.
type columns struct {
	tbl      *model.TableInfo
	fields   map[int64]*types.FieldType
	handle   []int64 // IDs of the columns the handle is made of
	defaults []types.Datum
}

func newColumns(tbl *model.TableInfo) (*columns, error) {
	c := &columns{tbl: tbl, fields: make(map[int64]*types.FieldType), defaults: make([]types.Datum, len(tbl.Columns))}
	for i, col := range tbl.Columns {
		c.fields[col.ID] = &col.FieldType
		var err error
		if c.defaults[i], err = table.OriginDefault(col); err != nil {
			return nil, err
		}
	}
	switch {
	case tbl.PKIsHandle:
		c.handle = []int64{tbl.GetPkColInfo().ID}
	case tbl.IsCommonHandle:
		for _, col := range tbl.GetPrimaryKey().Columns {
			c.handle = append(c.handle, tbl.Columns[col.Offset].ID)
		}
	}
	return c, nil
}

// decode returns the handle and the columns of a stored row.
func (c *columns) decode(key, value []byte) (tkv.Handle, []types.Datum, error) {
	h, err := tablecodec.DecodeRowKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("decode row key %x: %w", key, err)
	}
	row, err := c.decodeRow(h, value)
	return h, row, err
}

func (c *columns) decodeRow(h tkv.Handle, value []byte) (row []types.Datum, err error) {
	// The library trusts what it decodes and panics on bytes that are no row.
	defer func() {
		if p := recover(); p != nil {
			row, err = nil, fmt.Errorf("decode row %s of table %s: %v", h, c.tbl.Name.O, p)
		}
	}()
	values, err := tablecodec.DecodeRowToDatumMap(value, c.fields, time.UTC)
	if err == nil && c.handle != nil {
		values, err = tablecodec.DecodeHandleToDatumMap(h, c.handle, c.fields, time.UTC, values)
	}
	if err != nil {
		return nil, fmt.Errorf("decode row %s of table %s: %w", h, c.tbl.Name.O, err)
	}
	row = make([]types.Datum, len(c.tbl.Columns))
	for i, col := range c.tbl.Columns {
		d, ok := values[col.ID]
		if !ok {
			d = c.defaults[i]
		}
		if d.Kind() == types.KindString {
			d.SetString(d.GetString(), col.GetCollate())
		}
		row[i] = d
	}
	return row, nil
}

// entry returns the entry of idx that a row gives.
func (c *columns) entry(idx *model.IndexInfo, h tkv.Handle, row []types.Datum) (key, value []byte, err error) {
	values := indexed(idx, row)
	key, distinct, err := tablecodec.GenIndexKey(time.UTC, c.tbl, idx, c.tbl.ID, values, h, nil)
	if err == nil {
		value, err = tablecodec.GenIndexValuePortal(time.UTC, c.tbl, idx, table.NeedRestoredData(c.tbl, idx), distinct, false,
			values, h, 0, table.HandleRestoredData(c.tbl, idx, row), nil)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("encode entry of index %s for row %s: %w", idx.Name.O, h, err)
	}
	return key, value, nil
}

// indexed returns the values of the index's columns.
func indexed(idx *model.IndexInfo, row []types.Datum) []types.Datum {
	values := make([]types.Datum, len(idx.Columns))
	for i, col := range idx.Columns {
		values[i] = row[col.Offset]
	}
	return values
}
