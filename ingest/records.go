package ingest

// records is a batch of entries in key order, back to back in one buffer.
type records struct {
	data []byte
	recs []rec
}

// rec is one entry of records: key data[start:key], value data[key:end].
type rec struct {
	start, key, end uint32
}

func (r *records) reset() {
	r.data = r.data[:0]
	r.recs = r.recs[:0]
}

func (r *records) len() int { return len(r.recs) }

func (r *records) key(i int) []byte {
	e := r.recs[i]
	return r.data[e.start:e.key:e.key]
}

func (r *records) value(i int) []byte {
	e := r.recs[i]
	return r.data[e.key:e.end:e.end]
}

// append adds prefix‖key and value.
func (r *records) append(prefix, key, value []byte) {
	start := uint32(len(r.data))
	r.data = append(r.data, prefix...)
	r.data = append(r.data, key...)
	mid := uint32(len(r.data))
	r.data = append(r.data, value...)
	r.recs = append(r.recs, rec{start: start, key: mid, end: uint32(len(r.data))})
}

// cursor reads entries in key order, batch by batch.
type cursor interface {
	// next replaces the content of r by the next entries; none left leaves it
	// empty. The caller owns r.
	next(r *records) error
	// close releases what the cursor holds.
	close() error
}

const (
	batchRecords = 256
	batchBytes   = 32 << 10
)

// chunk is a sorted arena in memory. It is immutable.
type chunk struct {
	arena arena
	order []uint32 // positions in the arena, by key
}

// size is the memory the chunk holds, in bytes.
func (c *chunk) size() int64 { return c.arena.size() + int64(cap(c.order))*orderBytesPerEntry }

func (c *chunk) release() {
	c.arena.release()
	c.order = nil
}

// seek returns the index of the first entry whose key is at or after key.
func (c *chunk) seek(key []byte) int {
	lo, hi := 0, len(c.order)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if string(c.arena.key(c.order[mid])) < string(key) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// cursor returns a cursor over the keys in [start, end); nil is unbounded.
func (c *chunk) cursor(r keyRange) cursor {
	cur := &chunkCursor{chunk: c, end: len(c.order)}
	if r.start != nil {
		cur.at = c.seek(r.start)
	}
	if r.end != nil {
		cur.end = c.seek(r.end)
	}
	return cur
}

// chunkCursor gathers entries from the arena.
type chunkCursor struct {
	chunk   *chunk
	at, end int
	touched byte
}

// touch reads the first bytes and the last of each of the next entries. Sorted
// entries lie at random places, each a cache miss or two; a loop that does
// nothing else lets the processor wait for many of them at a time, where copying
// them would wait for each.
func (c *chunkCursor) touch(order []uint32) {
	blocks, touched := c.chunk.arena.blocks, byte(0)
	for _, pos := range order {
		b, off := blocks[pos>>blockShift], uint(pos&blockMask)
		end := off + 1 + uint(b[off]) + uint(b[(off+1)&blockMask])
		touched |= b[end&blockMask]
	}
	c.touched = touched
}

func (c *chunkCursor) next(r *records) error {
	r.reset()
	n := min(c.end, c.at+batchRecords)
	c.touch(c.chunk.order[c.at:n])
	for ; c.at < n && len(r.data) < batchBytes; c.at++ {
		kv, klen := c.chunk.arena.record(c.chunk.order[c.at])
		start := uint32(len(r.data))
		r.data = append(r.data, kv...)
		r.recs = append(r.recs, rec{start: start, key: start + klen, end: uint32(len(r.data))})
	}
	return nil
}

func (c *chunkCursor) close() error { return nil }

// keyRange is a half-open range of keys without the index prefix; nil bounds
// are open.
type keyRange struct {
	start, end []byte
}
