package cop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/rowcodec"
	"github.com/pingcap/tipb/go-tipb"
)

// indexPrefixLen is the length of an index key before its columns: table ID and index ID with their markers. It equals the
// length of a row's key with an integer handle, which has the handle in the place of the index ID.
const indexPrefixLen = tablecodec.RecordRowKeyLen

// indexDecoder decodes index entries. A scan's columns are those of the index, then those of the handle, if requested,
// then the ID of the table or partition, if requested.
type indexDecoder struct {
	infos       []rowcodec.ColInfo
	fields      []*types.FieldType
	loc         *time.Location
	indexCols   int
	handleCols  int  // requested columns of the handle, 0 if none
	common      bool // the handle is a clustered key that is not one integer
	status      tablecodec.HandleStatus
	physicalIdx int // as in rowDecoder

	batch    *chunk.Chunk // that decoder appends to
	decoder  *codec.Decoder
	restored *rowcodec.ChunkDecoder // of the index's columns as they are in a value
}

// newIndexDecoder returns a decoder of the columns that the scan requests.
func newIndexDecoder(pb *tipb.IndexScan, loc *time.Location) (*indexDecoder, error) {
	if len(pb.Columns) == 0 {
		return nil, errors.New("scan without columns")
	}
	n := len(pb.Columns)
	d := &indexDecoder{fields: fieldTypes(pb.Columns), loc: loc, physicalIdx: -1}
	d.infos = columnInfos(pb.Columns, d.fields)
	if pb.Columns[n-1].ColumnId == model.ExtraPhysTblID {
		n--
		d.physicalIdx = n
	}
	if n == 0 {
		return nil, errors.New("index scan of nothing but the table's ID")
	}
	last := pb.Columns[n-1]
	switch {
	case len(pb.PrimaryColumnIds) > 0:
		d.handleCols, d.common = len(pb.PrimaryColumnIds), true
	case last.PkHandle:
		d.handleCols = 1
		if mysql.HasUnsignedFlag(uint(last.Flag)) {
			d.status = tablecodec.HandleIsUnsigned
		}
	case last.ColumnId == model.ExtraHandleID:
		d.handleCols = 1
	}
	if d.handleCols == 0 && d.physicalIdx < 0 {
		d.status = tablecodec.HandleNotNeeded
	}
	if d.indexCols = n - d.handleCols; d.indexCols < 0 {
		return nil, fmt.Errorf("index scan of %d columns for a handle of %d", n, d.handleCols)
	}
	d.restored = rowcodec.NewChunkDecoder(d.infos[:d.indexCols], nil, nil, loc)
	return d, nil
}

// decode implements pairDecoder.
func (d *indexDecoder) decode(key, value []byte, batch *chunk.Chunk) error {
	if d.batch != batch {
		d.batch, d.decoder = batch, codec.NewDecoder(batch, d.loc)
	}
	if len(key) < indexPrefixLen {
		return errors.New("the key is too short to be that of an index entry")
	}
	partition, err := d.decodeEntry(key, value)
	if err != nil || d.physicalIdx < 0 {
		return err
	}
	id := tablecodec.DecodeTableID(key)
	if partition != nil { // an index over all partitions has the table's ID in its keys
		if _, id, err = codec.DecodeInt(partition); err != nil {
			return err
		}
	}
	batch.AppendInt64(d.physicalIdx, id)
	return nil
}

// decodeEntry decodes the columns of the index and the handle. It returns the encoded ID of the partition if the entry has one.
func (d *indexDecoder) decodeEntry(key, value []byte) (partition []byte, err error) {
	if len(value) <= tablecodec.MaxOldEncodeValueLen {
		return nil, d.decodePlain(key, value)
	}
	segs := tablecodec.SplitIndexValue(value)
	if segs.CommonHandle != nil && !d.common {
		return nil, errors.New("the entry has a handle of several columns, which the request does not ask for") // as TiKV
	}
	clustered := value[0] <= 1 && value[1] == tablecodec.IndexVersionFlag
	if clustered && segs.RestoredValues != nil {
		return segs.PartitionID, d.decodeGeneral(key, value)
	}
	return segs.PartitionID, d.decodeSegments(key, segs)
}

// decodePlain decodes an entry whose columns are all in the key; the handle follows them, or it is the value.
func (d *indexDecoder) decodePlain(key, value []byte) error {
	rest, err := d.decodeColumns(key[indexPrefixLen:], 0, d.indexCols)
	if err != nil {
		return err
	}
	if d.handleCols > 0 && len(rest) == 0 {
		return d.decodeIntHandle(value)
	}
	_, err = d.decodeColumns(rest, d.indexCols, d.indexCols+d.handleCols)
	return err
}

// decodeSegments decodes an entry of which the value holds the handle of a unique index, or the columns as they were before
// their collations made keys of them, or both.
func (d *indexDecoder) decodeSegments(key []byte, segs tablecodec.IndexValueSegments) error {
	rest := key[indexPrefixLen:]
	var err error
	if segs.RestoredValues == nil {
		if rest, err = d.decodeColumns(rest, 0, d.indexCols); err != nil {
			return err
		}
	} else {
		if err := d.restored.DecodeToChunk(segs.RestoredValues, nil, d.batch); err != nil {
			return err
		}
		for range d.indexCols {
			if _, rest, err = codec.CutOne(rest); err != nil {
				return err
			}
		}
	}
	switch {
	case d.handleCols == 0:
		return nil
	case segs.IntHandle != nil:
		return d.decodeIntHandle(segs.IntHandle)
	case segs.CommonHandle != nil:
		rest = segs.CommonHandle
	}
	_, err = d.decodeColumns(rest, d.indexCols, d.indexCols+d.handleCols)
	return err
}

// decodeColumns decodes the columns [from, to) and returns what follows them.
func (d *indexDecoder) decodeColumns(encoded []byte, from, to int) ([]byte, error) {
	var err error
	for i := from; i < to; i++ {
		if encoded, err = d.decoder.DecodeOne(encoded, i, d.fields[i]); err != nil {
			return nil, err
		}
	}
	return encoded, nil
}

func (d *indexDecoder) decodeIntHandle(value []byte) error {
	if len(value) < 8 {
		return errors.New("the entry holds no handle")
	}
	d.batch.AppendInt64(d.indexCols, int64(binary.BigEndian.Uint64(value)))
	return nil
}

// decodeGeneral decodes an entry of a table with a clustered key, some of whose columns, or of the key's, are only in part in
// the entry's key.
func (d *indexDecoder) decodeGeneral(key, value []byte) error {
	values, err := tablecodec.DecodeIndexKV(key, value, d.indexCols, d.status, d.infos)
	if err != nil {
		return err
	}
	for i := range d.indexCols + d.handleCols {
		if i >= len(values) {
			return fmt.Errorf("the entry has %d columns, not %d", len(values), d.indexCols+d.handleCols)
		}
		if _, err := d.decoder.DecodeOne(values[i], i, d.fields[i]); err != nil {
			return err
		}
	}
	return nil
}
