package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/rowcodec"

	"fastddl/kv"
)

// Reader reads some columns of a table's rows through a snapshot or a
// transaction. It must be used by one goroutine at a time.
type Reader struct {
	table *Table
	kv    kv.Retriever
	loc   *time.Location
	cols  []*model.ColumnInfo
	// computed computes the virtual columns among cols; nil if there are none.
	computed *computedColumns

	// fields and decoder belong to the columns that are read from rows.
	fields  []*types.FieldType
	decoder *rowcodec.ChunkDecoder

	// Values point into chunk. Chunks are not reused, so that values stay valid.
	chunk *chunk.Chunk
}

// Reader returns a reader of the given columns, which are offsets into
// Columns; nil is all of them. TIMESTAMP values are converted to loc; nil is
// UTC.
func (t *Table) Reader(r kv.Retriever, cols []int, loc *time.Location) *Reader {
	rd := &Reader{table: t, kv: r, loc: loc}
	if loc == nil {
		rd.loc = time.UTC
	}
	if cols == nil {
		rd.cols = t.public
	} else {
		rd.cols = make([]*model.ColumnInfo, len(cols))
		for i, off := range cols {
			rd.cols[i] = t.public[off]
		}
	}
	stored, loc := rd.cols, rd.loc
	if rd.computed = newComputedColumns(rd); rd.computed != nil {
		stored, loc = rd.computed.inputs, time.UTC
	}
	rd.fields, rd.decoder = t.newDecoder(stored, loc)
	return rd
}

func (t *Table) newDecoder(cols []*model.ColumnInfo, loc *time.Location) ([]*types.FieldType, *rowcodec.ChunkDecoder) {
	infos := make([]rowcodec.ColInfo, len(cols))
	fields := make([]*types.FieldType, len(cols))
	for i, col := range cols {
		infos[i] = t.rowCols[col.Offset]
		fields[i] = &col.FieldType
	}
	missing := func(i int, chk *chunk.Chunk) error {
		d, err := localDefault(t.defaults[cols[i].Offset], loc)
		if err != nil {
			return err
		}
		chk.AppendDatum(i, &d)
		return nil
	}
	handleCols := t.handleColIDs
	if handleCols == nil {
		handleCols = []int64{-1}
	}
	return fields, rowcodec.NewChunkDecoder(infos, handleCols, missing, loc)
}

// localDefault converts a TIMESTAMP, kept in UTC, to loc.
func localDefault(d types.Datum, loc *time.Location) (types.Datum, error) {
	if d.Kind() != types.KindMysqlTime || d.GetMysqlTime().Type() != mysql.TypeTimestamp || loc == time.UTC {
		return d, nil
	}
	ts := d.GetMysqlTime()
	if ts.IsZero() {
		return d, nil
	}
	if err := ts.ConvertTimeZone(time.UTC, loc); err != nil {
		return d, err
	}
	d.SetMysqlTime(ts)
	return d, nil
}

// decodeAll decodes a stored row over all columns of the definition, in UTC.
func (t *Table) decodeAll(h tkv.Handle, value []byte) ([]types.Datum, error) {
	fields, decoder := t.newDecoder(t.meta.Columns, time.UTC)
	chk := chunk.New(fields, 1, 1)
	if err := decoder.DecodeToChunk(value, h, chk); err != nil {
		return nil, fmt.Errorf("decode row %s of table %s: %w", h, t.meta.Name.O, err)
	}
	return chk.GetRow(0).GetDatumRow(fields), nil
}

// Get returns the row with the given handle, or kv.ErrNotExist.
func (rd *Reader) Get(ctx context.Context, h tkv.Handle) ([]types.Datum, error) {
	value, err := rd.kv.Get(ctx, rd.table.RecordKey(h))
	if err != nil {
		return nil, err
	}
	return rd.decode(h, value, make([]types.Datum, len(rd.cols)))
}

func (rd *Reader) decode(h tkv.Handle, value []byte, row []types.Datum) ([]types.Datum, error) {
	if rd.computed != nil {
		return rd.computed.decode(h, value, row)
	}
	return rd.decodeStored(h, value, row)
}

// decodeStored sets row to the columns that are read from a row.
func (rd *Reader) decodeStored(h tkv.Handle, value []byte, row []types.Datum) ([]types.Datum, error) {
	if len(rd.fields) == 0 {
		return row, nil
	}
	if rd.chunk == nil || rd.chunk.IsFull() {
		rd.chunk = nextChunk(rd.fields, rd.chunk)
	}
	if err := rd.decoder.DecodeToChunk(value, h, rd.chunk); err != nil {
		return nil, fmt.Errorf("decode row %s of table %s: %w", h, rd.table.meta.Name.O, err)
	}
	r := rd.chunk.GetRow(rd.chunk.NumRows() - 1)
	for i, ft := range rd.fields {
		row[i] = r.GetDatum(i, ft)
	}
	return row, nil
}

// rowSource walks over one key range and yields rows.
type rowSource func(ctx context.Context, it kv.Iterator, row []types.Datum) (tkv.Handle, []types.Datum, error)

// RowIter yields rows. It must be closed.
type RowIter struct {
	kv      kv.Retriever
	ranges  []kv.KeyRange
	reverse bool
	source  rowSource
	it      kv.Iterator
	row     []types.Datum
}

// Scan reads the rows with keys in the given ranges of record keys, range by
// range; in reverse the last range comes first.
func (rd *Reader) Scan(ranges []kv.KeyRange, reverse bool) (*RowIter, error) {
	return rd.iterate(ranges, reverse, func(_ context.Context, it kv.Iterator, row []types.Datum) (tkv.Handle, []types.Datum, error) {
		h, err := rd.table.handleOfKey(it.Key())
		if err != nil {
			return nil, nil, err
		}
		row, err = rd.decode(h, it.Value(), row)
		return h, row, err
	})
}

// IndexScan reads rows in the order of an index. It reads the index alone if
// that holds all wanted columns, else it looks each row up.
func (rd *Reader) IndexScan(idx *model.IndexInfo, ranges []kv.KeyRange, reverse bool) (*RowIter, error) {
	if c := newCoveringDecoder(rd, idx); c != nil {
		return rd.iterate(ranges, reverse, c.decode)
	}
	return rd.iterate(ranges, reverse, func(ctx context.Context, it kv.Iterator, row []types.Datum) (tkv.Handle, []types.Datum, error) {
		h, err := rd.table.handleOfEntry(idx, it.Key(), it.Value())
		if err != nil {
			return nil, nil, err
		}
		value, err := rd.kv.Get(ctx, rd.table.RecordKey(h))
		if errors.Is(err, kv.ErrNotExist) {
			return nil, nil, fmt.Errorf("index %s of table %s has an entry for handle %s, which has no row",
				idx.Name.O, rd.table.meta.Name.O, h)
		}
		if err != nil {
			return nil, nil, err
		}
		row, err = rd.decode(h, value, row)
		return h, row, err
	})
}

// Covers says whether an index scan finds all of the reader's columns in the
// index.
func (rd *Reader) Covers(idx *model.IndexInfo) bool { return newCoveringDecoder(rd, idx) != nil }

func (rd *Reader) iterate(ranges []kv.KeyRange, reverse bool, source rowSource) (*RowIter, error) {
	if rd.table.err != nil {
		return nil, rd.table.err
	}
	return &RowIter{kv: rd.kv, ranges: ranges, reverse: reverse, source: source, row: make([]types.Datum, len(rd.cols))}, nil
}

// Next returns the next row, or io.EOF. The slice is valid until the next call,
// the values in it for good.
func (it *RowIter) Next(ctx context.Context) (tkv.Handle, []types.Datum, error) {
	for it.it == nil || !it.it.Valid() {
		if err := it.nextRange(); err != nil {
			return nil, nil, err
		}
	}
	h, row, err := it.source(ctx, it.it, it.row)
	if err != nil {
		return nil, nil, err
	}
	return h, row, it.it.Next()
}

func (it *RowIter) nextRange() error {
	if err := it.Close(); err != nil {
		return err
	}
	if len(it.ranges) == 0 {
		return io.EOF
	}
	var r kv.KeyRange
	var err error
	if it.reverse {
		last := len(it.ranges) - 1
		r, it.ranges = it.ranges[last], it.ranges[:last]
		it.it, err = it.kv.IterReverse(r)
	} else {
		r, it.ranges = it.ranges[0], it.ranges[1:]
		it.it, err = it.kv.Iter(r)
	}
	return err
}

// Close ends the iteration.
func (it *RowIter) Close() error {
	if it.it == nil {
		return nil
	}
	err := it.it.Close()
	it.it = nil
	return err
}
