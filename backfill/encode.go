package backfill

import (
	"fmt"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/util/codec"

	"fastddl/kv"
)

// NullError says that a row has a NULL in a column of a primary key to build.
type NullError struct {
	Column string
}

func (e *NullError) Error() string { return "NULL in primary key column " + e.Column }

// indexEncoder encodes the entries of one index from the columns of row
// batches. It is used by one goroutine.
type indexEncoder struct {
	index  *model.IndexInfo
	prefix []byte
	keys   []keyColumn
	value  valueEncoder
	// computed computes the virtual columns; nil if there are none.
	computed *computedColumns

	batch *kv.RowBatch
	buf   []byte
}

func newIndexEncoder(table *model.TableInfo, index *model.IndexInfo, p *projection) (*indexEncoder, error) {
	e := &indexEncoder{index: index, prefix: indexPrefix(table.ID, index.ID), computed: newComputedColumns(index, p)}
	for _, ic := range index.Columns {
		info := table.Columns[ic.Offset]
		position, ok := p.position[info.ID]
		if info.IsVirtualGenerated() {
			position, ok = e.computed.position(ic.Offset), true
		}
		if !ok {
			return nil, fmt.Errorf("backfill: column %s of index %s is not scanned", info.Name.O, index.Name.O)
		}
		e.keys = append(e.keys, newKeyColumn(ic, info, position))
	}
	value, err := newValueEncoder(table, index, e.keys, p)
	if err != nil {
		return nil, err
	}
	e.value = value
	return e, nil
}

// bind makes the encoder read from b. It fails if an expression of the index has
// no value for one of the rows.
func (e *indexEncoder) bind(b *kv.RowBatch) error {
	e.batch = b
	if e.computed != nil {
		row, err := e.computed.extend(b)
		if err != nil {
			return e.fail(row, err)
		}
		e.batch = &e.computed.batch
	}
	for i := range e.keys {
		e.keys[i].bind(e.batch.Rows)
	}
	return nil
}

// entry encodes the entry of row i: the key without the index prefix, klen
// bytes long, and the value behind it. distinct says that the key is unique by
// itself: the index is, and none of the columns is NULL; in a primary key a NULL
// is a *NullError. The slice is valid until the next call.
func (e *indexEncoder) entry(i int) (kv []byte, klen int, distinct bool, err error) {
	b := e.buf[:0]
	distinct = e.index.Unique
	for k := range e.keys {
		c := &e.keys[k]
		if distinct && c.column.IsNull(i) {
			if e.index.Primary {
				return nil, 0, false, e.fail(i, &NullError{Column: c.info.Name.O})
			}
			distinct = false
		}
		if b, err = c.append(b, e.batch.Rows, i); err != nil {
			return nil, 0, false, e.fail(i, err)
		}
	}
	if !distinct {
		b = e.appendHandle(b, i)
	}
	klen = len(b)
	if b, err = e.value.append(b, e.batch, i, distinct); err != nil {
		return nil, 0, false, e.fail(i, err)
	}
	e.buf = b
	return b, klen, distinct, nil
}

func (e *indexEncoder) appendHandle(b []byte, i int) []byte {
	if e.value.commonHandle {
		return append(b, e.batch.CommonHandle(i)...)
	}
	return codec.EncodeInt(append(b, codec.IntHandleFlag), e.batch.IntHandles[i])
}

func (e *indexEncoder) fail(i int, err error) error {
	handle := "?"
	if e.value.commonHandle {
		handle = fmt.Sprintf("%x", e.batch.CommonHandle(i))
	} else {
		handle = fmt.Sprint(e.batch.IntHandles[i])
	}
	return fmt.Errorf("backfill: encode entry of index %s for row %s: %w", e.index.Name.O, handle, err)
}
