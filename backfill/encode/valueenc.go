package encode

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/collate"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/pingcap/tidb/pkg/util/stringutil"

	"fastddl/kv"
)

// minRestoredValue is the length to which index values with restored data but
// without handle are padded, to tell them from the oldest layout.
const minRestoredValue = 10

// valueEncoder appends the value of an index entry. The layouts are those of
// tablecodec.GenIndexValuePortal; taken apart here so that nothing is
// allocated per row, and what does not depend on the row is done once.
//
//	integer handles:           '0' | handle
//	  with restored data:      tail restored [padding] [handle]
//	clustered (version 1):     0 flag version [handle] [restored]
//
// Restored data are column values that the key does not hold exactly, because
// of their collation.
type valueEncoder struct {
	commonHandle bool
	// restored are the columns whose values are stored, restoredIDs their IDs.
	restored    []restoredColumn
	restoredIDs []int64

	datums []types.Datum
	row    rowcodec.Encoder
}

// restoredColumn is one column of the restored data.
type restoredColumn struct {
	info     *model.ColumnInfo
	position int
	// prefix cuts the value as the index does.
	prefix *model.IndexColumn
	// spaces stores the number of trailing spaces instead of the value: all that
	// a binary collation leaves out of the key. signed is the type it is stored as.
	spaces, signed bool
}

func newValueEncoder(p *Projection, index *model.IndexInfo, keys []keyColumn) valueEncoder {
	table := p.table
	e := valueEncoder{commonHandle: table.IsCommonHandle, row: rowcodec.Encoder{Enable: true}}
	needs := func(k keyColumn) bool { return types.ColumnNeedRestoredData(k.index, table.Columns) }
	if !table.IsCommonHandle {
		if slices.ContainsFunc(keys, needs) {
			for _, k := range keys {
				e.add(restoredColumn{info: k.info, position: k.position, prefix: k.index})
			}
		}
		return e
	}
	for _, k := range keys {
		if needs(k) && !mysql.HasPriKeyFlag(k.info.GetFlag()) {
			collation := model.GetIdxChangingFieldType(k.index, k.info).GetCollate()
			e.add(restoredColumn{
				info: k.info, position: k.position, prefix: k.index,
				spaces: collate.IsBinCollation(collation),
			})
		}
	}
	for _, h := range restoredHandleColumns(table) {
		e.add(restoredColumn{
			info: h.info, position: p.position[h.info.ID], prefix: longerPrefix(h.index, index),
			spaces: collate.IsBinCollation(h.info.GetCollate()), signed: true,
		})
	}
	return e
}

func (e *valueEncoder) add(c restoredColumn) {
	e.restored = append(e.restored, c)
	e.restoredIDs = append(e.restoredIDs, c.info.ID)
	e.datums = append(e.datums, types.Datum{})
}

// longerPrefix returns the one of a primary key's column and the same column
// in an index that keeps more of the value.
func longerPrefix(pk *model.IndexColumn, index *model.IndexInfo) *model.IndexColumn {
	for _, ic := range index.Columns {
		if ic.Offset != pk.Offset {
			continue
		}
		if pk.Length != types.UnspecifiedLength && (ic.Length == types.UnspecifiedLength || ic.Length > pk.Length) {
			return ic
		}
		break
	}
	return pk
}

// append appends the value of row i's entry.
func (e *valueEncoder) append(b []byte, batch *kv.RowBatch, i int, distinct bool) ([]byte, error) {
	switch {
	case e.commonHandle:
		return e.appendClustered(b, batch, i, distinct)
	case len(e.restored) > 0:
		return e.appendRestored(b, batch, i, distinct)
	case distinct:
		return binary.BigEndian.AppendUint64(b, uint64(batch.IntHandles[i])), nil
	default:
		return append(b, '0'), nil
	}
}

func (e *valueEncoder) appendRestored(b []byte, batch *kv.RowBatch, i int, distinct bool) ([]byte, error) {
	start := len(b)
	b, err := e.appendColumns(append(b, 0), batch, i)
	if err != nil {
		return nil, err
	}
	tail := len(b)
	if distinct {
		b = binary.BigEndian.AppendUint64(b, uint64(batch.IntHandles[i]))
	} else {
		for len(b)-start < minRestoredValue {
			b = append(b, 0)
		}
	}
	b[start] = byte(len(b) - tail)
	return b, nil
}

func (e *valueEncoder) appendClustered(b []byte, batch *kv.RowBatch, i int, distinct bool) ([]byte, error) {
	b = append(b, 0, tablecodec.IndexVersionFlag, 1)
	if distinct {
		handle := batch.CommonHandle(i)
		b = append(b, tablecodec.CommonHandleFlag)
		b = binary.BigEndian.AppendUint16(b, uint16(len(handle)))
		b = append(b, handle...)
	}
	if len(e.restored) == 0 {
		return b, nil
	}
	return e.appendColumns(b, batch, i)
}

// appendColumns appends the restored data.
func (e *valueEncoder) appendColumns(b []byte, batch *kv.RowBatch, i int) ([]byte, error) {
	for k := range e.restored {
		c, d := &e.restored[k], &e.datums[k]
		batch.Rows.GetRow(i).DatumWithBuffer(c.position, &c.info.FieldType, d)
		tablecodec.TruncateIndexValue(d, c.prefix, c.info)
		if c.spaces {
			c.countSpaces(d)
		}
	}
	return e.row.Encode(time.UTC, e.restoredIDs, e.datums, nil, b)
}

// countSpaces replaces a string by the number of its trailing spaces, and NULL
// by none.
func (c *restoredColumn) countSpaces(d *types.Datum) {
	n := int64(0)
	if !d.IsNull() {
		n = stringutil.GetTailSpaceCount(d.GetString())
	}
	if c.signed {
		d.SetInt64(n)
	} else {
		d.SetUint64(uint64(n))
	}
}
