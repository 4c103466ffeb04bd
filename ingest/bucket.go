package ingest

import (
	"bytes"
	"iter"
	"sync"

	"fastddl/internal/stage"
)

// bucket is what the workers hold of one partition of an index.
type bucket []*arena

func (b bucket) key(e entry) []byte {
	kv, klen := b[e.arena].record(e.pos)
	return kv[:klen:klen]
}

// count returns the number of entries, and bytes that of their keys and values.
func (b bucket) count() (n int) {
	for _, a := range b {
		n += a.count
	}
	return n
}

func (b bucket) bytes() (n int64) {
	for _, a := range b {
		n += a.bytes
	}
	return n
}

// extremes returns the least and the greatest key.
func (b bucket) extremes() (least, greatest []byte) {
	for _, key := range b.all() {
		if least == nil || bytes.Compare(key, least) < 0 {
			least = key
		}
		if greatest == nil || bytes.Compare(key, greatest) > 0 {
			greatest = key
		}
	}
	return least, greatest
}

// all yields the entries in the order in which they were appended, one arena
// after the other.
func (b bucket) all() iter.Seq2[entry, []byte] {
	return func(yield func(entry, []byte) bool) {
		for i, a := range b {
			for j, block := range a.blocks {
				base := uint32(j) << blockShift
				for off := uint32(0); off < uint32(len(block)); {
					klen, vlen, start := header(block, off)
					if !yield(entry{arena: uint32(i), pos: base | off}, block[start:start+klen:start+klen]) {
						return
					}
					off = start + klen + vlen
				}
			}
		}
	}
}

// part is a bucket to be read, and what is known of its keys: how many first
// bytes they share at least, or unknown.
type part struct {
	bucket
	common int
}

const unknown = -1

// bucketCursor reads the entries of buckets that follow each other in key
// order. It sorts each when it gets there.
type bucketCursor struct {
	parts []part // those not begun
	clock *stage.Clock

	sorter  *sorter
	current bucket
	order   []entry
	touched byte
}

// sorters keeps the buffers of sorters from one cursor to the next.
var sorters = sync.Pool{New: func() any { return new(sorter) }}

// newBucketCursor returns a cursor that charges its sorting to clock, which may
// be nil.
func newBucketCursor(parts []part, clock *stage.Clock) *bucketCursor {
	return &bucketCursor{parts: parts, clock: clock, sorter: sorters.Get().(*sorter)}
}

func (c *bucketCursor) next(r *records) error {
	r.reset()
	for len(c.order) == 0 {
		if len(c.parts) == 0 {
			return nil
		}
		c.begin(c.parts[0])
		c.parts = c.parts[1:]
	}
	batch := c.order[:min(len(c.order), batchRecords)]
	c.touch(batch)
	n := 0
	for ; n < len(batch) && len(r.data) < batchBytes; n++ {
		kv, klen := c.current[batch[n].arena].record(batch[n].pos)
		r.appendRecord(kv, klen)
	}
	c.order = c.order[n:]
	return nil
}

func (c *bucketCursor) begin(p part) {
	if c.clock != nil {
		defer c.clock.Enter(c.clock.Enter(stage.Sort))
	}
	c.current, c.order = p.bucket, c.sorter.sort(p)
}

// touch reads the first bytes and the last of each of the next entries. In a
// large bucket, sorted entries lie at random places, each a cache miss or two; a
// loop that does nothing else lets the processor wait for many of them at a
// time, where copying them would wait for each.
func (c *bucketCursor) touch(batch []entry) {
	touched := byte(0)
	for _, e := range batch {
		b, off := c.current[e.arena].blocks[e.pos>>blockShift], uint(e.pos&blockMask)
		touched |= b[min(off+1+uint(b[off])+uint(b[off+1]), uint(len(b))-1)]
	}
	c.touched = touched
}

func (c *bucketCursor) close() error {
	if c.sorter != nil {
		sorters.Put(c.sorter)
		c.sorter, c.order = nil, nil
	}
	return nil
}
