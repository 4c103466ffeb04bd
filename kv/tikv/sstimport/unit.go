package sstimport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/kv"
)

const (
	// blockBytes is the unit in which files are compressed, checked and read.
	blockBytes = 32 << 10
	// sampleBytes is how far apart the keys are that a unit remembers for cutting ranges.
	sampleBytes = 1 << 20
)

var (
	errOrder     = errors.New("sstimport: keys must increase strictly")
	errEmpty     = errors.New("sstimport: import unit holds no pairs")
	errVersion   = errors.New("sstimport: import version must be a timestamp that PD has handed out")
	errOverlap   = errors.New("sstimport: import units overlap")
	errForeign   = errors.New("sstimport: import unit belongs to another store")
	errDiscarded = errors.New("sstimport: import unit was discarded")
	errDone      = errors.New("sstimport: import writer has ended")
	errTooLarge  = errors.New("sstimport: entry is too large for TiKV")

	fileSeq atomic.Uint64 // makes file names unique in the process
)

// leastWeight is what a pair counts at least, in bytes: TiKV bounds the keys of a region
// too, to one for about so many of the bytes that it bounds it to (960,000 in 96 MiB).
const leastWeight = 105

// weight is what a pair counts in the size of a region.
func weight(key, value []byte) int64 { return max(int64(len(key)+len(value)), leastWeight) }

// sample says what the pairs weigh from its key to that of the next sample, or to the
// unit's end.
type sample struct {
	key   []byte
	bytes int64
}

func weigh(samples []sample) (n int64) {
	for _, s := range samples {
		n += s.bytes
	}
	return n
}

// writer writes one unit. Its file has the format of Pebble's tables: sorted, in blocks
// that are compressed and have checksums, with an index by key.
type writer struct {
	im      *Importer
	opts    kv.ImportOptions
	path    string
	sst     *sstable.Writer
	last    []byte
	samples []sample
	count   int
	sum     kv.Checksum // of the pairs that were added
	done    bool
}

// NewWriter opens a writer of one import unit.
func (im *Importer) NewWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if im.closed.Load() {
		return nil, kv.ErrClosed
	}
	if opts.Version == 0 {
		return nil, errVersion
	}
	path := filepath.Join(opts.Dir, fmt.Sprintf("import-%d-%d-%d.sst", opts.Version, os.Getpid(), fileSeq.Add(1)))
	f, err := vfs.Default.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("sstimport: creating import file: %w", err)
	}
	return &writer{
		im: im, opts: opts, path: path,
		sst: sstable.NewWriter(objstorageprovider.NewFileWritable(f), sstable.WriterOptions{
			BlockSize: blockBytes, TableFormat: sstable.TableFormatPebblev4,
		}),
	}, nil
}

// Add implements kv.ImportWriter.
func (w *writer) Add(key, value []byte) error {
	switch {
	case w.done:
		return errDone
	case len(value) == 0:
		return kv.ErrEmptyValue
	case len(key) > w.im.opts.MaxKeyBytes || len(key)+len(value) > w.im.opts.MaxEntryBytes:
		return fmt.Errorf("%w: the key has %d bytes, the value %d", errTooLarge, len(key), len(value))
	case w.count > 0 && bytes.Equal(key, w.last):
		return fmt.Errorf("%w: %w: %x", errOrder, kv.ErrSameKey, key)
	case w.count > 0 && bytes.Compare(key, w.last) < 0:
		return fmt.Errorf("%w: %x after %x", errOrder, key, w.last)
	}
	if err := w.sst.Set(key, value); err != nil {
		return fmt.Errorf("sstimport: writing %s: %w", w.path, err)
	}
	if n := len(w.samples); n == 0 || w.samples[n-1].bytes >= sampleBytes {
		w.samples = append(w.samples, sample{key: bytes.Clone(key)})
	}
	w.samples[len(w.samples)-1].bytes += weight(key, value)
	w.last = append(w.last[:0], key...)
	w.count++
	w.sum.Add(sumOf(key, value))
	return nil
}

// sumOf is the sum of one pair.
func sumOf(key, value []byte) kv.Checksum {
	return kv.Checksum{Pairs: 1, Bytes: int64(len(key) + len(value)), CRC: kv.UpdateCRC(kv.UpdateCRC(0, key), value)}
}

// EstimatedSize implements kv.ImportWriter.
func (w *writer) EstimatedSize() uint64 { return w.sst.Raw().EstimatedSize() }

// Finish implements kv.ImportWriter.
func (w *writer) Finish(ctx context.Context) (kv.ImportUnit, error) {
	if w.done {
		return nil, errDone
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.count == 0 {
		return nil, errors.Join(errEmpty, w.Abort())
	}
	w.done = true
	if err := w.sst.Close(); err != nil { // which syncs the file
		return nil, errors.Join(fmt.Errorf("sstimport: finishing %s: %w", w.path, err), removeFile(w.path))
	}
	meta, err := w.sst.Metadata()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("sstimport: finishing %s: %w", w.path, err), removeFile(w.path))
	}
	return &unit{
		im: w.im, path: w.path, version: w.opts.Version, overlaps: w.opts.Overlaps,
		samples: w.samples, size: meta.Size, count: w.count, sum: w.sum,
		keys: kv.KeyRange{Start: w.samples[0].key, End: kv.NextKey(w.last)},
	}, nil
}

// Abort implements kv.ImportWriter.
func (w *writer) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	// What Close says about a file that is thrown away does not matter.
	_ = w.sst.Close()
	return removeFile(w.path)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sstimport: removing %s: %w", path, err)
	}
	return nil
}

// unit implements kv.ImportUnit.
type unit struct {
	im       *Importer
	path     string
	version  uint64
	overlaps bool // see kv.ImportOptions
	keys     kv.KeyRange
	samples  []sample
	size     uint64
	count    int
	sum      kv.Checksum // of all pairs, as they were added

	mu        sync.Mutex
	consumed  bool // all pairs have been imported
	discarded bool
	removed   bool // the file is gone
}

func (u *unit) Range() kv.KeyRange { return u.keys }
func (u *unit) Size() uint64       { return u.size }
func (u *unit) Count() int         { return u.count }

// Discard implements kv.ImportUnit.
func (u *unit) Discard() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.consumed {
		u.discarded = true
	}
	return u.removeLocked()
}

// consume notes that all pairs have been imported, and removes the file.
func (u *unit) consume() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.consumed = true
	return u.removeLocked()
}

func (u *unit) removeLocked() error {
	if u.removed {
		return nil
	}
	if err := removeFile(u.path); err != nil {
		return err
	}
	u.removed = true
	return nil
}
