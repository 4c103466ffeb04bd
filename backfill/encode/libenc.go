package encode

import (
	"bytes"
	"time"

	"github.com/pingcap/tidb/pkg/errctx"
	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/table"
	"github.com/pingcap/tidb/pkg/table/tables"
	"github.com/pingcap/tidb/pkg/types"

	"fastddl/ingest"
	"fastddl/kv"
)

// libraryEncoder encodes entries by TiDB's package tables: those of multi-valued
// indexes, of which a row has as many as its array has different elements, and
// those of global indexes, which name the row's partition.
type libraryEncoder struct {
	p     *Projection
	index *model.IndexInfo
	errs  errctx.Context
	// restored are the columns of a clustered primary key whose values the entries
	// repeat.
	restored []handleColumn

	physicalID int64
	entries    table.Index // for rows of physicalID
	batch      *kv.RowBatch
	values     []types.Datum
	row        map[int64]types.Datum // of restored
	key, value []byte
	// given are the keys that the row has given a multi-valued index. TiDB makes one entry of elements that are equal,
	// and takes 0 and -0.0, which have one key, for different.
	given map[string]struct{}
}

func newLibraryEncoder(p *Projection, index *model.IndexInfo) *libraryEncoder {
	return &libraryEncoder{
		p: p, index: index, errs: p.exprs.ctx.GetEvalCtx().ErrCtx(),
		restored: restoredHandleColumns(p.table),
		values:   make([]types.Datum, len(index.Columns)),
		row:      make(map[int64]types.Datum),
	}
}

func (e *libraryEncoder) bind(b *kv.RowBatch, physicalID int64) {
	e.batch = b
	if e.entries == nil || e.physicalID != physicalID {
		e.physicalID, e.entries = physicalID, tables.NewIndex(physicalID, e.p.table, e.index)
	}
}

// encode emits the entries of row i.
func (e *libraryEncoder) encode(i int, keys []keyColumn, emit Emitter) error {
	row := e.batch.Rows.GetRow(i)
	for k := range keys {
		c := &keys[k]
		if e.index.Primary && c.column.IsNull(i) {
			return &NullError{Column: c.info.Name.O}
		}
		// Not into the last row's datum: a NULL there keeps the string of the value before, and the
		// library counts its trailing spaces.
		e.values[k] = row.GetDatum(c.position, &c.info.FieldType)
	}
	handle, err := e.handle(i)
	if err != nil {
		return err
	}
	for _, c := range e.restored {
		e.row[c.info.ID] = row.GetDatum(e.p.position[c.info.ID], &c.info.FieldType)
	}
	var restored []types.Datum
	if len(e.restored) > 0 {
		restored = tables.TryGetHandleRestoredDataWrapper(e.p.table, nil, e.row, e.index)
	}
	clear(e.given)
	it := e.entries.GenIndexKVIter(e.errs, time.UTC, e.values, handle, restored)
	for it.Valid() {
		distinct := false
		if e.key, e.value, distinct, err = it.Next(e.key, e.value); err != nil {
			return err
		}
		if again := e.index.MVIndex && e.gives(e.key); again && distinct {
			// DML refuses such a row.
			return &ingest.DuplicateError{Groups: []*ingest.DuplicateGroup{ingest.NewDuplicateGroup(e.index.ID, e.key, e.value)}}
		} else if again {
			continue
		}
		// The value goes behind the key, and the prefix is left out.
		klen := len(e.key) - PrefixLen
		e.key = append(e.key, e.value...)
		if err := emit(i, e.key[PrefixLen:], klen); err != nil {
			return err
		}
	}
	return nil
}

// gives notes a key of the row and reports whether the row has given it before.
func (e *libraryEncoder) gives(key []byte) (again bool) {
	if _, again = e.given[string(key)]; !again {
		if e.given == nil {
			e.given = make(map[string]struct{})
		}
		e.given[string(key)] = struct{}{}
	}
	return again
}

func (e *libraryEncoder) handle(i int) (tkv.Handle, error) {
	if !e.p.table.IsCommonHandle {
		return tkv.IntHandle(e.batch.IntHandles[i]), nil
	}
	return tkv.NewCommonHandle(bytes.Clone(e.batch.CommonHandle(i)))
}
