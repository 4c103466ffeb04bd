package table

import (
	"fmt"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
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
