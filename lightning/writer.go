package lightning

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"fastddl/kv"
)

const (
	// pollBytes is how many bytes of pairs a writer takes between two looks at
	// the file's size, the limits and the context.
	pollBytes = 32 << 10
	// acquireBytes is the unit in which a writer acquires quota.
	acquireBytes = 1 << 20
	// bytesPerPairSlack and fileSlack bound what a file may still grow by beyond
	// its estimated size: the filter and index entries of pairs already added,
	// the block being filled, and the footer.
	bytesPerPairSlack = 3
	fileSlack         = 96<<10 + pollBytes
)

// Writer writes pairs in ascending key order into files of the target size. It
// must be used by one goroutine at a time and ended by Finish or Abort.
type Writer struct {
	im *Importer
	// rangeReadsOnly is as in kv.ImportOptions.
	rangeReadsOnly bool

	file     kv.ImportWriter // nil between two files
	pairs    int64           // in file
	acquired int64           // quota held for file
	last     []byte          // the last key of the file before
	unpolled int             // bytes added since the last poll
}

// NewWriter returns a writer on a key range that no other writer of the
// importer writes. With rangeReadsOnly the pairs are not to be found by their
// whole keys, and need no filter.
func (im *Importer) NewWriter(rangeReadsOnly bool) *Writer {
	return &Writer{im: im, rangeReadsOnly: rangeReadsOnly}
}

// Add appends a pair. It does not keep the slices. It fails with kv.ErrSameKey for the last key.
func (w *Writer) Add(ctx context.Context, key, value []byte) error {
	if w.file == nil {
		if w.last != nil && bytes.Equal(key, w.last) {
			return fmt.Errorf("lightning: add pair: %w: %x", kv.ErrSameKey, key)
		}
		if err := w.open(ctx); err != nil {
			return err
		}
	}
	if err := w.file.Add(key, value); err != nil {
		return fmt.Errorf("lightning: add pair: %w", err)
	}
	w.pairs++
	w.unpolled += len(key) + len(value)
	if w.unpolled >= pollBytes {
		return w.poll(ctx, key)
	}
	return nil
}

// Finish completes the last file and hands it to the importer, which makes it
// durable at the next Flush.
func (w *Writer) Finish(ctx context.Context) error {
	if w.file == nil {
		return nil
	}
	if err := w.im.opts.Limiter.Wait(ctx, w.unpolled); err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.cut(ctx)
}

// Abort drops the unfinished file. After Finish it does nothing.
func (w *Writer) Abort() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Abort()
	w.im.opts.Quota.Release(w.acquired)
	w.file, w.acquired = nil, 0
	if err != nil {
		return fmt.Errorf("lightning: abort file: %w", err)
	}
	return nil
}

func (w *Writer) open(ctx context.Context) error {
	if err := w.im.acquire(ctx, acquireBytes); err != nil {
		return err
	}
	w.acquired = acquireBytes
	file, err := w.im.opts.Store.NewImportWriter(ctx, kv.ImportOptions{
		Dir: w.im.opts.Dir, Version: w.im.opts.Version, RangeReadsOnly: w.rangeReadsOnly, Overlaps: w.im.opts.Overlaps,
	})
	if err != nil {
		w.im.opts.Quota.Release(w.acquired)
		w.acquired = 0
		return fmt.Errorf("lightning: open file: %w", err)
	}
	w.file, w.pairs, w.unpolled = file, 0, 0
	return nil
}

// poll obeys the limits, behind the pair with the given key: it waits for the write
// speed, cuts the file at its target size, and acquires more quota or cuts the file early.
func (w *Writer) poll(ctx context.Context, key []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n := w.unpolled
	w.unpolled = 0
	if err := w.im.opts.Limiter.Wait(ctx, n); err != nil {
		return err
	}
	size := w.file.EstimatedSize()
	if size >= w.im.opts.TargetFileBytes {
		return w.cutBehind(ctx, key)
	}
	for int64(size)+w.pairs*bytesPerPairSlack+fileSlack > w.acquired {
		if !w.im.opts.Quota.TryAcquire(acquireBytes) {
			return w.cutBehind(ctx, key)
		}
		w.acquired += acquireBytes
	}
	return nil
}

// cutBehind finishes the current file, whose last key is given.
func (w *Writer) cutBehind(ctx context.Context, key []byte) error {
	w.last = append(w.last[:0], key...)
	return w.cut(ctx)
}

// cut finishes the current file.
func (w *Writer) cut(ctx context.Context) error {
	unit, err := w.file.Finish(ctx)
	if err != nil {
		return errors.Join(fmt.Errorf("lightning: finish file: %w", err), w.Abort())
	}
	w.settle(int64(unit.Size()))
	w.file, w.acquired = nil, 0
	if n := int64(unit.Count()); n != w.pairs {
		w.im.opts.Quota.Release(int64(unit.Size()))
		return errors.Join(&PairCountError{Written: w.pairs, InFiles: n}, unit.Discard())
	}
	return w.im.add(ctx, unit)
}

// PairCountError reports that files have not as many pairs as were written to them.
type PairCountError struct{ Written, InFiles int64 }

func (e *PairCountError) Error() string {
	return fmt.Sprintf("lightning: %d pairs were written to files that have %d", e.Written, e.InFiles)
}

// settle corrects the quota held for the file to its final size.
func (w *Writer) settle(size int64) {
	if size <= w.acquired {
		w.im.opts.Quota.Release(w.acquired - size)
		return
	}
	// The slack was too small. The account has to say what is on disk.
	w.im.opts.Quota.Overdraw(size - w.acquired)
}
