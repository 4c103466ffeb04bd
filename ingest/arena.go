package ingest

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// maxBlocks is how many blocks positions of 32 bits can address.
	maxBlocks = 1 << (32 - blockShift)
	// maxWorkerMemory is how much a worker may hold before it has to spill, however much
	// memory there is: all of it may lie in one arena, and the batch of rows that goes beyond
	// it has as many blocks left.
	maxWorkerMemory = maxBlocks / 2 * blockSize
	// MaxEntrySize is the greatest size of key and value of one entry of an index in bytes, MaxRecordSize that of a record: more
	// than TiDB lets txn-entry-size-limit be.
	MaxEntrySize, MaxRecordSize = 256 << 10, 128 << 20
)

// arena holds entries back to back in blocks, each as
//
//	uvarint(len(key)) uvarint(len(value)) key value
//
// An entry never crosses a block and is named by its position: the number of
// its block and the offset in it. An entry larger than a block has one of its
// own.
type arena struct {
	// last is the block that is being filled. It is in blocks only once there is
	// another.
	last     []byte
	blocks   [][]byte
	count    int
	bytes    int64 // of keys and values
	reserved int64 // bytes of all blocks
}

// append copies an entry into the arena: the key, klen bytes long, and the value
// behind it.
func (a *arena) append(kv []byte, klen int) error {
	if cap(a.last)-len(a.last) < len(kv)+2*binary.MaxVarintLen32 {
		if err := a.grow(len(kv)); err != nil {
			return err
		}
	}
	b := appendLen(a.last, klen)
	b = appendLen(b, len(kv)-klen)
	a.last = append(b, kv...)
	a.count++
	a.bytes += int64(len(kv))
	return nil
}

// grow begins a block that has room for an entry of n bytes.
func (a *arena) grow(n int) error {
	switch {
	case n > MaxRecordSize:
		return fmt.Errorf("ingest: entry of %d bytes is larger than %d", n, MaxRecordSize)
	case len(a.blocks)+1 >= maxBlocks:
		return errors.New("ingest: too many index entries in one batch")
	}
	a.seal()
	if need := n + 2*binary.MaxVarintLen32; need > blockSize {
		a.last = make([]byte, 0, need)
	} else {
		b, err := blocks.get()
		if err != nil {
			return err
		}
		a.last = b[:0]
	}
	a.reserved += int64(cap(a.last))
	return nil
}

// seal puts the last block to the others. It is called before the arena is read.
func (a *arena) seal() {
	if len(a.last) > 0 {
		a.blocks = append(a.blocks, a.last)
		a.last = nil
	}
}

// release gives the blocks back; positions and slices into them die.
func (a *arena) release() {
	a.seal()
	for _, b := range a.blocks {
		if cap(b) == blockSize {
			blocks.put((*block)(b[:blockSize]))
		}
	}
	*a = arena{}
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
func header(b []byte, off uint32) (klen, vlen, start uint32) {
	// Almost all lengths take one byte.
	if k, v := b[off], b[off+1]; k|v < 0x80 {
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
