package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"slices"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/catalog"
	"fastddl/ddl/mdl"
	"fastddl/kv"
	"fastddl/table"
)

// worker runs random transactions on one table, as a session would: it reads
// under the schema that was current before its snapshot and writes under the
// one the metadata lock binds it to.
type worker struct {
	node    *node
	table   string
	history *history
	rng     *rand.Rand
	// hot makes most transactions touch the same few rows.
	hot bool

	committed, conflicts, duplicates int
}

func (w *worker) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := w.transaction(ctx)
		var dup *table.DuplicateError
		switch {
		case err == nil:
			w.committed++
		case kv.IsWriteConflict(err), mdl.ErrSchemaChanged.Equal(err):
			w.conflicts++
		case errors.As(err, &dup):
			w.duplicates++
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("transaction on %s: %w", w.table, err)
		}
	}
	return nil
}

// transaction runs 1 to 5 row changes and commits or, sometimes, rolls back.
func (w *worker) transaction(ctx context.Context) error {
	is := w.node.catalog.Current()
	entry, ok := is.Table(dbName, w.table)
	if !ok {
		return fmt.Errorf("table %s is gone", w.table)
	}
	txn, err := w.node.store.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = txn.Rollback() }()
	lock := w.node.locks.Begin(mdl.Owner{})
	defer lock.Release()
	txn.SetCommitCheck(lock.CheckCommit)

	t := &transaction{worker: w, txn: txn, lock: lock, read: entry, rows: map[string]write{}}
	for range 1 + w.rng.Intn(5) {
		if err := t.step(ctx); err != nil {
			return err
		}
	}
	if w.rng.Intn(10) == 0 {
		return nil
	}
	if err := txn.Commit(ctx); err != nil {
		return err
	}
	if txn.CommitTS() != 0 {
		c := commit{ts: txn.CommitTS()}
		for _, w := range t.rows {
			c.writes = append(c.writes, w)
		}
		w.history.add(c)
	}
	return nil
}

type transaction struct {
	*worker
	txn  kv.Txn
	lock *mdl.Lock
	read *catalog.Table
	// rows are the net changes.
	rows map[string]write
}

// step reads a random row and inserts, updates, moves or deletes it.
func (t *transaction) step(ctx context.Context) error {
	id := t.randomID()
	h, old, err := t.find(ctx, id)
	if err != nil {
		return err
	}
	bound, err := t.lock.Bind(t.read.Info.ID)
	if err != nil {
		return err
	}
	tbl := table.Of(bound)
	if old == nil {
		row := t.randomRow(id)
		h, err := tbl.AddRecord(ctx, t.txn, row, table.AddOptions{RowID: t.node.rowID.Add(1)})
		if err != nil {
			return err
		}
		return t.wrote(h, row)
	}
	switch t.rng.Intn(6) {
	case 0:
		t.removed(h)
		return tbl.RemoveRecord(ctx, t.txn, h, old)
	case 1:
		id = t.randomID()
	case 2:
		return t.swap(ctx, tbl, h, old)
	}
	row := t.randomRow(id)
	if t.rng.Intn(3) == 0 {
		// Leave the indexed columns as they are.
		copy(row[1:3], old[1:3])
	}
	return t.update(ctx, tbl, h, old, row)
}

// swap exchanges the values of n, which may be unique, between two rows, by way
// of NULL.
func (t *transaction) swap(ctx context.Context, tbl *table.Table, h1 tkv.Handle, row1 []types.Datum) error {
	row1 = slices.Clone(row1)
	h2, row2, err := t.find(ctx, t.randomID())
	if err != nil || row2 == nil || h2.Equal(h1) {
		return err
	}
	row2 = slices.Clone(row2)
	without, with1, with2 := slices.Clone(row1), slices.Clone(row2), slices.Clone(row1)
	without[3].SetNull()
	with1[3], with2[3] = row1[3], row2[3]
	for _, u := range []struct {
		h        tkv.Handle
		old, new []types.Datum
	}{{h1, row1, without}, {h2, row2, with1}, {h1, without, with2}} {
		if err := t.update(ctx, tbl, u.h, u.old, u.new); err != nil {
			return err
		}
	}
	return nil
}

// update changes a row; if a unique key is taken it leaves everything as it is.
func (t *transaction) update(ctx context.Context, tbl *table.Table, h tkv.Handle, old, row []types.Datum) error {
	undo := t.txn.Checkpoint()
	newHandle, err := tbl.UpdateRecord(ctx, t.txn, h, old, row)
	if err != nil {
		// As a failed statement in a transaction that goes on.
		t.txn.RevertTo(undo)
		var dup *table.DuplicateError
		if errors.As(err, &dup) {
			return nil
		}
		return err
	}
	t.removed(h)
	return t.wrote(newHandle, row)
}

func (t *transaction) removed(h tkv.Handle) { t.rows[handleText(h)] = write{handle: handleText(h)} }

func (t *transaction) wrote(h tkv.Handle, row []types.Datum) error {
	text, err := rowText(row)
	t.rows[handleText(h)] = write{handleText(h), text, slices.Clone(row), h}
	return err
}

// find returns the row with the given id, or nil: by handle where id is the
// handle, else by a scan of the small table.
func (t *transaction) find(ctx context.Context, id int64) (tkv.Handle, []types.Datum, error) {
	tbl := table.Of(t.read)
	rd := tbl.Reader(t.txn, nil, nil)
	if tbl.Meta().PKIsHandle {
		h := tkv.IntHandle(id)
		row, err := rd.Get(ctx, h)
		if errors.Is(err, kv.ErrNotExist) {
			return nil, nil, nil
		}
		return h, row, err
	}
	it, err := rd.Scan([]kv.KeyRange{tbl.RecordRange()}, t.rng.Intn(2) == 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = it.Close() }()
	for {
		h, row, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, nil, nil
		}
		if err != nil || row[0].GetInt64() == id {
			return h, row, err
		}
	}
}

func (w *worker) randomID() int64 {
	if w.hot && w.rng.Intn(4) != 0 {
		return int64(w.rng.Intn(5))
	}
	return int64(w.rng.Intn(maxID))
}

var words = []string{"", "a", "A", "ab", "aB ", "abcdef", "Äb", "日本語", "zzzzzzzzzz"}

// randomRow is a row (id, k, s, n) of the tables that randomTable creates.
func (w *worker) randomRow(id int64) []types.Datum {
	row := types.MakeDatums(id, w.rng.Intn(20), words[w.rng.Intn(len(words))], w.rng.Int63())
	if w.rng.Intn(10) == 0 {
		row[3].SetInt64(int64(w.rng.Intn(200)))
	}
	if w.rng.Intn(5) == 0 {
		row[1].SetNull()
	}
	return row
}

func rowText(row []types.Datum) (string, error) { return types.DatumsToString(row, true) }
