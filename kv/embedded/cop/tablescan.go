package cop

import (
	"errors"
	"fmt"
	"slices"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/pingcap/tipb/go-tipb"
)

// rowDecoder decodes the wanted columns of rows, in either row format, from the value, the key and the columns' defaults.
type rowDecoder struct {
	cols    []*tipb.ColumnInfo
	fields  []*types.FieldType
	loc     *time.Location
	ids     []int64 // of the columns; that of an integer handle is always ExtraHandleID
	handles []int64 // IDs of the columns that the key holds
	decoder *rowcodec.ChunkDecoder

	common      bool // the key holds encoded columns, not one integer
	needHandle  bool
	intHandle   intHandle
	commHandle  commonHandle
	tableID     int64
	physicalIdx int // where the ID of the table or partition goes, -1 if it is not wanted

	absent  []int         // rows without the column, by column; nil if they are not counted
	offsets map[int64]int // column ID to offset, for rows in the old format; made when the first is met
	raw     [][]byte
}

// intHandle and commonHandle are handles that are set anew for each row, which saves an allocation. The decoder of a row asks
// a handle for nothing but IsInt, IntValue and EncodedCol.
type intHandle struct {
	tidbkv.IntHandle
}

type commonHandle struct {
	tidbkv.Handle
	cols [][]byte
}

func (*commonHandle) IsInt() bool { return false }

func (h *commonHandle) NumCols() int { return len(h.cols) }

func (h *commonHandle) EncodedCol(i int) []byte { return h.cols[i] }

// set splits the encoded columns of a key.
func (h *commonHandle) set(encoded []byte) error {
	h.cols = h.cols[:0]
	for len(encoded) > 0 {
		col, rest, err := codec.CutOne(encoded)
		if err != nil {
			return err
		}
		h.cols = append(h.cols, col)
		encoded = rest
	}
	return nil
}

// newRowDecoder makes a decoder of the columns. primary are the IDs of the columns of a clustered primary key that is not one
// integer, none otherwise.
func newRowDecoder(cols []*tipb.ColumnInfo, primary []int64, loc *time.Location) *rowDecoder {
	d := &rowDecoder{cols: cols, fields: fieldTypes(cols), loc: loc, common: len(primary) > 0, physicalIdx: -1}
	d.handles = primary
	if !d.common {
		d.handles = []int64{model.ExtraHandleID}
	}
	infos := columnInfos(cols, d.fields)
	for i, col := range cols {
		switch {
		case col.PkHandle && !d.common:
			// The handle is the key's, as in TiKV. A row that MODIFY COLUMN has rewritten repeats it as a value of the
			// column's type, which need not be the one that is asked for.
			infos[i].ID = model.ExtraHandleID
		case col.ColumnId == model.ExtraPhysTblID:
			d.physicalIdx = i
		}
		d.ids = append(d.ids, infos[i].ID)
		d.needHandle = d.needHandle || slices.Contains(d.handles, infos[i].ID)
	}
	d.decoder = rowcodec.NewChunkDecoder(infos, d.handles, d.appendAbsent, loc)
	return d
}

// decode implements pairDecoder.
func (d *rowDecoder) decode(key, value []byte, batch *chunk.Chunk) error {
	if len(value) == 0 {
		return errors.New("the row is empty")
	}
	handle, err := d.handle(key)
	if err != nil {
		return err
	}
	if d.physicalIdx >= 0 {
		d.tableID = tablecodec.DecodeTableID(key)
	}
	if rowcodec.IsNewFormat(value) {
		return d.decoder.DecodeToChunk(value, handle, batch)
	}
	return d.decodeOld(value, handle, batch)
}

// handle returns the handle in the key, nil if no column of it is wanted.
func (d *rowDecoder) handle(key []byte) (tidbkv.Handle, error) {
	if !d.needHandle {
		return nil, nil
	}
	if len(key) < tablecodec.RecordRowKeyLen {
		return nil, errors.New("the key is too short to be that of a row")
	}
	encoded := key[tablecodec.RecordRowKeyLen-8:]
	if d.common {
		if err := d.commHandle.set(encoded); err != nil {
			return nil, fmt.Errorf("handle: %w", err)
		}
		if len(d.commHandle.cols) < len(d.handles) {
			return nil, fmt.Errorf("handle of %d columns, not %d", len(d.commHandle.cols), len(d.handles))
		}
		return &d.commHandle, nil
	}
	_, v, err := codec.DecodeInt(encoded)
	if err != nil {
		return nil, fmt.Errorf("handle: %w", err)
	}
	d.intHandle.IntHandle = tidbkv.IntHandle(v)
	return &d.intHandle, nil
}

// appendAbsent appends the value of a column that neither value nor key holds.
func (d *rowDecoder) appendAbsent(i int, batch *chunk.Chunk) error {
	if i == d.physicalIdx {
		batch.AppendInt64(i, d.tableID)
		return nil
	}
	if d.absent != nil {
		d.absent[i]++
	}
	return appendDefault(batch, i, d.cols[i], d.fields[i], d.loc)
}

// decodeOld decodes a row of pairs of column ID and datum, the only format before TiDB 4.0 and still written if a session
// asks for it.
func (d *rowDecoder) decodeOld(value []byte, handle tidbkv.Handle, batch *chunk.Chunk) error {
	if err := d.splitOld(value); err != nil {
		return fmt.Errorf("row in the old format: %w", err)
	}
	dec := codec.NewDecoder(batch, d.loc)
	for i, id := range d.ids {
		if d.raw[i] != nil {
			if _, err := dec.DecodeOne(d.raw[i], i, d.fields[i]); err != nil {
				return err
			}
			continue
		}
		if k := slices.Index(d.handles, id); k >= 0 {
			if handle.IsInt() {
				batch.AppendInt64(i, handle.IntValue())
			} else if _, err := dec.DecodeOne(handle.EncodedCol(k), i, d.fields[i]); err != nil {
				return err
			}
			continue
		}
		if err := d.appendAbsent(i, batch); err != nil {
			return err
		}
	}
	return nil
}

// splitOld fills raw with the wanted columns' datums, nil for those that the row does not hold.
func (d *rowDecoder) splitOld(value []byte) error {
	if d.offsets == nil {
		d.offsets = make(map[int64]int, len(d.cols))
		for i, id := range d.ids {
			d.offsets[id] = i
		}
		d.raw = make([][]byte, len(d.cols))
	}
	clear(d.raw)
	if len(value) == 1 && value[0] == codec.NilFlag {
		return nil // a row without columns
	}
	for len(value) > 0 {
		rest, id, err := codec.DecodeOne(value)
		if err != nil {
			return err
		}
		datum, rest, err := codec.CutOne(rest)
		if err != nil {
			return err
		}
		if i, ok := d.offsets[id.GetInt64()]; ok {
			d.raw[i] = datum
		}
		value = rest
	}
	return nil
}
