package table

import (
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
)

const (
	// chunkRows is how many decoded rows share one chunk at most. The first row of
	// a reader has one of its own, for point reads, and each chunk is chunkGrowth
	// times as large as the one before.
	chunkRows   = 64
	chunkGrowth = 8
)

// zeros is what room for strings is made with.
var zeros [16 << 10]byte

// nextChunk returns the chunk that follows last, which is full; nil is the
// first. Its strings have room for as much as those of last took: a buffer that
// grows row by row allocates three times as much in all.
func nextChunk(fields []*types.FieldType, last *chunk.Chunk) *chunk.Chunk {
	if last == nil {
		return chunk.New(fields, 1, 1)
	}
	rows := min(chunkRows, chunkGrowth*last.NumRows())
	next := chunk.New(fields, rows, rows)
	for i, ft := range fields {
		if chunk.GetFixedLen(ft) == chunk.VarElemLen {
			need := columnBytes(last.Column(i)) * rows / last.NumRows()
			next.AppendBytes(i, zeros[:min(need, len(zeros))])
		}
	}
	next.Reset()
	return next
}

// columnBytes is the size of all values of a column.
func columnBytes(col *chunk.Column) (n int) {
	for i := range col.Rows() {
		n += len(col.GetRaw(i))
	}
	return n
}
