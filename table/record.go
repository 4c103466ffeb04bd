package table

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/rowcodec"

	"fastddl/kv"
)

// AddOptions are the parameters of AddRecord.
type AddOptions struct {
	// RowID is the hidden row ID, for tables without a clustered primary key.
	RowID int64
}

// AddRecord inserts a row and its index entries. It fails with a
// *DuplicateError if a unique key is taken, with a *NullError if a column that
// is becoming NOT NULL has no value, and then writes nothing.
func (t *Table) AddRecord(ctx context.Context, txn kv.Txn, row []types.Datum, opts AddOptions) (tkv.Handle, error) {
	full, err := t.newRow(row, t.defaults)
	if err != nil {
		return nil, err
	}
	if err := t.checkNewNulls(nil, full); err != nil {
		return nil, err
	}
	if t.HasHiddenRowID() {
		h := tkv.IntHandle(opts.RowID)
		return h, t.insert(ctx, txn, h, full)
	}
	h, err := t.handleOfFull(full)
	if err != nil {
		return nil, err
	}
	if err := t.checkHandle(ctx, txn, h, full); err != nil {
		return nil, err
	}
	return h, t.insert(ctx, txn, h, full)
}

// UpdateRecord replaces the row old, which has handle h, by new, and returns
// the new handle, which differs if a clustered primary key changes. It fails
// with a *DuplicateError if a unique key is taken by another row, with a
// *NullError if a column that is becoming NOT NULL loses its value, and then
// writes nothing.
func (t *Table) UpdateRecord(ctx context.Context, txn kv.Txn, h tkv.Handle, old, new []types.Datum) (tkv.Handle, error) {
	hidden, err := t.hiddenValues(ctx, txn, h)
	if err != nil {
		return nil, err
	}
	oldFull, err := t.fullRow(old, hidden)
	if err != nil {
		return nil, err
	}
	newFull, err := t.newRow(new, hidden)
	if err != nil {
		return nil, err
	}
	if err := t.checkNewNulls(oldFull, newFull); err != nil {
		return nil, err
	}
	newHandle := h
	if !t.HasHiddenRowID() {
		if newHandle, err = t.handleOfFull(newFull); err != nil {
			return nil, err
		}
	}
	if !newHandle.Equal(h) {
		return newHandle, t.move(ctx, txn, h, newHandle, oldFull, newFull)
	}
	return h, t.replace(ctx, txn, h, oldFull, newFull)
}

// newRow returns a row that is going to be written, over all columns of the
// definition. What a caller gives for generated columns does not count.
func (t *Table) newRow(public, hidden []types.Datum) ([]types.Datum, error) {
	row, err := t.fullRow(public, hidden)
	if err != nil {
		return nil, err
	}
	return row, t.onWrite.Fill(row)
}

// checkNewNulls fails with a *NullError if new has a NULL that old, which is nil
// for an insert, has not, in a column that is becoming NOT NULL. A NULL that was
// there before may stay: it is for the job to find it.
func (t *Table) checkNewNulls(old, new []types.Datum) error {
	for _, col := range t.notNull {
		if new[col.Offset].IsNull() && (old == nil || !old[col.Offset].IsNull()) {
			return &NullError{Column: col.Name.O}
		}
	}
	return nil
}

// RemoveRecord deletes the row old, which has handle h, and its index entries.
func (t *Table) RemoveRecord(ctx context.Context, txn kv.Txn, h tkv.Handle, old []types.Datum) error {
	hidden, err := t.hiddenValues(ctx, txn, h)
	if err != nil {
		return err
	}
	full, err := t.fullRow(old, hidden)
	if err != nil {
		return err
	}
	return t.remove(ctx, txn, h, full)
}

// hiddenValues returns, over all columns, the stored values of the row, for
// those of its columns that are not public.
func (t *Table) hiddenValues(ctx context.Context, txn kv.Txn, h tkv.Handle) ([]types.Datum, error) {
	if !t.hasHiddenCols {
		return t.defaults, nil
	}
	value, err := txn.Get(ctx, t.RecordKey(h))
	if errors.Is(err, kv.ErrNotExist) {
		return t.defaults, nil
	}
	if err != nil {
		return nil, err
	}
	return t.decodeAll(h, value)
}

func (t *Table) checkHandle(ctx context.Context, txn kv.Txn, h tkv.Handle, row []types.Datum) error {
	_, err := txn.Get(ctx, t.RecordKey(h))
	if errors.Is(err, kv.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	values := []types.Datum{}
	if t.meta.PKIsHandle {
		values = append(values, row[t.pkOffset])
	} else {
		values = t.newIndex(t.pk).values(row)
	}
	return t.duplicateError(ctx, txn, t.pk, values, h)
}

// insert writes a new row whose handle is free.
func (t *Table) insert(ctx context.Context, txn kv.Txn, h tkv.Handle, row []types.Datum) error {
	entries := make([]indexEntry, len(t.indexes))
	for i, x := range t.indexes {
		if !x.puts() {
			continue
		}
		var err error
		if entries[i], err = t.entry(x, row, h); err != nil {
			return err
		}
		if err := t.checkUnique(ctx, txn, x, entries[i], row); err != nil {
			return err
		}
	}
	if err := t.putRow(txn, h, row); err != nil {
		return err
	}
	for i, x := range t.indexes {
		if !x.puts() {
			continue
		}
		if err := t.putEntry(txn, x, entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a row's new values under the same handle.
func (t *Table) replace(ctx context.Context, txn kv.Txn, h tkv.Handle, old, new []types.Datum) error {
	type change struct {
		x        *index
		old, new indexEntry
		had      bool
	}
	var changes []change
	for _, x := range t.indexes {
		if !x.deletes() {
			continue
		}
		oldEntry, had, err := t.storedEntry(x, old, h)
		if err != nil {
			return err
		}
		newEntry, err := t.newEntry(x, new, h)
		if err != nil {
			return err
		}
		if oldEntry.equal(newEntry) {
			continue
		}
		if x.puts() && string(oldEntry.key) != string(newEntry.key) {
			if err := t.checkUnique(ctx, txn, x, newEntry, new); err != nil {
				return err
			}
		}
		changes = append(changes, change{x, oldEntry, newEntry, had})
	}
	if err := t.putRow(txn, h, new); err != nil {
		return err
	}
	for _, c := range changes {
		if c.had {
			if err := t.deleteEntry(ctx, txn, c.x, c.old); err != nil {
				return err
			}
		}
		if !c.x.puts() {
			continue
		}
		if err := t.putEntry(txn, c.x, c.new); err != nil {
			return err
		}
	}
	return nil
}

// move replaces a row by one with another handle.
func (t *Table) move(ctx context.Context, txn kv.Txn, from, to tkv.Handle, old, new []types.Datum) error {
	if err := t.checkHandle(ctx, txn, to, new); err != nil {
		return err
	}
	// The row's own entries must not count as duplicates of its new ones.
	undo := txn.Checkpoint()
	if err := t.remove(ctx, txn, from, old); err != nil {
		return err
	}
	if err := t.insert(ctx, txn, to, new); err != nil {
		txn.RevertTo(undo)
		return err
	}
	return nil
}

func (t *Table) remove(ctx context.Context, txn kv.Txn, h tkv.Handle, row []types.Datum) error {
	if err := txn.Delete(t.RecordKey(h)); err != nil {
		return err
	}
	for _, x := range t.indexes {
		if !x.deletes() {
			continue
		}
		e, ok, err := t.storedEntry(x, row, h)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := t.deleteEntry(ctx, txn, x, e); err != nil {
			return err
		}
	}
	return nil
}

// rowEncoder holds the buffers of encoding a row.
type rowEncoder struct {
	encoder rowcodec.Encoder
	ids     []int64
	values  []types.Datum
	buf     []byte
}

var rowEncoders = sync.Pool{New: func() any {
	return &rowEncoder{encoder: rowcodec.Encoder{Enable: true}}
}}

func (t *Table) putRow(txn kv.Txn, h tkv.Handle, row []types.Datum) error {
	enc := rowEncoders.Get().(*rowEncoder)
	defer rowEncoders.Put(enc)
	value, err := t.encodeRow(enc, row)
	if err != nil {
		return err
	}
	return txn.Set(t.RecordKey(h), value)
}

// EncodeRow returns the stored value of a row with public columns only.
func (t *Table) EncodeRow(row []types.Datum) ([]byte, error) {
	full, err := t.newRow(row, t.defaults)
	if err != nil {
		return nil, err
	}
	return t.encodeRow(&rowEncoder{encoder: rowcodec.Encoder{Enable: true}}, full)
}

func (t *Table) encodeRow(enc *rowEncoder, row []types.Datum) ([]byte, error) {
	enc.ids, enc.values = enc.ids[:0], enc.values[:0]
	for i, col := range t.meta.Columns {
		if !t.stored(col, &row[i]) {
			continue
		}
		enc.ids = append(enc.ids, col.ID)
		enc.values = append(enc.values, row[i])
	}
	buf, err := tablecodec.EncodeRow(time.UTC, enc.values, enc.ids, enc.buf, nil, nil, &enc.encoder)
	if err != nil {
		return nil, fmt.Errorf("encode row of table %s: %w", t.meta.Name.O, err)
	}
	enc.buf = buf
	return buf, nil
}

// stored says whether a column's value is part of the row's stored value. The
// rules are TiDB's: columns that the handle restores are left out, and NULLs
// that a missing column would read as.
func (t *Table) stored(col *model.ColumnInfo, value *types.Datum) bool {
	if col.State == model.StateNone || col.State == model.StateDeleteOnly || col.IsVirtualGenerated() {
		return false
	}
	if col.Offset == t.pkOffset {
		return false
	}
	if t.meta.IsCommonHandle {
		for _, pkCol := range t.pk.Columns {
			if pkCol.Offset == col.Offset {
				return pkCol.Length != types.UnspecifiedLength || types.NeedRestoredData(&col.FieldType)
			}
		}
	}
	return !value.IsNull() || col.GetDefaultValue() != nil || col.GetOriginDefaultValue() != nil
}
