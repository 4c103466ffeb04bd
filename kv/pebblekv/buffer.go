package pebblekv

import (
	"bytes"

	"github.com/RaduBerinde/btreemap"

	"fastddl/kv"
)

const (
	bufferDegree = 32
	// bufferChunk is how many entries an iterator over the buffer copies at
	// once, to find its place in the tree once per chunk instead of per entry.
	bufferChunk = 64
)

// bufferEntry is what a transaction wants a key to be; a nil value is a
// tombstone.
type bufferEntry struct {
	value []byte
	flags kv.KeyFlag
}

// withdrawn says that the entry hides the key from the transaction only.
func (e bufferEntry) withdrawn() bool { return e.flags&kv.Withdrawn != 0 }

type bufferTree = btreemap.BTreeMap[[]byte, bufferEntry]

// writeBuffer is the ordered set of a transaction's writes, with the history
// needed to undo the latest ones.
type writeBuffer struct {
	tree *bufferTree
	undo []undoRecord
	size int
}

// undoRecord is the state of a key before a write.
type undoRecord struct {
	key     []byte
	before  bufferEntry
	existed bool
}

func newBufferTree() *bufferTree {
	return btreemap.New[[]byte, bufferEntry](bufferDegree, bytes.Compare)
}

// put buffers a write of copies of key and value.
func (b *writeBuffer) put(key, value []byte, tombstone bool, flags kv.KeyFlag) {
	data := make([]byte, len(key)+len(value))
	copy(data, key)
	copy(data[len(key):], value)
	entry := bufferEntry{flags: flags}
	key = data[:len(key):len(key)]
	if !tombstone {
		entry.value = data[len(key):]
	}
	if b.tree == nil {
		b.tree = newBufferTree()
	}
	_, before, existed := b.tree.Get(key)
	if existed {
		entry.flags = flags.After(before.flags)
	}
	b.tree.ReplaceOrInsert(key, entry)
	b.undo = append(b.undo, undoRecord{key, before, existed})
	b.size += len(entry.value) - len(before.value)
	if !existed {
		b.size += len(key)
	}
}

// get returns what is buffered for a key.
func (b *writeBuffer) get(key []byte) (bufferEntry, bool) {
	if b.tree == nil {
		return bufferEntry{}, false
	}
	_, e, ok := b.tree.Get(key)
	return e, ok
}

func (b *writeBuffer) len() int {
	if b.tree == nil {
		return 0
	}
	return b.tree.Len()
}

// revertTo undoes writes until position writes are left.
func (b *writeBuffer) revertTo(position int) {
	for len(b.undo) > position {
		u := b.undo[len(b.undo)-1]
		b.undo[len(b.undo)-1] = undoRecord{}
		b.undo = b.undo[:len(b.undo)-1]
		if u.existed {
			_, after, _ := b.tree.ReplaceOrInsert(u.key, u.before)
			b.size += len(u.before.value) - len(after.value)
			continue
		}
		_, after, _ := b.tree.Delete(u.key)
		b.size -= len(u.key) + len(after.value)
	}
}

// each calls fn for all entries in key order.
func (b *writeBuffer) each(fn func(key []byte, e bufferEntry) bool) {
	if b.tree != nil {
		b.tree.AscendFunc(btreemap.Min[[]byte](), btreemap.Max[[]byte](), fn)
	}
}

// iter iterates over the entries of a range as they are now: later writes do
// not show. It returns nil if there are none.
func (b *writeBuffer) iter(r kv.KeyRange, reverse bool) *bufferIter {
	if b.tree == nil {
		return nil
	}
	it := &bufferIter{tree: b.tree, lower: btreemap.GE(r.Start), upper: btreemap.Max[[]byte](), reverse: reverse}
	if r.End != nil {
		it.upper = btreemap.LT(r.End)
	}
	if it.fill(); len(it.chunk) == 0 {
		return nil
	}
	if !it.last {
		it.tree = b.tree.Clone()
	}
	return it
}

type bufferKV struct {
	key []byte
	bufferEntry
}

// bufferIter walks over a range of a write buffer in either direction.
type bufferIter struct {
	tree    *bufferTree
	lower   btreemap.LowerBound[[]byte]
	upper   btreemap.UpperBound[[]byte]
	reverse bool
	chunk   []bufferKV
	pos     int
	last    bool // there is nothing behind chunk
}

// fill reads the next chunk.
func (it *bufferIter) fill() {
	it.chunk, it.pos, it.last = it.chunk[:0], 0, true
	collect := func(key []byte, e bufferEntry) bool {
		if len(it.chunk) == bufferChunk {
			it.last = false
			return false
		}
		it.chunk = append(it.chunk, bufferKV{key, e})
		return true
	}
	if it.reverse {
		it.tree.DescendFunc(it.upper, it.lower, collect)
	} else {
		it.tree.AscendFunc(it.lower, it.upper, collect)
	}
}

func (it *bufferIter) valid() bool { return it.pos < len(it.chunk) }

func (it *bufferIter) current() *bufferKV { return &it.chunk[it.pos] }

func (it *bufferIter) next() {
	if it.pos++; it.pos < len(it.chunk) || it.last {
		return
	}
	end := it.chunk[len(it.chunk)-1].key
	if it.reverse {
		it.upper = btreemap.LT(end)
	} else {
		it.lower = btreemap.GT(end)
	}
	it.fill()
}
