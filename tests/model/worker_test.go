package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"slices"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/catalog"
	"fastddl/ddl/mdl"
	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/table"
)

// worker runs random transactions on one table, as a session would: it reads
// under the schema that was current at its snapshot and writes under the one
// the metadata lock binds it to.
type worker struct {
	node    *node
	table   string
	history *history
	rng     *rand.Rand
	// ids bounds the ids; hot makes most transactions touch the same few rows.
	ids int
	hot bool

	committed, conflicts, duplicates int
}

func (w *worker) run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := w.transaction(ctx)
		switch {
		case err == nil:
			w.committed++
		case kv.IsWriteConflict(err), mdl.ErrSchemaChanged.Equal(err):
			w.conflicts++
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("transaction on %s: %w", w.table, err)
		}
	}
	return nil
}

// fill inserts rows before the others begin.
func (w *worker) fill(ctx context.Context, rows int) error {
	for id := 0; id < rows; {
		t, err := w.begin(ctx)
		if err != nil {
			return err
		}
		for end := min(rows, id+100); id < end && err == nil; id++ {
			err = t.insert(ctx, int64(id))
		}
		if err == nil {
			err = t.commit(ctx)
		}
		if err := errs.Also(err, t.end()); err != nil {
			return err
		}
	}
	return nil
}

// transaction runs 1 to 5 statements and commits or, sometimes, rolls back.
func (w *worker) transaction(ctx context.Context) (err error) {
	t, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errs.Also(err, t.end()) }()
	for range 1 + w.rng.Intn(5) {
		if err := t.statement(ctx); err != nil {
			return err
		}
	}
	w.dawdle()
	if oneIn(w.rng, 10) {
		return nil
	}
	return t.commit(ctx)
}

// dawdle keeps a transaction open that has written, as clients do.
func (w *worker) dawdle() {
	switch w.rng.Intn(200) {
	case 0:
		time.Sleep(time.Duration(w.rng.Intn(100)) * time.Millisecond)
	case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
		time.Sleep(time.Duration(w.rng.Intn(3000)) * time.Microsecond)
	}
}

type transaction struct {
	*worker
	txn  kv.Txn
	lock *mdl.Lock
	// read is the table as it was when the snapshot was taken; tbl is nil before
	// the first write, and then the table as the transaction writes it.
	read *catalog.Table
	tbl  *table.Table
	// rows are the net changes.
	rows map[string]write
}

// begin takes a snapshot with the schema that describes it.
func (w *worker) begin(ctx context.Context) (*transaction, error) {
	for {
		schema := w.node.catalog.Current()
		txn, err := w.node.store.Begin(ctx)
		if err != nil {
			return nil, err
		}
		entry, ok := schema.Table(dbName, w.table)
		if !ok {
			return nil, errors.Join(fmt.Errorf("table %s is gone", w.table), txn.Rollback())
		}
		if w.node.catalog.Current() == schema {
			t := &transaction{worker: w, txn: txn, lock: w.node.locks.Begin(mdl.Owner{}), read: entry, rows: map[string]write{}}
			txn.SetCommitCheck(t.lock.CheckCommit)
			return t, nil
		}
		if err := txn.Rollback(); err != nil {
			return nil, err
		}
	}
}

// end gives up what is not committed.
func (t *transaction) end() error {
	defer t.lock.Release()
	return t.txn.Rollback()
}

func (t *transaction) commit(ctx context.Context) error {
	t.history.committing.RLock()
	defer t.history.committing.RUnlock()
	if err := t.txn.Commit(ctx); err != nil {
		return err
	}
	if t.txn.CommitTS() == 0 {
		return nil
	}
	c := commit{ts: t.txn.CommitTS()}
	for _, w := range t.rows {
		c.writes = append(c.writes, w)
	}
	t.history.add(c)
	return nil
}

// bind takes the metadata lock. The table may have got other indexes since the
// snapshot, but rows must look the same.
func (t *transaction) bind() error {
	if t.tbl != nil {
		return nil
	}
	bound, err := t.lock.Bind(t.read.Info.ID)
	if err != nil {
		return err
	}
	read, written := t.read.Info.Cols(), bound.Info.Cols()
	if !slices.EqualFunc(read, written, sameColumn) {
		return mdl.ErrSchemaChanged.FastGenByArgs()
	}
	t.tbl = table.Of(bound)
	return nil
}

// statement is a random one; a statement that fails with a duplicate key leaves
// the transaction as it was.
func (t *transaction) statement(ctx context.Context) error {
	if oneIn(t.rng, 12) {
		return t.compareIndex(ctx)
	}
	if err := t.bind(); err != nil {
		return err
	}
	run := pick(t.rng, t.insertOrDelete, t.insertOrDelete, t.updateOne, t.updateOne, t.updateOne, t.moveOne,
		t.swap, t.overlap, t.replaceInto, t.upsert, t.insertIgnore, t.updateMany)
	undo, rows := t.txn.Checkpoint(), copyMap(t.rows)
	err := run(ctx)
	var dup *table.DuplicateError
	if errors.As(err, &dup) {
		t.txn.RevertTo(undo)
		t.rows = rows
		t.duplicates++
		return nil
	}
	return err
}

func (t *transaction) randomID() int64 {
	if t.hot && !oneIn(t.rng, 4) {
		return int64(t.rng.Intn(5))
	}
	return int64(t.rng.Intn(t.ids))
}

func (t *transaction) randomRow(id int64) ([]types.Datum, error) {
	return randomRow(t.rng, t.tbl.Meta(), id)
}

// find returns the row with the given id, or nil: by handle where id is the
// handle, else by a scan.
func (t *transaction) find(ctx context.Context, id int64) (tkv.Handle, []types.Datum, error) {
	tbl := table.Of(t.read)
	rd := tbl.Reader(t.txn, nil, nil)
	want := idValue(tbl.Columns()[0], id)
	if tbl.Meta().PKIsHandle {
		h := tkv.IntHandle(want.GetInt64())
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
		if err != nil || row[0].GetUint64() == want.GetUint64() {
			return h, row, err
		}
	}
}

func (t *transaction) removed(h tkv.Handle) { t.rows[handleText(h)] = write{handle: handleText(h)} }

func (t *transaction) wrote(h tkv.Handle, row []types.Datum) {
	t.rows[handleText(h)] = write{handle: handleText(h), h: h, row: slices.Clone(row), tbl: t.tbl.Catalog()}
}
