package distribution

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Options say what a collector keeps.
type Options struct {
	// Columns is how many columns of the index each key begins with.
	Columns int
	// BucketRows is how many rows a bucket has about; 1 keeps every value.
	BucketRows int64
	// Hashed takes hashes of the values, so that summaries can be merged.
	Hashed bool
	// Sampled takes a sample of the hashes, too: see Summary.Sample.
	Sampled bool
}

// Collector sums up one stream of keys. Its work for an entry is a comparison with the last value; for a value that differs
// from it also the search for the end of its columns, and a copy.
type Collector struct {
	opts Options
	sum  Summary
	top  top
	err  error

	// value is that of the last entry, before the one of the run before it, and tail the last eight bytes of value.
	value, before []byte
	tail          uint64
	rows          int64 // that have value
	runs          int64

	open  Bucket // if it has rows, its bounds are not set yet; Lower is
	arena []byte
}

// New returns a collector.
func New(opts Options) *Collector {
	c := &Collector{opts: opts, top: top{most: maxTop}}
	if opts.Hashed {
		c.sum.Sketch = NewSketch()
	}
	if opts.Sampled {
		c.sum.Sample = new(Sample)
	}
	return c
}

// Add adds an entry by its key, of which skip bytes come before the columns. Keys come in order.
func (c *Collector) Add(key []byte, skip int) {
	key = key[skip:]
	if n := len(c.value); n <= len(key) && n > 0 {
		// Values that differ mostly do so at their ends.
		if n < 8 || binary.BigEndian.Uint64(key[n-8:]) == c.tail {
			if string(key[:n]) == string(c.value) {
				c.rows++
				return
			}
		}
	}
	c.begin(key)
}

// begin begins the run of the value that key begins with.
func (c *Collector) begin(key []byte) {
	if c.err != nil {
		return
	}
	if c.rows > 0 {
		c.endRun()
	}
	n, err := valueLength(key, c.opts.Columns)
	if err != nil {
		c.err = err
		return
	}
	c.value, c.before = append(c.before[:0], key[:n]...), c.value
	if n >= 8 {
		c.tail = binary.BigEndian.Uint64(c.value[n-8:])
	}
	c.rows = 1
}

// endRun adds the run that has ended.
func (c *Collector) endRun() {
	if c.opts.Columns == 1 && c.value[0] == nullFlag {
		c.sum.Nulls += c.rows // before all others
		return
	}
	c.runs++
	if c.sum.Sketch != nil {
		hash := xxhash.Sum64(c.value)
		c.sum.Sketch.Add(hash)
		if c.sum.Sample != nil {
			c.sum.Sample.add(hash)
		}
	}
	// The first run stands alone, like the last: the streams beside may have the same value.
	if c.runs == 1 || c.rows >= c.opts.BucketRows {
		c.close(c.before)
		c.alone()
		return
	}
	if c.rows > c.top.least() {
		c.top.add(Value{Key: c.keep(c.value), Rows: c.rows})
	}
	if c.open.Rows == 0 {
		c.open.Lower = c.keep(c.value)
	}
	c.open.Rows += c.rows
	c.open.Different++
	c.open.Repeat = c.rows
	if c.open.Rows >= c.opts.BucketRows {
		c.close(c.value)
	}
}

// alone adds a bucket of the current value.
func (c *Collector) alone() {
	key := c.keep(c.value)
	c.sum.Buckets = append(c.sum.Buckets, Bucket{Lower: key, Upper: key, Rows: c.rows, Repeat: c.rows, Different: 1})
}

// close ends the open bucket, if there is one, at its last value.
func (c *Collector) close(upper []byte) {
	if c.open.Rows == 0 {
		return
	}
	c.open.Upper = c.open.Lower
	if c.open.Different > 1 {
		c.open.Upper = c.keep(upper)
	}
	c.sum.Buckets = append(c.sum.Buckets, c.open)
	c.open = Bucket{}
}

// arenaBytes is how many bytes of values are allocated at a time.
const arenaBytes = 16 << 10

// keep returns a copy that stays.
func (c *Collector) keep(value []byte) []byte {
	if cap(c.arena)-len(c.arena) < len(value) {
		c.arena = make([]byte, 0, max(arenaBytes, len(value)))
	}
	at := len(c.arena)
	c.arena = append(c.arena, value...)
	return c.arena[at:len(c.arena):len(c.arena)]
}

// Finish returns the summary. It fails if a key did not begin with the columns.
func (c *Collector) Finish() (*Summary, error) {
	if c.err != nil {
		return nil, c.err
	}
	if c.rows > 0 {
		if c.opts.Columns == 1 && c.value[0] == nullFlag {
			c.endRun()
		} else {
			c.close(c.before)
			rows := c.opts.BucketRows
			c.opts.BucketRows = 1 // it stands alone
			c.endRun()
			c.opts.BucketRows = rows
		}
		c.rows = 0
	}
	s := c.sum
	for i := range s.Buckets {
		s.Rows += s.Buckets[i].Rows
		s.Different += s.Buckets[i].Different
	}
	s.Top = slices.Clone(c.top.values)
	return &s, nil
}
