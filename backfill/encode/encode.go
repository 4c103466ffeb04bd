package encode

import (
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/util/codec"

	"fastddl/ingest"
	"fastddl/kv"
)

// Encoders encode the entries of all indexes of a projection. They are used by
// one goroutine.
type Encoders struct {
	virtual *virtualColumns // nil if there are none
	Indexes []*IndexEncoder // in the order of the projection
}

// NewEncoders returns encoders of all indexes of a projection.
func NewEncoders(p *Projection) (*Encoders, error) {
	e := &Encoders{}
	var err error
	if e.virtual, err = newVirtualColumns(p); err != nil {
		return nil, err
	}
	for _, idx := range p.indexes {
		enc, err := newIndexEncoder(idx, p)
		if err != nil {
			return nil, err
		}
		e.Indexes = append(e.Indexes, enc)
	}
	return e, nil
}

// Bind makes the encoders read from b, whose rows are of the given physical
// table. It fails with a *RowError if an expression has no value for one of them.
func (e *Encoders) Bind(b *kv.RowBatch, physicalID int64) (err error) {
	if e.virtual != nil {
		if b, err = e.virtual.extend(b, physicalID); err != nil {
			return err
		}
	}
	for _, enc := range e.Indexes {
		enc.bind(b, physicalID)
	}
	return nil
}

// IndexEncoder encodes the entries of one index from the columns of row
// batches.
type IndexEncoder struct {
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

func newIndexEncoder(index *model.IndexInfo, p *Projection) (*IndexEncoder, error) {
	e := &IndexEncoder{index: index}
	for _, ic := range index.Columns {
		info := p.table.Columns[ic.Offset]
		position, ok := p.position[info.ID]
		if !ok {
			return nil, fmt.Errorf("backfill: column %s of index %s is not scanned", info.Name.O, index.Name.O)
		}
		e.keys = append(e.keys, newKeyColumn(ic, info, position))
	}
	e.value = newValueEncoder(p, index, e.keys)
	if index.MVIndex || IsGlobal(p.table, index) {
		e.library = newLibraryEncoder(p, index)
	}
	return e, nil
}

// bind makes the encoder read from b.
func (e *IndexEncoder) bind(b *kv.RowBatch, physicalID int64) {
	e.batch, e.physicalID = b, physicalID
	for i := range e.keys {
		e.keys[i].bind(b.Rows)
	}
	if e.library != nil {
		e.library.bind(b, physicalID)
	}
}

// Encode emits the entries of all rows: one for each, but in a multi-valued index
// any number. Rows that have none are a *RowError; in a primary key a NULL is a *NullError in it.
func (e *IndexEncoder) Encode(emit Emitter) error {
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
func (e *IndexEncoder) encodeByLibrary(emit Emitter) error {
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
func (e *IndexEncoder) entry(i int) (kv []byte, klen int, err error) {
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

func (e *IndexEncoder) appendHandle(b []byte, i int) []byte {
	if e.value.commonHandle {
		return append(b, e.batch.CommonHandle(i)...)
	}
	return codec.EncodeInt(append(b, codec.IntHandleFlag), e.batch.IntHandles[i])
}

// rowError returns the error of rows that the index has no entries for: row i, which has failed with err, and those behind it.
func (e *IndexEncoder) rowError(i int, err error) error {
	found := &RowError{Rows: []BadRow{e.badRow(i, err)}}
	none := func(int, []byte, int) error { return nil }
	for i++; i < e.batch.NumRows() && len(found.Rows) < MaxBadRows; i++ {
		if e.library != nil {
			err = e.library.encode(i, e.keys, none)
		} else {
			_, _, err = e.entry(i)
		}
		if err != nil && !errors.As(err, new(*ingest.DuplicateError)) {
			found.Rows = append(found.Rows, e.badRow(i, err))
		}
	}
	return found
}

func (e *IndexEncoder) badRow(i int, err error) BadRow {
	bad := BadRow{Index: e.index, Key: rowKey(e.batch, e.value.commonHandle, e.physicalID, i), Err: err}
	var null *NullError
	isNull := errors.As(err, &null)
	for k := range e.keys {
		c := &e.keys[k]
		fails := isNull && null.Column == c.info.Name.O
		if !isNull {
			_, err := c.append(nil, e.batch.Rows, i)
			fails = err != nil || len(e.keys) == 1
		}
		if fails {
			bad.Column = c.info
			break
		}
	}
	return bad
}
