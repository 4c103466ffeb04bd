package pebblekv

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/rowcodec"

	"fastddl/kv"
)

// recordPrefixLen is the length of t{tableID}_r, after which a record key
// holds the handle.
const recordPrefixLen = 1 + 8 + 2

// rowDecoder decodes rows into a batch that is used again and again.
type rowDecoder struct {
	req      kv.ScanRequest
	capacity int
	rows     int
	batch    kv.RowBatch
	lastKey  []byte

	// The integer handle is not in the row. Columns that are the handle are
	// appended here; the library's decoder sees only the others, through a chunk
	// that shares their columns with the batch.
	handleCols []int
	valueCols  []int
	values     *chunk.Chunk
	decoder    *rowcodec.ChunkDecoder

	// handle is what the decoder reads key columns from that a row of a table
	// with a common handle does not repeat; nil if none is asked for.
	handle *keyHandle
	old    *oldRowDecoder
}

func newRowDecoder(req kv.ScanRequest) (*rowDecoder, error) {
	if len(req.Defaults) != 0 && len(req.Defaults) != len(req.Columns) {
		return nil, fmt.Errorf("pebblekv: scan has %d columns but %d defaults", len(req.Columns), len(req.Defaults))
	}
	d := &rowDecoder{req: req, capacity: req.BatchRows}
	if d.capacity <= 0 {
		d.capacity = defaultBatchRows
	}
	fields := make([]*types.FieldType, len(req.Columns))
	var valueInfos []rowcodec.ColInfo
	for i, col := range req.Columns {
		fields[i] = col.Ft
		if d.isIntHandle(col) {
			d.handleCols = append(d.handleCols, i)
			continue
		}
		d.valueCols = append(d.valueCols, i)
		valueInfos = append(valueInfos, col)
	}
	d.batch.Rows = chunk.NewChunkWithCapacity(fields, d.capacity)
	d.values = d.batch.Rows.Prune(d.valueCols)
	if req.CommonHandle && slices.ContainsFunc(req.Columns, func(c rowcodec.ColInfo) bool {
		return slices.Contains(req.HandleColIDs, c.ID)
	}) {
		d.handle = &keyHandle{}
	}
	d.decoder = rowcodec.NewChunkDecoder(valueInfos, req.HandleColIDs, d.appendDefault, d.location())
	return d, nil
}

func (d *rowDecoder) isIntHandle(col rowcodec.ColInfo) bool {
	return !d.req.CommonHandle &&
		(col.IsPKHandle || len(d.req.HandleColIDs) == 1 && col.ID == d.req.HandleColIDs[0])
}

// location is nil where it may be, for no conversion is cheaper than one from UTC to UTC.
// Columns read from handles are always converted.
func (d *rowDecoder) location() *time.Location {
	if d.handle == nil {
		return nil
	}
	return time.UTC
}

// appendDefault appends the value that value column i has in rows without it.
func (d *rowDecoder) appendDefault(i int, chk *chunk.Chunk) error {
	if len(d.req.Defaults) == 0 {
		chk.AppendNull(i)
		return nil
	}
	chk.AppendDatum(i, &d.req.Defaults[d.valueCols[i]])
	return nil
}

// reset empties the batch.
func (d *rowDecoder) reset() {
	d.rows = 0
	b := &d.batch
	b.Rows.Reset()
	b.IntHandles = b.IntHandles[:0]
	b.CommonHandles = b.CommonHandles[:0]
	b.HandleOffsets = append(b.HandleOffsets[:0], 0)
	b.Bytes = 0
}

// finish returns the batch, whose last row has the given key.
func (d *rowDecoder) finish(lastKey []byte) *kv.RowBatch {
	d.batch.LastKey = lastKey
	if len(d.req.Columns) == 0 {
		d.batch.Rows.SetNumVirtualRows(d.rows)
	}
	return &d.batch
}

// full says that the batch is to be handed out.
func (d *rowDecoder) full() bool {
	return d.rows == d.capacity || d.batch.Bytes >= kv.MaxBatchBytes
}

// add decodes one row.
func (d *rowDecoder) add(key, value []byte) error {
	if err := d.addHandle(key); err != nil {
		return err
	}
	d.rows++
	d.batch.Bytes += len(key) + len(value)
	if len(d.valueCols) == 0 {
		return nil
	}
	if err := d.decode(value); err != nil {
		return fmt.Errorf("pebblekv: decoding the row at %x: %w", key, err)
	}
	return nil
}

// decode appends the values of one row. The library reads beyond the end of a damaged row
// and panics; that becomes an error, and the batch is lost.
func (d *rowDecoder) decode(value []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the row is damaged: %v", r)
		}
	}()
	switch {
	case !rowcodec.IsNewFormat(value):
		return d.addOldRow(value)
	case d.handle != nil:
		return d.decoder.DecodeToChunk(value, d.handle, d.values)
	}
	return d.decoder.DecodeToChunk(value, nil, d.values)
}

// addHandle appends the row's handle and the columns that are the handle.
func (d *rowDecoder) addHandle(key []byte) error {
	if len(key) <= recordPrefixLen {
		return fmt.Errorf("pebblekv: %x is not a record key", key)
	}
	encoded := key[recordPrefixLen:]
	b := &d.batch
	if d.req.CommonHandle {
		b.CommonHandles = append(b.CommonHandles, encoded...)
		b.HandleOffsets = append(b.HandleOffsets, uint32(len(b.CommonHandles)))
		if d.handle != nil {
			return d.handle.set(encoded)
		}
		return nil
	}
	if len(encoded) != 8 {
		return fmt.Errorf("pebblekv: record key %x does not hold an integer handle", key)
	}
	handle := codec.DecodeCmpUintToInt(binary.BigEndian.Uint64(encoded))
	b.IntHandles = append(b.IntHandles, handle)
	for _, i := range d.handleCols {
		b.Rows.AppendInt64(i, handle)
	}
	return nil
}

// keyHandle is a common handle over the bytes of a record key. Of tkv.Handle
// it has what rowcodec's decoder calls, and it is set anew for each row instead
// of being allocated.
type keyHandle struct {
	tkv.Handle
	encoded []byte
	ends    []int
}

func (h *keyHandle) set(encoded []byte) error {
	h.encoded, h.ends = encoded, h.ends[:0]
	for rest := encoded; len(rest) > 0; {
		_, tail, err := codec.CutOne(rest)
		if err != nil {
			return fmt.Errorf("pebblekv: common handle %x: %w", encoded, err)
		}
		rest = tail
		h.ends = append(h.ends, len(encoded)-len(rest))
	}
	return nil
}

func (h *keyHandle) IsInt() bool { return false }

func (h *keyHandle) EncodedCol(i int) []byte {
	start := 0
	if i > 0 {
		start = h.ends[i-1]
	}
	return h.encoded[start:h.ends[i]]
}

// oldRowDecoder decodes rows of TiDB's first row format, through datums.
type oldRowDecoder struct {
	fields map[int64]*types.FieldType
	row    map[int64]types.Datum
}

func newOldRowDecoder(req kv.ScanRequest) *oldRowDecoder {
	o := &oldRowDecoder{fields: make(map[int64]*types.FieldType), row: make(map[int64]types.Datum)}
	for _, col := range req.Columns {
		o.fields[col.ID] = col.Ft
	}
	return o
}

func (d *rowDecoder) addOldRow(value []byte) error {
	if d.old == nil {
		d.old = newOldRowDecoder(d.req)
	}
	o := d.old
	clear(o.row)
	if _, err := tablecodec.DecodeRowWithMap(value, o.fields, time.UTC, o.row); err != nil {
		return err
	}
	if d.handle != nil {
		handle, err := tkv.NewCommonHandle(d.handle.encoded)
		if err != nil {
			return err
		}
		if _, err := tablecodec.DecodeHandleToDatumMap(handle, d.req.HandleColIDs, o.fields, time.UTC, o.row); err != nil {
			return err
		}
	}
	for i, col := range d.valueCols {
		datum, ok := o.row[d.req.Columns[col].ID]
		if !ok {
			if err := d.appendDefault(i, d.values); err != nil {
				return err
			}
			continue
		}
		d.values.AppendDatum(i, &datum)
	}
	return nil
}
