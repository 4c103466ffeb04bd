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
	"github.com/pingcap/tidb/pkg/parser/mysql"
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
	// Values are the key's values, as far as the key has them; TIMESTAMPs are in
	// UTC.
	Values []types.Datum
	// Handle and Row are the row that has the value, public columns.
	Handle tkv.Handle
	Row    []types.Datum
}

// Error names the key and its value, with TIMESTAMPs in UTC.
func (e *DuplicateError) Error() string {
	text, err := e.Entry(time.UTC)
	if err != nil {
		text = "?"
	}
	return fmt.Sprintf("Duplicate entry '%s' for key '%s'", text, e.Key)
}

// Entry prints the key's value, with TIMESTAMPs as the clocks of loc show them.
func (e *DuplicateError) Entry(loc *time.Location) (string, error) { return KeyText(e.Values, loc) }

// duplicateError describes the row that holds the values of idx already; idx is
// nil for an integer handle.
func (t *Table) duplicateError(ctx context.Context, txn kv.Txn, idx *model.IndexInfo, values []types.Datum, existing tkv.Handle) error {
	e := &DuplicateError{Key: t.meta.Name.O + ".PRIMARY", Values: values, Handle: existing}
	if idx != nil && !idx.Primary {
		e.Key = t.meta.Name.O + "." + idx.Name.O
	}
	var err error
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

// EntryText prints the values of an index entry as KeyText does.
func (t *Table) EntryText(idx *model.IndexInfo, key, value []byte, loc *time.Location) (string, error) {
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
	return KeyText(values, loc)
}

// KeyText prints the values of a key as MySQL names them in duplicate entry
// errors: joined by "-", with TIMESTAMPs, which are in UTC, as the clocks of loc
// show them.
func KeyText(values []types.Datum, loc *time.Location) (string, error) {
	texts := make([]string, len(values))
	for i, v := range values {
		if v.IsNull() {
			texts[i] = "NULL"
			continue
		}
		if err := toLocation(&v, loc); err != nil {
			return "", fmt.Errorf("print key value: %w", err)
		}
		s, err := v.ToString()
		if err != nil {
			return "", fmt.Errorf("print key value: %w", err)
		}
		texts[i] = s
	}
	return strings.Join(texts, "-"), nil
}

// toLocation turns a TIMESTAMP in UTC into the one that the clocks of loc show.
func toLocation(d *types.Datum, loc *time.Location) error {
	if d.Kind() != types.KindMysqlTime {
		return nil
	}
	at := d.GetMysqlTime()
	if at.Type() != mysql.TypeTimestamp || at.IsZero() {
		return nil
	}
	if err := at.ConvertTimeZone(time.UTC, loc); err != nil {
		return err
	}
	d.SetMysqlTime(at)
	return nil
}
