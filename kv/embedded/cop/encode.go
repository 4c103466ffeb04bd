package cop

import (
	"encoding/binary"
	"fmt"

	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tipb/go-tipb"
)

// sink encodes what the last executor emits, in the encoding that the request asks for.
type sink struct {
	offsets []int // the columns that the client wants, in its order
	fields  []*types.FieldType
	encode  func(batch *chunk.Chunk) error
	page    uint64 // rows after which the scan is to stop, 0 if there is no such number

	rows   uint64
	bytes  uint64 // of the chunks
	chunks []tipb.Chunk
	env    *evalEnv
	codec  *chunk.Codec  // for chunk encoding
	buffer *chunk.Chunk  // batches too small to be encoded alone
	datums []types.Datum // for row encoding
}

// newSink makes a sink for batches with these columns.
func newSink(env *evalEnv, req *tipb.DAGRequest, fields []*types.FieldType, page uint64) (*sink, error) {
	s := &sink{env: env, page: page}
	if req.OutputOffsets == nil {
		for i := range fields {
			s.offsets = append(s.offsets, i)
		}
	}
	for _, at := range req.OutputOffsets {
		if int(at) >= len(fields) {
			return nil, fmt.Errorf("output offset %d of %d columns", at, len(fields))
		}
		s.offsets = append(s.offsets, int(at))
	}
	for _, at := range s.offsets {
		s.fields = append(s.fields, fields[at])
	}
	switch req.EncodeType {
	case tipb.EncodeType_TypeDefault:
		s.encode = s.encodeRows
	case tipb.EncodeType_TypeChunk:
		s.codec = chunk.NewCodec(s.fields)
		s.encode = s.encodeColumns
	default:
		return nil, fmt.Errorf("encode type %s is not supported", req.EncodeType)
	}
	return s, nil
}

// full says that there are enough rows for a page.
func (s *sink) full() bool { return s.page > 0 && s.rows >= s.page }

// push is the emitFunc of the last executor. It takes all that there is.
func (s *sink) push(batch *chunk.Chunk) (more bool, err error) {
	s.rows += uint64(batch.NumRows())
	if err := s.encode(batch.Prune(s.offsets)); err != nil {
		return false, err
	}
	return true, nil
}

// finish encodes what is still buffered.
func (s *sink) finish() {
	if s.buffer != nil && s.buffer.NumRows() > 0 {
		s.add(s.codec.Encode(s.buffer))
		s.buffer.Reset()
	}
}

func (s *sink) add(data []byte) {
	s.chunks = append(s.chunks, tipb.Chunk{RowsData: data})
	s.bytes += uint64(len(data))
}

// encodeColumns encodes the batch column by column, together with its neighbours if it is small; the first is often the only
// one.
func (s *sink) encodeColumns(batch *chunk.Chunk) error {
	n := batch.NumRows()
	if len(s.chunks) == 0 && n <= firstBatch {
		s.env.buffer = buffers.Get().(*[]byte)
		*s.env.buffer = appendColumns((*s.env.buffer)[:0], batch, s.fields)
		s.add(*s.env.buffer)
		return nil
	}
	if n >= firstBatch || dataSize(batch, s.fields) >= largeBatch {
		s.finish()
		s.add(s.codec.Encode(batch))
		return nil
	}
	if s.buffer == nil {
		s.buffer = chunk.NewChunkWithCapacity(s.fields, n)
	}
	s.buffer.Append(batch, 0, n)
	if s.buffer.NumRows() >= maxBatch {
		s.finish()
	}
	return nil
}

// largeBatch is the size of values, in bytes, from which on a batch is encoded alone.
const largeBatch = 64 << 10

// dataSize is the size of a batch's values.
func dataSize(batch *chunk.Chunk, fields []*types.FieldType) (bytes int) {
	n := batch.NumRows()
	for k, ft := range fields {
		if size := chunk.GetFixedLen(ft); size != chunk.VarElemLen {
			bytes += n * size
			continue
		}
		col := batch.Column(k)
		for i := range n {
			bytes += len(col.GetRaw(i))
		}
	}
	return bytes
}

// appendColumns appends what chunk.Codec encodes, which makes a buffer of its own for each chunk.
func appendColumns(buf []byte, batch *chunk.Chunk, fields []*types.FieldType) []byte {
	n := batch.NumRows()
	for k, ft := range fields {
		col := batch.Column(k)
		nulls := 0
		for i := range n {
			if col.IsNull(i) {
				nulls++
			}
		}
		buf = binary.LittleEndian.AppendUint32(buf, uint32(n))
		buf = binary.LittleEndian.AppendUint32(buf, uint32(nulls))
		if nulls > 0 {
			buf = appendNotNull(buf, col, n)
		}
		if chunk.GetFixedLen(ft) == chunk.VarElemLen {
			end := int64(0)
			buf = binary.LittleEndian.AppendUint64(buf, 0)
			for i := range n {
				end += int64(len(col.GetRaw(i)))
				buf = binary.LittleEndian.AppendUint64(buf, uint64(end))
			}
		}
		for i := range n {
			buf = append(buf, col.GetRaw(i)...)
		}
	}
	return buf
}

// appendNotNull appends a bit for each value, the lowest of a byte first: 1 if it is not null.
func appendNotNull(buf []byte, col *chunk.Column, n int) []byte {
	start := len(buf)
	buf = append(buf, make([]byte, (n+7)/8)...)
	for i := range n {
		if !col.IsNull(i) {
			buf[start+i/8] |= 1 << (i % 8)
		}
	}
	return buf
}

// encodeRows encodes the batch row by row, as datums with their flags.
func (s *sink) encodeRows(batch *chunk.Chunk) error {
	var data []byte
	for i := range batch.NumRows() {
		row := batch.GetRow(i)
		s.datums = s.datums[:0]
		for k, ft := range s.fields {
			d := row.GetDatum(k, ft)
			if d.Kind() == types.KindMysqlDecimal {
				d.SetLength(0) // all digits that there are, which may be more than the type declares
			}
			s.datums = append(s.datums, d)
		}
		var err error
		if data, err = codec.EncodeValue(s.env.loc, data, s.datums...); err != nil {
			return err
		}
	}
	s.add(data)
	return nil
}
