package cop

import (
	"context"
	"fmt"
	"slices"

	"github.com/pingcap/kvproto/pkg/coprocessor"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/charset"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/planner/core/resolve"
	"github.com/pingcap/tidb/pkg/sessionctx/stmtctx"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tipb/go-tipb"
)

// rowSource reads rows for TiDB's sample builders, which pull them: it is a sqlexec.RecordSet whose columns are the encoded
// values of the analyzed columns. Each call of Next scans on from where the last one stopped.
type rowSource struct {
	ctx    context.Context // of the request; the builders pass none
	reader Reader
	ranges []scanRange // what is still to be read
	most   uint64      // bytes after which no more rows are handed out, 0 if there is no such number
	full   bool        // says that there were as many
	bytes  uint64      // of the rows that were handed out
	count  int         // of these rows

	sc      *stmtctx.StatementContext
	onKey   func(key []byte) error
	decoder *rowDecoder
	row     *chunk.Chunk // the row that is being encoded
	fields  []*resolve.ResultField
}

func (s *rowSource) init(sc *stmtctx.StatementContext, req *tipb.AnalyzeColumnsReq, onKey func(key []byte) error) {
	s.sc, s.onKey = sc, onKey
	s.decoder = newRowDecoder(req.ColumnsInfo, req.PrimaryColumnIds, sc.TimeZone())
	s.decoder.absent = make([]int, len(req.ColumnsInfo))
	s.row = chunk.NewChunkWithCapacity(s.decoder.fields, 1)
	s.fields = make([]*resolve.ResultField, len(req.ColumnsInfo))
	for i := range s.fields {
		ft := types.NewFieldType(mysql.TypeBlob)
		ft.SetFlen(mysql.MaxBlobWidth)
		ft.SetCharset(charset.CharsetUTF8)
		ft.SetCollate(charset.CollationUTF8)
		s.fields[i] = &resolve.ResultField{Column: &model.ColumnInfo{FieldType: *ft}}
	}
}

// Fields implements sqlexec.RecordSet.
func (s *rowSource) Fields() []*resolve.ResultField { return s.fields }

// NewChunk implements sqlexec.RecordSet.
func (s *rowSource) NewChunk(chunk.Allocator) *chunk.Chunk {
	fts := make([]*types.FieldType, len(s.fields))
	for i, f := range s.fields {
		fts[i] = &f.Column.FieldType
	}
	return chunk.NewChunkWithCapacity(fts, maxBatch)
}

// Close implements sqlexec.RecordSet.
func (s *rowSource) Close() error { return nil }

// Next implements sqlexec.RecordSet.
func (s *rowSource) Next(_ context.Context, out *chunk.Chunk) error {
	out.Reset()
	if err := s.ctx.Err(); err != nil {
		return storageErrorf("coprocessor request given up: %w", err)
	}
	if s.full = s.most > 0 && s.bytes >= s.most; s.full {
		return nil
	}
	before := s.bytes
	for len(s.ranges) > 0 && out.NumRows() < maxBatch && s.bytes-before < maxBatchBytes {
		r := &s.ranges[0]
		full := false
		err := s.reader.Scan(s.ctx, r.start, r.end, false, func(key, value []byte) (bool, error) {
			if err := s.add(key, value, out); err != nil {
				return false, fmt.Errorf("row of key %x: %w", key, err)
			}
			if full = out.NumRows() >= maxBatch || s.bytes-before >= maxBatchBytes; full {
				r.start = successor(key)
			}
			return !full, nil
		})
		if err != nil {
			return readError(err)
		}
		if !full {
			s.ranges = s.ranges[1:]
		}
	}
	return nil
}

// add decodes a row and appends its encoded columns.
func (s *rowSource) add(key, value []byte, out *chunk.Chunk) error {
	if s.onKey != nil {
		if err := s.onKey(key); err != nil {
			return err
		}
	}
	s.row.Reset()
	if err := s.decoder.decode(key, value, s.row); err != nil {
		return err
	}
	s.count++
	row := s.row.GetRow(0)
	for i, ft := range s.decoder.fields {
		d := row.GetDatum(i, ft)
		if d.IsNull() {
			out.AppendNull(i)
			continue
		}
		encoded, err := tablecodec.EncodeValue(s.sc.TimeZone(), nil, d)
		if err = s.sc.HandleError(err); err != nil {
			return err
		}
		out.AppendBytes(i, encoded)
		s.bytes += uint64(len(encoded))
	}
	return nil
}

// mayCompute says that the SQL layer may compute a column from others: rows never hold a virtual one. They do not hold NULL
// either, mostly, nor the default of a column that was added later.
func (s *rowSource) mayCompute() bool { return slices.Contains(s.decoder.absent, s.count) }

// rest returns the ranges that are still to be read.
func (s *rowSource) rest() []*coprocessor.KeyRange {
	left := make([]*coprocessor.KeyRange, len(s.ranges))
	for i, r := range s.ranges {
		left[i] = &coprocessor.KeyRange{Start: r.start, End: r.end}
	}
	return left
}

// countingReader counts what is read.
type countingReader struct {
	Reader
	keys, bytes uint64
}

// Scan implements Reader.
func (r *countingReader) Scan(ctx context.Context, start, end []byte, desc bool, fn func(key, value []byte) (bool, error)) error {
	return r.Reader.Scan(ctx, start, end, desc, func(key, value []byte) (bool, error) {
		r.keys++
		r.bytes += uint64(len(key) + len(value))
		return fn(key, value)
	})
}
