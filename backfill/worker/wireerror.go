package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/terror"

	"fastddl/backfill"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/ddl/job"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/lightning"
)

// wireError is an error as data: its text, and what callers look for in its chain.
type wireError struct {
	Text string
	// Terror is TiDB's error as JSON.
	Terror []byte
	// Sentinels are positions in sentinels.
	Sentinels []int

	BadRows    []wireBadRow
	Duplicates []*ingest.DuplicateGroup
	SameKey    *ingest.SameKeyError
	Mismatch   *backfill.MismatchError
	Rows       *execution.RowCountError
	Ranges     *execution.ScannedRangesError
	Visited    *kv.ScanCountError
	Account    *kv.ImportAccountError
	Pairs      *lightning.PairCountError
	Full       *kv.DiskFullError
	Damaged    *wireDamage
	Panic      *wirePanic
}

type wireBadRow struct {
	Index  int64
	Column int64 // its ID, 0 if none is known
	Key    []byte
	Err    *wireError
}

type wireDamage struct {
	File     string
	Imported bool
	Err      *wireError
}

type wirePanic struct {
	Value string
	Stack []byte
}

// sentinels are errors that callers compare with.
var sentinels = []error{
	kv.ErrSnapshotTooOld, kv.ErrDiskFull, kv.ErrClosed, kv.ErrSameKey, kv.ErrStoreFailed, kv.ErrDamaged, kv.ErrEmptyValue, kv.ErrNotExist,
	encode.ErrUnsupported, context.Canceled, context.DeadlineExceeded, syscall.ENOSPC, syscall.EDQUOT, os.ErrNotExist, os.ErrPermission,
}

// newWireError describes an error; nil describes nil.
func newWireError(err error) *wireError {
	if err == nil {
		return nil
	}
	w := &wireError{Text: err.Error()}
	for i, s := range sentinels {
		if errors.Is(err, s) {
			w.Sentinels = append(w.Sentinels, i)
		}
	}
	var bad *encode.RowError
	if errors.As(err, &bad) {
		for i := range bad.Rows {
			w.BadRows = append(w.BadRows, newWireBadRow(&bad.Rows[i]))
		}
	} else if te := job.FindTerror(err); te != nil {
		w.Terror, _ = json.Marshal(te) // plain data
	}
	if dup := (*ingest.DuplicateError)(nil); errors.As(err, &dup) {
		w.Duplicates = dup.Groups
	}
	if damaged := (*kv.DamagedUnitError)(nil); errors.As(err, &damaged) {
		w.Damaged = &wireDamage{damaged.File, damaged.Imported, newWireError(damaged.Err)}
	}
	if panicked := (*errs.PanicError)(nil); errors.As(err, &panicked) {
		w.Panic = &wirePanic{fmt.Sprint(panicked.Value), panicked.Stack}
	}
	errors.As(err, &w.SameKey)
	errors.As(err, &w.Mismatch)
	errors.As(err, &w.Rows)
	errors.As(err, &w.Ranges)
	errors.As(err, &w.Visited)
	errors.As(err, &w.Account)
	errors.As(err, &w.Pairs)
	errors.As(err, &w.Full)
	return w
}

func newWireBadRow(r *encode.BadRow) wireBadRow {
	w := wireBadRow{Index: r.Index.ID, Key: r.Key, Err: newWireError(r.Err)}
	if r.Column != nil {
		w.Column = r.Column.ID
	}
	return w
}

// remoteError is an error of another process.
type remoteError struct {
	text   string
	causes []error
}

func (e *remoteError) Error() string { return e.text }

// Unwrap returns what callers look for.
func (e *remoteError) Unwrap() []error { return e.causes }

// err returns the error that was described, of a build of the table; nil is any.
func (w *wireError) err(table *model.TableInfo) error {
	if w == nil {
		return nil
	}
	e := &remoteError{text: w.Text}
	add := func(has bool, cause error) {
		if has {
			e.causes = append(e.causes, cause)
		}
	}
	if rows := w.badRows(table); rows != nil {
		add(true, &encode.RowError{Rows: rows})
	}
	if len(w.Terror) > 0 {
		te := new(terror.Error)
		add(json.Unmarshal(w.Terror, te) == nil, te)
	}
	add(len(w.Duplicates) > 0, &ingest.DuplicateError{Groups: w.Duplicates})
	add(w.SameKey != nil, w.SameKey)
	add(w.Mismatch != nil, w.Mismatch)
	add(w.Rows != nil, w.Rows)
	add(w.Ranges != nil, w.Ranges)
	add(w.Visited != nil, w.Visited)
	add(w.Account != nil, w.Account)
	add(w.Pairs != nil, w.Pairs)
	add(w.Full != nil, w.Full)
	if d := w.Damaged; d != nil {
		add(true, &kv.DamagedUnitError{File: d.File, Imported: d.Imported, Err: d.Err.err(table)})
	}
	if p := w.Panic; p != nil {
		add(true, &errs.PanicError{Value: p.Value, Stack: p.Stack})
	}
	for _, i := range w.Sentinels {
		if i >= 0 && i < len(sentinels) {
			add(true, sentinels[i])
		}
	}
	return e
}

// badRows returns the rows of a RowError, nil if the error is none of a build of the table.
func (w *wireError) badRows(table *model.TableInfo) (rows []encode.BadRow) {
	if table == nil {
		return nil
	}
	for _, r := range w.BadRows {
		idx := model.FindIndexInfoByID(table.Indices, r.Index)
		if idx == nil {
			return nil
		}
		rows = append(rows, encode.BadRow{Index: idx, Column: model.FindColumnInfoByID(table.Columns, r.Column), Key: r.Key, Err: r.Err.err(table)})
	}
	return rows
}
