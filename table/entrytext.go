package table

import (
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
)

// EntryHandleText prints the handle of an index entry's row: the values of the
// clustered primary key as KeyText prints them, or the hidden row ID.
func (t *Table) EntryHandleText(idx *model.IndexInfo, key, value []byte, loc *time.Location) (string, error) {
	if t.HasHiddenRowID() {
		h, err := t.handleOfEntry(idx, key, value)
		if err != nil {
			return "", err
		}
		return h.String(), nil
	}
	c := newCoveringDecoder(&Reader{table: t}, idx)
	encoded, err := tablecodec.DecodeIndexKV(key, value, len(idx.Columns), c.status, c.columns)
	if err != nil {
		return "", c.wrap(err)
	}
	n := len(idx.Columns)
	if len(encoded) != len(c.columns) {
		return "", c.wrap(fmt.Errorf("%d values instead of %d", len(encoded), len(c.columns)))
	}
	values := make([]types.Datum, len(c.columns)-n)
	for i := range values {
		if values[i], err = tablecodec.DecodeColumnValue(encoded[n+i], c.columns[n+i].Ft, time.UTC); err != nil {
			return "", c.wrap(err)
		}
	}
	return KeyText(values, loc)
}
