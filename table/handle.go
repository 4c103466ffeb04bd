package table

import (
	"fmt"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
)

// HandleOf returns the handle of a row of a clustered table.
func (t *Table) HandleOf(row []types.Datum) (tkv.Handle, error) {
	full, err := t.fullRow(row, t.defaults)
	if err != nil {
		return nil, err
	}
	return t.handleOfFull(full)
}

func (t *Table) handleOfFull(row []types.Datum) (tkv.Handle, error) {
	switch {
	case t.meta.PKIsHandle:
		// An unsigned key's handle has the same bits.
		return tkv.IntHandle(row[t.pkOffset].GetInt64()), nil
	case t.meta.IsCommonHandle:
		values := make([]types.Datum, len(t.pk.Columns))
		for i, col := range t.pk.Columns {
			values[i] = row[col.Offset]
		}
		tablecodec.TruncateIndexValues(t.meta, t.pk, values)
		encoded, err := codec.EncodeKey(time.UTC, nil, values...)
		if err != nil {
			return nil, fmt.Errorf("encode handle: %w", err)
		}
		return tkv.NewCommonHandle(encoded)
	default:
		return nil, fmt.Errorf("table %s has no clustered primary key", t.meta.Name.O)
	}
}

// RecordKey returns the key of the row with the given handle.
func (t *Table) RecordKey(h tkv.Handle) []byte {
	return tablecodec.EncodeRowKeyWithHandle(t.meta.ID, h)
}

// handleOfKey returns the handle in a record key. It keeps nothing of the key,
// which may be an iterator's; the library's common handles are slices of what
// they are decoded from.
func (t *Table) handleOfKey(key []byte) (tkv.Handle, error) {
	h, err := tablecodec.DecodeRowKey(key)
	if err != nil {
		return nil, fmt.Errorf("decode row key %x of table %s: %w", key, t.meta.Name.O, err)
	}
	return t.own(h), nil
}

// handleOfEntry returns the handle in an index entry, and keeps nothing of it.
func (t *Table) handleOfEntry(idx *model.IndexInfo, key, value []byte) (tkv.Handle, error) {
	h, err := tablecodec.DecodeIndexHandle(key, value, len(idx.Columns))
	if err != nil {
		return nil, fmt.Errorf("decode entry %x of index %s of table %s: %w", key, idx.Name.O, t.meta.Name.O, err)
	}
	return t.own(h), nil
}

// own returns a handle that does not point into what it was decoded from.
func (t *Table) own(h tkv.Handle) tkv.Handle {
	if t.meta.IsCommonHandle {
		return h.Copy()
	}
	return h
}
