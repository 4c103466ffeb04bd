package ingest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A run file is a sequence of blocks of entries in key order:
//
//	block  := uint32(len(body)) uint64(xxhash64(body)) body
//	body   := record...
//	record := uvarint(shared) uvarint(len(rest)) uvarint(len(value)) rest value
//
// shared is how many bytes the key has in common with the one before it in the
// block; rest is what follows. Sorted index keys shrink to about half by that,
// at the speed of memory; a general compressor behind it costs more time than
// the bytes it saves take to write.
const (
	runBlockBytes  = 32 << 10
	runHeaderBytes = 12
	// maxRunBlockRaw bounds what a block is decoded to, which a merge holds of each
	// run: keys that have almost all of their bytes in common would grow to hundreds of times
	// the block's size.
	maxRunBlockRaw = 128 << 10
	// runRecordSlack bounds by how many bytes a record is longer in a run than
	// its key and value.
	runRecordSlack = 3 * binary.MaxVarintLen32
)

// errCorruptRun says that a run file does not hold what was written to it.
var errCorruptRun = errors.New("ingest: temporary run file is corrupt")

// run is a sorted run in the temp folder, with a key that separates each block from the
// one before.
type run struct {
	path       string
	fs         vfs.FS
	file       vfs.File
	blocks     []runBlock
	separators []byte // of the blocks, back to back
	last       []byte // greatest key
	bytes      int64  // file size
	count      int
	raw        int64 // bytes of keys and values
}

type runBlock struct {
	offset       int64
	size         uint32 // with header
	separatorEnd uint32 // in separators
}

// separator returns a key that the i-th block begins at or after, and that no key of the
// blocks before is greater than. That of the first block is the least key of the run.
func (r *run) separator(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = r.blocks[i-1].separatorEnd
	}
	return r.separators[start:r.blocks[i].separatorEnd]
}

// memory returns how many bytes of memory the run takes while it is not read.
func (r *run) memory() int64 {
	return int64(cap(r.blocks))*int64(unsafe.Sizeof(runBlock{})) + int64(cap(r.separators)+cap(r.last))
}

// remove closes and removes the file, if it is still there.
func (r *run) remove() error {
	err := r.fs.Remove(r.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(r.file.Close(), err)
}

// runWriter writes a run. It must be ended by finish or abort.
type runWriter struct {
	run  run
	body []byte // header space and the block being filled
	raw  int    // bytes of the keys and values in it, whole
	last []byte
}

func newRunWriter(fs vfs.FS, path string) (*runWriter, error) {
	file, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("ingest: create run: %w", err)
	}
	w := &runWriter{run: run{fs: fs, path: path, file: file}}
	w.body = make([]byte, runHeaderBytes, runHeaderBytes+runBlockBytes+4096)
	return w, nil
}

func (w *runWriter) add(key, value []byte) error {
	shared := 0
	if len(w.body) == runHeaderBytes {
		w.separate(key)
	} else {
		shared = commonPrefix(w.last, key)
	}
	w.body = appendLen(w.body, shared)
	w.body = appendLen(w.body, len(key)-shared)
	w.body = appendLen(w.body, len(value))
	w.body = append(w.body, key[shared:]...)
	w.body = append(w.body, value...)
	w.last = append(w.last[:0], key...)
	w.run.count++
	w.run.raw += int64(len(key) + len(value))
	w.raw += len(key) + len(value)
	if len(w.body) >= runBlockBytes || w.raw >= maxRunBlockRaw {
		return w.flush()
	}
	return nil
}

// separate keeps of the first key of a block what distinguishes it from the key before.
func (w *runWriter) separate(key []byte) {
	if len(w.run.blocks) > 0 {
		key = key[:min(len(key), commonPrefix(w.last, key)+1)]
	}
	w.run.separators = append(w.run.separators, key...)
}

func (w *runWriter) flush() error {
	if len(w.body) == runHeaderBytes {
		return nil
	}
	body := w.body[runHeaderBytes:]
	binary.LittleEndian.PutUint32(w.body, uint32(len(body)))
	binary.LittleEndian.PutUint64(w.body[4:], xxhash.Sum64(body))
	if _, err := w.run.file.Write(w.body); err != nil {
		return fmt.Errorf("ingest: write run: %w", err)
	}
	w.run.blocks = append(w.run.blocks, runBlock{
		offset: w.run.bytes, size: uint32(len(w.body)), separatorEnd: uint32(len(w.run.separators)),
	})
	w.run.bytes += int64(len(w.body))
	w.body, w.raw = w.body[:runHeaderBytes], 0
	return nil
}

// finish returns the completed run. It is not synced: a crash loses the temp
// folder's content anyway.
func (w *runWriter) finish() (*run, error) {
	if err := w.flush(); err != nil {
		return nil, errors.Join(err, w.abort())
	}
	r := w.run
	r.blocks, r.separators, r.last = slices.Clone(r.blocks), bytes.Clone(r.separators), w.last
	return &r, nil
}

func (w *runWriter) abort() error { return w.run.remove() }

// runSizeBound returns the greatest size of a run file with so many entries of so
// many bytes in total.
func runSizeBound(count int, raw int64) int64 {
	body := raw + int64(count)*runRecordSlack
	return body + (body/runBlockBytes+raw/maxRunBlockRaw+2)*runHeaderBytes
}

// cursor returns a cursor over the keys in r.
func (r *run) cursor(kr keyRange) cursor {
	first := 0
	if kr.start != nil {
		// The block before the first one whose separator is not less than start may hold it.
		first = max(0, sort.Search(len(r.blocks), func(i int) bool {
			return string(r.separator(i)) >= string(kr.start)
		})-1)
	}
	return &runCursor{run: r, block: first, keys: kr, seeking: kr.start != nil}
}

// runCursor reads a run block by block.
type runCursor struct {
	run     *run
	block   int
	keys    keyRange
	seeking bool // start has not been reached
	raw     []byte
}

func (c *runCursor) next(out *records) error {
	out.reset()
	for out.len() == 0 && c.block < len(c.run.blocks) {
		if c.keys.end != nil && string(c.run.separator(c.block)) >= string(c.keys.end) {
			c.block = len(c.run.blocks)
			break
		}
		if err := c.read(out); err != nil {
			return err
		}
		c.block++
		c.trim(out)
	}
	return nil
}

// trim drops the entries of the batch that lie outside the cursor's range.
func (c *runCursor) trim(out *records) {
	if c.seeking {
		i := sort.Search(out.len(), func(i int) bool { return string(out.key(i)) >= string(c.keys.start) })
		out.recs = out.recs[i:]
		c.seeking = out.len() == 0
	}
	if n := out.len(); c.keys.end != nil && n > 0 && string(out.key(n-1)) >= string(c.keys.end) {
		i := sort.Search(n, func(i int) bool { return string(out.key(i)) >= string(c.keys.end) })
		out.recs = out.recs[:i]
		c.block = len(c.run.blocks)
	}
}

func (c *runCursor) read(out *records) error {
	b := c.run.blocks[c.block]
	if cap(c.raw) < int(b.size) {
		c.raw = make([]byte, b.size)
	}
	raw := c.raw[:b.size]
	if _, err := c.run.file.ReadAt(raw, b.offset); err != nil {
		return fmt.Errorf("ingest: read run: %w", err)
	}
	body := raw[runHeaderBytes:]
	if binary.LittleEndian.Uint32(raw) != uint32(len(body)) || binary.LittleEndian.Uint64(raw[4:]) != xxhash.Sum64(body) {
		return fmt.Errorf("%w: %s, block at %d", errCorruptRun, c.run.path, b.offset)
	}
	return decodeRunBlock(body, out)
}

func decodeRunBlock(body []byte, out *records) error {
	var prev rec
	for len(body) > 0 {
		shared, n1 := binary.Uvarint(body)
		rest, n2 := binary.Uvarint(body[max(n1, 0):])
		vlen, n3 := binary.Uvarint(body[max(n1, 0)+max(n2, 0):])
		if n1 <= 0 || n2 <= 0 || n3 <= 0 || shared > uint64(prev.key-prev.start) {
			return errCorruptRun
		}
		body = body[n1+n2+n3:]
		if rest > uint64(len(body)) || vlen > uint64(len(body))-rest {
			return errCorruptRun
		}
		start := uint32(len(out.data))
		out.data = append(out.data, out.data[prev.start:prev.start+uint32(shared)]...)
		out.data = append(out.data, body[:rest+vlen]...)
		key := start + uint32(shared+rest)
		prev = rec{start: start, key: key, end: key + uint32(vlen)}
		out.recs = append(out.recs, prev)
		body = body[rest+vlen:]
	}
	return nil
}

func (c *runCursor) close() error { return nil }
