package cop

import (
	"sync"

	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/chunk"
)

// allocators keep the columns of chunks of requests that have ended, for later ones. Most of what a short request
// allocated were columns that grew to the size of its rows.
var allocators = sync.Pool{New: func() any { return chunk.NewAllocator() }}

// keyMemory is the memory that an encoder of keys, and an aggregation by them, need.
type keyMemory struct {
	keys  [][]byte
	index groupIndex
}

// keyMemories are those of requests that have ended.
var keyMemories = sync.Pool{New: func() any { return new(keyMemory) }}

// newKeyMemory returns room for keys. It lives until recycle.
func (e *evalEnv) newKeyMemory() *keyMemory {
	m := keyMemories.Get().(*keyMemory)
	e.memories = append(e.memories, m)
	return m
}

// buffers hold the encoded rows of answers, until those are put together.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// newChunk returns an empty chunk with room for n rows, or more. It lives until recycle.
func (e *evalEnv) newChunk(fields []*types.FieldType, n int) *chunk.Chunk {
	return e.chunks.Alloc(fields, n, n)
}

// recycle ends the life of the request's chunks, keys and encoded rows. Nothing may refer to them any more; the answer does
// not. It leaves those of a request that has read many pairs, or large ones, to the garbage collector.
func (e *evalEnv) recycle(pairs, bytes uint64) {
	if pairs > firstBatch || bytes > recycledBytes {
		return
	}
	e.chunks.Reset()
	allocators.Put(e.chunks)
	e.chunks = nil
	for _, m := range e.memories {
		m.index.reset()
		keyMemories.Put(m)
	}
	e.memories = nil
	if e.buffer != nil && cap(*e.buffer) <= recycledBytes { // expressions make large values of small ones
		buffers.Put(e.buffer)
	}
	e.buffer = nil
}

// recycledBytes bounds what a request may have read, in bytes, for its memory to be kept.
const recycledBytes = 256 << 10
