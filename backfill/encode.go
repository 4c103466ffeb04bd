package backfill

import (
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ingest"
	"fastddl/kv"
)

// NullError says that a row has a NULL in a column of a primary key to build.
type NullError struct {
	Column string
}

func (e *NullError) Error() string { return "NULL in primary key column " + e.Column }

// Unwrap returns TiDB's error (1138).
func (e *NullError) Unwrap() error { return dbterror.ErrInvalidUseOfNull.FastGenByArgs() }

// encoders encode the entries of all indexes of a projection. They are used by
// one goroutine.
type encoders struct {
	virtual *virtualColumns // nil if there are none
	indexes []*indexEncoder // in the order of the projection
}

func newEncoders(p *projection) (*encoders, error) {
	e := &encoders{}
	var err error
	if e.virtual, err = newVirtualColumns(p); err != nil {
		return nil, err
	}
	for _, idx := range p.indexes {
		enc, err := newIndexEncoder(idx, p)
		if err != nil {
			return nil, err
		}
		e.indexes = append(e.indexes, enc)
	}
	return e, nil
}

// bind makes the encoders read from b, whose rows are of the given physical
// table. It fails with a *RowError if an expression has no value for one of them.
func (e *encoders) bind(b *kv.RowBatch, physicalID int64) (err error) {
	if e.virtual != nil {
		if b, err = e.virtual.extend(b, physicalID); err != nil {
			return err
		}
	}
	for _, enc := range e.indexes {
		enc.bind(b, physicalID)
	}
	return nil
}

// indexEncoder encodes the entries of one index from the columns of row
// batches.
type indexEncoder struct {
	index *model.IndexInfo
	keys  []keyColumn
	value valueEncoder
	// library encodes entries of kinds that are rare enough to be left to TiDB's
	// package tables; nil for the others.
	library *libraryEncoder

	batch      *kv.RowBatch
	physicalID int64
	buf        []byte
}

// emitter takes the entry of row i: the key without the index prefix, klen bytes
// long, and the value behind it. The slice is valid until it returns.
type emitter func(i int, kv []byte, klen int) error

func newIndexEncoder(index *model.IndexInfo, p *projection) (*indexEncoder, error) {
	e := &indexEncoder{index: index}
	for _, ic := range index.Columns {
		info := p.table.Columns[ic.Offset]
		position, ok := p.position[info.ID]
		if !ok {
			return nil, fmt.Errorf("backfill: column %s of index %s is not scanned", info.Name.O, index.Name.O)
		}
		e.keys = append(e.keys, newKeyColumn(ic, info, position))
	}
	e.value = newValueEncoder(p, index, e.keys)
	if index.MVIndex || global(p.table, index) {
		e.library = newLibraryEncoder(p, index)
	}
	return e, nil
}

// bind makes the encoder read from b.
func (e *indexEncoder) bind(b *kv.RowBatch, physicalID int64) {
	e.batch, e.physicalID = b, physicalID
	for i := range e.keys {
		e.keys[i].bind(b.Rows)
	}
	if e.library != nil {
		e.library.bind(b, physicalID)
	}
}

// encode emits the entries of all rows: one for each, but in a multi-valued index
// any number. Rows that have none are a *RowError; in a primary key a NULL is a *NullError in it.
func (e *indexEncoder) encode(emit emitter) error {
	if e.library != nil {
		return e.encodeByLibrary(emit)
	}
	for i := range e.batch.NumRows() {
		kv, klen, err := e.entry(i)
		if err != nil {
			return e.rowError(i, err)
		}
		if err := emit(i, kv, klen); err != nil {
			return err
		}
	}
	return nil
}

// encodeByLibrary is encode for the rare kinds.
func (e *indexEncoder) encodeByLibrary(emit emitter) error {
	var emitted error
	keep := func(i int, kv []byte, klen int) error {
		emitted = emit(i, kv, klen)
		return emitted
	}
	for i := range e.batch.NumRows() {
		err := e.library.encode(i, e.keys, keep)
		switch {
		case emitted != nil: // nothing is wrong with the row
			return emitted
		case errors.As(err, new(*ingest.DuplicateError)):
			return err
		case err != nil:
			return e.rowError(i, err)
		}
	}
	return nil
}

// entry encodes the entry of row i.
func (e *indexEncoder) entry(i int) (kv []byte, klen int, err error) {
	b := e.buf[:0]
	// The key is unique by itself if the index is, and none of the columns is NULL.
	distinct := e.index.Unique
	for k := range e.keys {
		c := &e.keys[k]
		if distinct && c.column.IsNull(i) {
			if e.index.Primary {
				return nil, 0, &NullError{Column: c.info.Name.O}
			}
			distinct = false
		}
		if b, err = c.append(b, e.batch.Rows, i); err != nil {
			return nil, 0, err
		}
	}
	if !distinct {
		b = e.appendHandle(b, i)
	}
	klen = len(b)
	if b, err = e.value.append(b, e.batch, i, distinct); err != nil {
		return nil, 0, err
	}
	e.buf = b
	return b, klen, nil
}

func (e *indexEncoder) appendHandle(b []byte, i int) []byte {
	if e.value.commonHandle {
		return append(b, e.batch.CommonHandle(i)...)
	}
	return codec.EncodeInt(append(b, codec.IntHandleFlag), e.batch.IntHandles[i])
}
