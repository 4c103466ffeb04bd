package table

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"

	"fastddl/kv"
)

// DuplicateError says that a row would have the same unique key as another one
// (MySQL error 1062).
type DuplicateError struct {
	// Key is the violated key as "table.KEY".
	Key string
	// Value is the key's value, its columns joined by "-".
	Value string
	// Handle and Row are the row that has the value, public columns.
	Handle tkv.Handle
	Row    []types.Datum
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("Duplicate entry '%s' for key '%s'", e.Value, e.Key)
}

// duplicateError describes the row that holds the values of idx already; idx is
// nil for an integer handle.
func (t *Table) duplicateError(ctx context.Context, txn kv.Txn, idx *model.IndexInfo, values []types.Datum, existing tkv.Handle) error {
	e := &DuplicateError{Key: t.meta.Name.O + ".PRIMARY", Handle: existing}
	if idx != nil && !idx.Primary {
		e.Key = t.meta.Name.O + "." + idx.Name.O
	}
	var err error
	if e.Value, err = KeyText(values); err != nil {
		return err
	}
	if e.Row, err = t.Reader(txn, nil, nil).Get(ctx, existing); err != nil {
		if errors.Is(err, kv.ErrNotExist) {
			return fmt.Errorf("index %s has an entry for handle %s, which has no row", e.Key, existing)
		}
		return err
	}
	return e
}

// NullError says that a row has no value in a column that needs one.
type NullError struct {
	Column string
}

func (e *NullError) Error() string { return fmt.Sprintf("Column '%s' cannot be null", e.Column) }

// MySQLCode is the error's number, 1048.
func (e *NullError) MySQLCode() uint16 { return errno.ErrBadNull }

// EntryText prints the values of an index entry as MySQL names them in duplicate
// entry errors.
func (t *Table) EntryText(idx *model.IndexInfo, key, value []byte) (string, error) {
	cols := make([]rowcodec.ColInfo, len(idx.Columns))
	for i, col := range idx.Columns {
		cols[i] = t.rowCols[col.Offset]
	}
	encoded, err := tablecodec.DecodeIndexKV(key, value, len(cols), tablecodec.HandleNotNeeded, cols)
	if err != nil {
		return "", fmt.Errorf("decode entry %x of index %s of table %s: %w", key, idx.Name.O, t.meta.Name.O, err)
	}
	values := make([]types.Datum, len(cols))
	for i, col := range cols {
		if values[i], err = tablecodec.DecodeColumnValue(encoded[i], col.Ft, time.UTC); err != nil {
			return "", fmt.Errorf("decode entry %x of index %s of table %s: %w", key, idx.Name.O, t.meta.Name.O, err)
		}
	}
	return KeyText(values)
}

// KeyText prints the values of a key as MySQL names them in duplicate entry
// errors.
func KeyText(values []types.Datum) (string, error) {
	texts := make([]string, len(values))
	for i, v := range values {
		if v.IsNull() {
			texts[i] = "NULL"
			continue
		}
		s, err := v.ToString()
		if err != nil {
			return "", fmt.Errorf("print key value: %w", err)
		}
		texts[i] = s
	}
	return strings.Join(texts, "-"), nil
}
