package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

const (
	blockShift = 18
	// blockSize is the size of an arena's blocks in bytes.
	blockSize = 1 << blockShift
	blockMask = blockSize - 1
	// maxBlocks is how many blocks positions of 32 bits can address.
	maxBlocks = 1 << (32 - blockShift)
	// MaxEntrySize is the greatest size of key and value of one entry in bytes.
	MaxEntrySize = blockSize - 2*binary.MaxVarintLen32
)

type block = [blockSize]byte

// blockPool keeps arena blocks from one chunk to the next: fresh memory costs a
// page fault every 4 KiB, which is as much as encoding the entries in it.
var blockPool = sync.Pool{New: func() any { return new(block) }}

// arena holds entries back to back in blocks of fixed size, each as
//
//	uvarint(len(key)) uvarint(len(value)) key value
//
// An entry never crosses a block and is named by its position: the number of
// its block and the offset in it.
type arena struct {
	blocks []*block
	ends   []uint32 // used bytes of each block but the last
	used   int      // used bytes of the last block
	count  int
	bytes  int64 // of keys and values
}

// append copies an entry into the arena.
func (a *arena) append(key, value []byte) error {
	need := 2*binary.MaxVarintLen32 + len(key) + len(value)
	if len(a.blocks) == 0 || a.used+need > blockSize {
		if need > blockSize {
			return fmt.Errorf("ingest: index entry of %d bytes is larger than %d", len(key)+len(value), MaxEntrySize)
		}
		if len(a.blocks) == maxBlocks {
			return errors.New("ingest: too many index entries in one batch")
		}
		a.grow()
	}
	b := a.blocks[len(a.blocks)-1][a.used:a.used:blockSize]
	b = appendLen(b, len(key))
	b = appendLen(b, len(value))
	b = append(b, key...)
	b = append(b, value...)
	a.used += len(b)
	a.count++
	a.bytes += int64(len(key) + len(value))
	return nil
}

func (a *arena) grow() {
	if len(a.blocks) > 0 {
		a.ends = append(a.ends, uint32(a.used))
	}
	a.blocks = append(a.blocks, blockPool.Get().(*block))
	a.used = 0
}

// size is the memory the arena holds, in bytes.
func (a *arena) size() int64 { return int64(len(a.blocks)) << blockShift }

// release gives the blocks back; positions and slices into them die.
func (a *arena) release() {
	for _, b := range a.blocks {
		blockPool.Put(b)
	}
	*a = arena{}
}

// end is the number of used bytes of block i.
func (a *arena) end(i int) uint32 {
	if i < len(a.ends) {
		return a.ends[i]
	}
	return uint32(a.used)
}

// key returns the key of the entry at pos.
func (a *arena) key(pos uint32) []byte {
	b := a.blocks[pos>>blockShift]
	klen, _, start := header(b, pos&blockMask)
	return b[start : start+klen : start+klen]
}

// record returns key and value of the entry at pos as one slice, and where the
// key ends in it.
func (a *arena) record(pos uint32) (kv []byte, klen uint32) {
	b := a.blocks[pos>>blockShift]
	klen, vlen, start := header(b, pos&blockMask)
	return b[start : start+klen+vlen : start+klen+vlen], klen
}

// header decodes the lengths of the entry at off and returns where its key
// starts.
func header(b *block, off uint32) (klen, vlen, start uint32) {
	// Almost all lengths take one byte.
	if k, v := b[off], b[(off+1)&blockMask]; k|v < 0x80 {
		return uint32(k), uint32(v), off + 2
	}
	k, n := binary.Uvarint(b[off:])
	off += uint32(n)
	v, n := binary.Uvarint(b[off:])
	return uint32(k), uint32(v), off + uint32(n)
}

func appendLen(b []byte, n int) []byte {
	if n < 0x80 {
		return append(b, byte(n))
	}
	return binary.AppendUvarint(b, uint64(n))
}
