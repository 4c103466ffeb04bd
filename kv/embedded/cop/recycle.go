package cop

import (
	"sync"

	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
)

// allocators hold the columns of chunks that requests have done with, for later ones. Most of what a short request
// allocated were columns that grew to the size of its rows.
var allocators = sync.Pool{New: func() any { return chunk.NewAllocator() }}

// newChunk returns an empty chunk with room for n rows, or more. It lives until recycle.
func (e *evalEnv) newChunk(fields []*types.FieldType, n int) *chunk.Chunk {
	return e.chunks.Alloc(fields, n, n)
}

// recycle ends the life of the request's chunks: nothing may refer to them any more, which the encoded answer does not. The
// columns of a request that has read many pairs may be large, and are left to the garbage collector.
func (e *evalEnv) recycle(pairs uint64) {
	if pairs > firstBatch {
		return
	}
	e.chunks.Reset()
	allocators.Put(e.chunks)
	e.chunks = nil

}

// exact returns the rows of the batch in a chunk without much room for more, which is the size that chunk.Codec makes its
// buffer of. Only a few rows are worth it.
func exact(batch *chunk.Chunk, fields []*types.FieldType) *chunk.Chunk {
	n := batch.NumRows()
	if n >= smallBatch || batch.MemoryUsage() < exactFrom {
		return batch
	}
	few := chunk.NewChunkWithCapacity(fields, n)
	few.Append(batch, 0, n)
	return few
}

// exactFrom is the size in bytes from which on a chunk of a few rows is copied before it is encoded.
const exactFrom = 4 << 10
