package encode

import (
	"fmt"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"

	"fastddl/kv"
)

// RowEncoder gives single rows the entries that a build gives them. It must be
// used by one goroutine.
type RowEncoder struct {
	p      *Projection
	enc    *Encoders
	fields map[int64]*types.FieldType
}

// NewLibraryRowEncoder returns an encoder that leaves the entries of all indexes to TiDB's package
// tables.
func NewLibraryRowEncoder(task Task) (*RowEncoder, error) {
	r, err := NewRowEncoder(task)
	if err != nil {
		return nil, err
	}
	for _, e := range r.enc.Indexes {
		e.library = newLibraryEncoder(r.p, e.index)
	}
	return r, nil
}

// NewRowEncoder returns an encoder of entries of the task's indexes. Its TS is not
// needed.
func NewRowEncoder(task Task) (*RowEncoder, error) {
	p, err := NewProjection(&task)
	if err != nil {
		return nil, err
	}
	enc, err := NewEncoders(p)
	if err != nil {
		return nil, err
	}
	r := &RowEncoder{p: p, enc: enc, fields: make(map[int64]*types.FieldType)}
	for _, col := range p.columns {
		r.fields[col.ID] = col.Ft
	}
	return r, nil
}

// Encode returns the entries of the row that is stored as value under recordKey.
func (r *RowEncoder) Encode(recordKey, value []byte) ([]Entry, error) {
	physicalID, handle, err := tablecodec.DecodeRecordKey(recordKey)
	if err != nil {
		return nil, fmt.Errorf("backfill: record key %x: %w", recordKey, err)
	}
	batch, err := r.decode(handle, value)
	if err != nil {
		return nil, fmt.Errorf("backfill: row at %x: %w", recordKey, err)
	}
	if err := r.enc.Bind(batch, physicalID); err != nil {
		return nil, err
	}
	var entries []Entry
	for k, enc := range r.enc.Indexes {
		idx := r.p.indexes[k]
		id := IndexIDs(r.p.table, idx, []int64{physicalID})[0]
		err := enc.Encode(func(_ int, kv []byte, klen int) error {
			key := append(IndexPrefix(id, idx.ID), kv[:klen]...)
			entries = append(entries, Entry{idx.ID, key, append([]byte{}, kv[klen:]...)})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// decode returns a batch of one row.
func (r *RowEncoder) decode(handle tkv.Handle, value []byte) (*kv.RowBatch, error) {
	row, err := tablecodec.DecodeRowToDatumMap(value, r.fields, time.UTC)
	if err != nil {
		return nil, err
	}
	if row, err = tablecodec.DecodeHandleToDatumMap(handle, r.p.handles, r.fields, time.UTC, row); err != nil {
		return nil, err
	}
	types := make([]*types.FieldType, len(r.p.columns))
	for i, col := range r.p.columns {
		types[i] = col.Ft
	}
	b := &kv.RowBatch{Rows: chunk.NewChunkWithCapacity(types, 1)}
	for i, col := range r.p.columns {
		d, ok := row[col.ID]
		if !ok {
			d = r.p.defaults[i]
		}
		b.Rows.AppendDatum(i, &d)
	}
	if len(types) == 0 {
		b.Rows.SetNumVirtualRows(1)
	}
	if r.p.table.IsCommonHandle {
		b.CommonHandles, b.HandleOffsets = handle.Encoded(), []uint32{0, uint32(len(handle.Encoded()))}
	} else {
		b.IntHandles = []int64{handle.IntValue()}
	}
	return b, nil
}
