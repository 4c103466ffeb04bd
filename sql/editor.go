package sql

import (
	"errors"
	"fmt"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/kv"
	"fastddl/sql/sqlerr"
	"fastddl/table"
)

// editor applies the row changes of one statement to one table.
//
// Rows to change are named by their key only. What the store holds for them is
// read again before it is changed: index entries must be removed for exactly
// the values that are there, and go-mysql-server's idea of a value can differ
// (time zones) or be out of date (a row changed twice by one statement).
type editor struct {
	table *Table
	tx    *transaction
	// rows writes to writer under the schema version that the transaction is
	// bound to.
	rows   *table.Table
	writer kv.Txn
	reader *table.Reader
	loc    *time.Location
	// undo and undoBuffered are where the running statement began to write: in
	// the transaction, and in the statement's buffer.
	undo, undoBuffered kv.Checkpoint
	err                error
}

var (
	_ gms.RowReplacer = (*editor)(nil)
	_ gms.RowUpdater  = (*editor)(nil)
)

// Inserter implements sql.InsertableTable.
func (t *Table) Inserter(ctx *gms.Context) gms.RowInserter { return t.editor(ctx) }

// Updater implements sql.UpdatableTable.
func (t *Table) Updater(ctx *gms.Context) gms.RowUpdater { return t.editor(ctx) }

// Deleter implements sql.DeletableTable.
func (t *Table) Deleter(ctx *gms.Context) gms.RowDeleter { return t.editor(ctx) }

// Replacer implements sql.ReplaceableTable.
func (t *Table) Replacer(ctx *gms.Context) gms.RowReplacer { return t.editor(ctx) }

// editor returns an editor that fails on its first use if it cannot be had.
func (t *Table) editor(ctx *gms.Context) *editor {
	e := &editor{table: t}
	s, err := sessionOf(ctx)
	if err != nil {
		e.err = err
		return e
	}
	e.loc = s.location
	e.tx, e.err = s.begun(ctx)
	return e
}

// bind takes the metadata lock before the first write.
func (e *editor) bind(ctx *gms.Context) error {
	if e.err != nil || e.rows != nil {
		return e.err
	}
	if e.rows, e.err = e.tx.bind(ctx, e.table.def); e.err != nil {
		return e.err
	}
	e.writer = e.tx.statementWriter()
	e.reader = e.rows.Reader(e.writer, nil, nil)
	return nil
}

// StatementBegin implements sql.EditOpenerCloser.
func (e *editor) StatementBegin(*gms.Context) {
	if e.tx == nil || e.tx.txn == nil {
		return
	}
	e.undo, e.undoBuffered = e.tx.txn.Checkpoint(), 0
	if e.tx.buffer != nil {
		e.undoBuffered = e.tx.buffer.Checkpoint()
	}
}

// DiscardChanges implements sql.EditOpenerCloser.
func (e *editor) DiscardChanges(*gms.Context, error) error {
	if e.tx == nil || e.tx.txn == nil {
		return nil
	}
	if e.tx.buffer != nil {
		e.tx.buffer.RevertTo(e.undoBuffered)
	}
	e.tx.txn.RevertTo(e.undo)
	return nil
}

// StatementComplete implements sql.EditOpenerCloser. A statement that was
// killed arrives here as well.
func (e *editor) StatementComplete(ctx *gms.Context) error {
	if err := ctx.Err(); err != nil {
		return errors.Join(err, e.DiscardChanges(ctx, err))
	}
	return nil
}

// Close implements sql.Closer. It is called once the statement reads no more,
// whether it failed or not.
func (e *editor) Close(*gms.Context) error {
	if e.tx == nil {
		return nil
	}
	if err := e.tx.flush(); err != nil {
		return sqlerr.Translate(err)
	}
	return nil
}

// Insert implements sql.RowInserter.
func (e *editor) Insert(ctx *gms.Context, row gms.Row) error {
	if err := e.bind(ctx); err != nil {
		return err
	}
	values, err := e.datums(ctx, row)
	if err != nil {
		return err
	}
	def := e.table.def
	var opts table.AddOptions
	if def.hasRowID {
		id, err := e.table.engine.catalog.RowID(def.catalog).Alloc(ctx, 1)
		if err != nil {
			return sqlerr.Translate(err)
		}
		opts.RowID = int64(id)
	}
	if _, err := e.rows.AddRecord(ctx, e.writer, values, opts); err != nil {
		return e.translate(err)
	}
	e.tx.count(def.info.ID, 1)
	return nil
}

// Delete implements sql.RowDeleter.
func (e *editor) Delete(ctx *gms.Context, row gms.Row) error {
	if err := e.bind(ctx); err != nil {
		return err
	}
	h, stored, err := e.stored(ctx, row)
	if errors.Is(err, kv.ErrNotExist) {
		// Deleted by an earlier row of the same statement.
		return nil
	}
	if err != nil {
		return err
	}
	if err := e.rows.RemoveRecord(ctx, e.writer, h, stored); err != nil {
		return e.translate(err)
	}
	e.tx.count(e.table.def.info.ID, -1)
	return nil
}

// Update implements sql.RowUpdater.
func (e *editor) Update(ctx *gms.Context, old, new gms.Row) error {
	if err := e.bind(ctx); err != nil {
		return err
	}
	h, stored, err := e.stored(ctx, old)
	if errors.Is(err, kv.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	values, err := e.datums(ctx, new)
	if err != nil {
		return err
	}
	e.keepZoned(values, stored, old, new)
	_, err = e.rows.UpdateRecord(ctx, e.writer, h, stored, values)
	return e.translate(err)
}

// keepZoned leaves TIMESTAMPs as they are stored where the wall clock has not
// changed, which can stand for two instants.
func (e *editor) keepZoned(values, stored []types.Datum, old, new gms.Row) {
	if !e.table.def.zoned {
		return
	}
	for i, codec := range e.table.def.codecs {
		if !codec.Zoned() {
			continue
		}
		was, wasTime := old[i].(time.Time)
		is, isTime := new[i].(time.Time)
		if wasTime && isTime && was.Equal(is) {
			values[i] = stored[i]
		}
	}
}

// datums translates a row of go-mysql-server.
func (e *editor) datums(ctx *gms.Context, row gms.Row) ([]types.Datum, error) {
	def := e.table.def
	if len(row) < def.width() {
		return nil, fmt.Errorf("table %s: row has %d values, want %d", e.table.Name(), len(row), def.width())
	}
	values := make([]types.Datum, def.width())
	for i, codec := range def.codecs {
		if err := codec.Encode(ctx, row[i], e.loc, &values[i]); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// stored returns the handle of a row that go-mysql-server has read, and what the
// transaction sees under it; kv.ErrNotExist if that is nothing.
func (e *editor) stored(ctx *gms.Context, row gms.Row) (tkv.Handle, []types.Datum, error) {
	h, err := e.handle(ctx, row)
	if err != nil {
		return nil, nil, err
	}
	values, err := e.reader.Get(ctx, h)
	if err != nil && !errors.Is(err, kv.ErrNotExist) {
		err = sqlerr.Translate(err)
	}
	return h, values, err
}

func (e *editor) handle(ctx *gms.Context, row gms.Row) (tkv.Handle, error) {
	def := e.table.def
	if def.hasRowID {
		if len(row) <= def.width() {
			return nil, fmt.Errorf("table %s: row without its row ID", e.table.Name())
		}
		id, ok := row[def.width()].(int64)
		if !ok {
			return nil, fmt.Errorf("table %s: row ID of type %T", e.table.Name(), row[def.width()])
		}
		return tkv.IntHandle(id), nil
	}
	values := make([]types.Datum, def.width())
	for _, at := range def.pk.PkOrdinals {
		if err := def.codecs[at].Encode(ctx, row[at], e.loc, &values[at]); err != nil {
			return nil, err
		}
	}
	return e.rows.HandleOf(values)
}

// translate makes of a duplicate key the error by which go-mysql-server
// recognises one, with the row that is in the way.
func (e *editor) translate(err error) error {
	if err == nil {
		return nil
	}
	var dup *table.DuplicateError
	if !errors.As(err, &dup) {
		return sqlerr.Translate(err)
	}
	def := e.table.def
	existing := make(gms.Row, len(def.schema))
	for i := range dup.Row {
		v, err := def.codecs[i].Decode(&dup.Row[i], e.loc)
		if err != nil {
			return err
		}
		existing[i] = v
	}
	if def.hasRowID {
		existing[def.width()] = dup.Handle.IntValue()
	}
	primary := dup.Key == def.info.Name.O+".PRIMARY"
	entry, err := dup.Entry(e.loc)
	if err != nil {
		return err
	}
	return gms.NewUniqueKeyErr(fmt.Sprintf("'%s' for key '%s'", entry, dup.Key), primary, existing)
}
