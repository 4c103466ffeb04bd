package sql

import (
	"errors"
	"fmt"
	"io"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/kv"
	"fastddl/sql/sqlerr"
	"fastddl/sql/sqltype"
	"fastddl/table"
)

// rowIter yields the rows of a partition.
type rowIter struct {
	tx     *transaction
	def    *tableDef
	part   *partition
	loc    *time.Location
	reader *table.Reader
	rows   *table.RowIter

	codecs []*sqltype.Codec
	// width is the number of values in a row of go-mysql-server's, and at where in
	// it the values read go.
	width int
	at    []int
	// rowIDAt is the position of the row ID in a row, -1 if not wanted.
	rowIDAt int
	lock    bool
	started bool
	done    bool
}

func newRowIter(ctx *gms.Context, t *Table, part *partition) (*rowIter, error) {
	s, err := sessionOf(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := s.begun(ctx)
	if err != nil {
		return nil, err
	}
	it := &rowIter{
		tx:      tx,
		def:     t.def,
		part:    part,
		loc:     s.location,
		codecs:  t.def.codecs,
		rowIDAt: -1,
		lock:    s.locking && s.explicit(),
	}
	it.place(t)
	columns := t.readColumns()
	if columns != nil {
		it.codecs = make([]*sqltype.Codec, len(columns))
		for i, at := range columns {
			it.codecs[i] = t.def.codecs[at]
		}
	}
	tx.reads = true
	it.reader = t.def.table.Reader(tx.txn, columns, nil)
	return it, nil
}

// place notes where in a row what is read goes.
func (it *rowIter) place(t *Table) {
	it.width = len(t.schema)
	for i := range t.schema {
		ordinal := i
		if t.columns != nil {
			ordinal = t.columns[i]
		}
		switch {
		case ordinal < t.def.width():
			it.at = append(it.at, i)
		case t.def.hasValue(ordinal):
			it.rowIDAt = i
		}
	}
}

// Next implements sql.RowIter.
func (it *rowIter) Next(ctx *gms.Context) (gms.Row, error) {
	h, values, err := it.next(ctx)
	if err == io.EOF {
		return nil, io.EOF
	}
	if err != nil {
		return nil, sqlerr.Translate(err)
	}
	if it.lock {
		if err := it.tx.txn.LockKeys(it.def.table.RecordKey(h)); err != nil {
			return nil, sqlerr.Translate(err)
		}
		it.tx.locked = true
	}
	return it.row(h, values)
}

func (it *rowIter) next(ctx *gms.Context) (tkv.Handle, []types.Datum, error) {
	if it.done {
		return nil, nil, io.EOF
	}
	if it.part.point != nil {
		it.done = true
		h, values, err := it.pointGet(ctx)
		if errors.Is(err, kv.ErrNotExist) {
			err = io.EOF
		}
		return h, values, err
	}
	if !it.started {
		if err := it.start(); err != nil {
			return nil, nil, err
		}
	}
	return it.rows.Next(ctx)
}

func (it *rowIter) start() error {
	it.started = true
	var err error
	if x := it.part.index; x != nil && !x.clustered {
		it.rows, err = it.reader.IndexScan(x.info, it.part.ranges, it.part.reverse)
	} else {
		it.rows, err = it.reader.Scan(it.part.ranges, it.part.reverse)
	}
	if err != nil {
		return err
	}
	if it.tx.iters == nil {
		it.tx.iters = make(map[*rowIter]struct{})
	}
	it.tx.iters[it] = struct{}{}
	return nil
}

// pointGet reads the row with a unique key, or fails with kv.ErrNotExist.
func (it *rowIter) pointGet(ctx *gms.Context) (tkv.Handle, []types.Datum, error) {
	h, err := it.pointHandle(ctx)
	if err != nil {
		return nil, nil, err
	}
	values, err := it.reader.Get(ctx, h)
	return h, values, err
}

func (it *rowIter) pointHandle(ctx *gms.Context) (tkv.Handle, error) {
	x, values := it.part.index, it.part.point
	if x.clustered && it.def.info.PKIsHandle {
		return tkv.IntHandle(values[0].GetInt64()), nil
	}
	at := table.Bound{Values: values, Inclusive: true}
	ranges, err := x.keyRanges(bounds{lo: at, hi: at})
	if err != nil {
		return nil, err
	}
	key := ranges[0].Start
	if x.clustered {
		return tablecodec.DecodeRowKey(key)
	}
	value, err := it.tx.txn.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return tablecodec.DecodeIndexHandle(key, value, len(x.info.Columns))
}

func (it *rowIter) row(h tkv.Handle, values []types.Datum) (gms.Row, error) {
	row := make(gms.Row, it.width)
	for i := range values {
		v, err := it.codecs[i].Decode(&values[i], it.loc)
		if err != nil {
			return nil, fmt.Errorf("table %s, handle %s: %w", it.def.info.Name.O, h, err)
		}
		row[it.at[i]] = v
	}
	if it.rowIDAt >= 0 {
		row[it.rowIDAt] = h.IntValue()
	}
	return row, nil
}

// Close implements sql.RowIter.
func (it *rowIter) Close(*gms.Context) error {
	delete(it.tx.iters, it)
	return it.close()
}

func (it *rowIter) close() error {
	it.done = true
	if it.rows == nil {
		return nil
	}
	err := it.rows.Close()
	it.rows = nil
	return err
}
