package pebblekv

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/flow"
	"fastddl/internal/errs"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

// unitCheckers is how many files of an import are checked at a time.
const unitCheckers = 2

// checkUnits reads the files of units that are about to be imported. It fails with a *kv.DamagedUnitError if one of them
// is not what its writer has finished.
func (s *Store) checkUnits(ctx context.Context, units []*importUnit) error {
	return parallel.Do(ctx, len(units), func() int { return unitCheckers }, func(ctx context.Context, i int) error {
		flow.BackgroundThread()
		path := units[i].path
		err := s.checkUnit(ctx, units[i])
		switch damage := (*unitDamage)(nil); {
		case err == nil:
			return nil
		case errors.As(err, &damage), pebble.IsCorruptionError(err):
			return &kv.DamagedUnitError{File: path, Err: err}
		}
		return fmt.Errorf("pebblekv: checking %s: %w", path, err)
	})
}

// unitDamage is a difference between a file and its unit.
type unitDamage struct{ text string }

func (e *unitDamage) Error() string { return e.text }

func differs(format string, args ...any) error { return &unitDamage{fmt.Sprintf(format, args...)} }

// checkUnit compares the file of a unit with the unit, and the blocks of the file with their checksums.
func (s *Store) checkUnit(ctx context.Context, u *importUnit) (err error) {
	f, err := s.fs.Open(u.path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(untilDone{f, ctx})
	if err != nil {
		return errs.Combine(err, f.Close())
	}
	if size := uint64(readable.Size()); size != u.size {
		return errs.Combine(differs("it has %d bytes, not %d", size, u.size), readable.Close())
	}
	r, err := sstable.NewReader(ctx, readable, s.engOpts.MakeReaderOptions())
	if err != nil {
		return errs.Combine(err, readable.Close())
	}
	defer func() { err = errs.Combine(err, r.Close()) }()
	for _, check := range []func(context.Context, *sstable.Reader) error{u.checkProperties, checkBlocks, u.checkSpan} {
		if err := check(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// untilDone is a file that can be read as long as ctx has not ended.
type untilDone struct {
	vfs.File
	ctx context.Context
}

func (f untilDone) ReadAt(p []byte, off int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// checkProperties compares the number of entries, by kind.
func (u *importUnit) checkProperties(ctx context.Context, r *sstable.Reader) error {
	p, err := r.ReadPropertiesBlock(ctx, nil)
	if err != nil {
		return err
	}
	others := p.NumDeletions + p.NumMergeOperands + p.NumRangeKeyDels + p.NumRangeKeySets + p.NumRangeKeyUnsets
	if p.NumEntries != uint64(u.count) || others != 0 {
		return differs("it has %d entries and %d deletions, merges and ranges, not %d entries", p.NumEntries, others, u.count)
	}
	if p.NumValueBlocks != 0 || p.NumValuesInBlobFiles != 0 {
		return differs("it has %d blocks of values, and %d values in other files", p.NumValueBlocks, p.NumValuesInBlobFiles)
	}
	return nil
}

// checkBlocks verifies the checksums of all blocks, and that the blocks which the indexes of the file name tile it: a
// block without a place in an index is read by no one.
func checkBlocks(ctx context.Context, r *sstable.Reader) error {
	readable := r.BlockReader().Readable()
	size := uint64(readable.Size())
	l, err := r.Layout()
	if err != nil {
		return err
	}
	blocks := append(slices.Clone(l.Index), l.TopIndex, l.RangeDel, l.RangeKey, l.ValueIndex, l.Properties, l.MetaIndex, l.BlobReferenceIndex)
	for _, b := range l.Data {
		blocks = append(blocks, b.Handle)
	}
	for _, b := range l.Filter {
		blocks = append(blocks, b.Handle)
	}
	blocks = append(blocks, l.ValueBlock...)
	slices.SortFunc(blocks, func(a, b block.Handle) int { return cmp.Compare(a.Offset, b.Offset) })
	end := uint64(0)
	var buf []byte
	for _, b := range blocks {
		switch {
		case b.Length == 0: // there is none
			continue
		case b.Offset != end:
			return differs("a block begins at byte %d, the one before ends at %d", b.Offset, end)
		}
		if end = b.Offset + b.Length + block.TrailerLen; end > size || b.Length > size {
			return differs("a block ends at byte %d", end)
		}
		buf = slices.Grow(buf[:0], int(end-b.Offset))[:end-b.Offset]
		if err := readable.ReadAt(ctx, buf, int64(b.Offset)); err != nil {
			return err
		}
		if err := block.ValidateChecksum(r.BlockReader().ChecksumType(), buf, b); err != nil {
			return err
		}
	}
	if l.Footer.Offset != end {
		return differs("its blocks end at byte %d, the footer is at %d", end, l.Footer.Offset)
	}
	return nil
}

// checkSpan compares the first and the last key.
func (u *importUnit) checkSpan(_ context.Context, r *sstable.Reader) (err error) {
	it, err := r.NewIter(sstable.NoTransforms, nil, nil, sstable.AssertNoBlobHandles)
	if err != nil {
		return err
	}
	defer func() { err = errs.Combine(err, it.Close()) }()
	first, last := u.engineSpan()
	if got := it.First(); got == nil {
		return missingKey("first", it.Error())
	} else if err := sameKey("first", got.K, first); err != nil {
		return err
	}
	if got := it.Last(); got == nil {
		return missingKey("last", it.Error())
	} else if err := sameKey("last", got.K, last); err != nil {
		return err
	}
	return nil
}

// missingKey says why a key of a file was not found.
func missingKey(place string, err error) error {
	if err != nil {
		return err
	}
	return differs("it has no %s key", place)
}

// sameKey compares a key of a file with the one that must stand there.
func sameKey(place string, got pebble.InternalKey, want []byte) error {
	if got.Kind() != pebble.InternalKeyKindSet || !bytes.Equal(got.UserKey, want) {
		return differs("its %s key is %x, not %x", place, got.UserKey, want)
	}
	return nil
}

// engineSpan returns the engine's keys of the first and the last pair.
func (u *importUnit) engineSpan() (first, last []byte) {
	return appendVersion(nil, u.keys.Start, u.version), appendVersion(nil, u.keys.End[:len(u.keys.End)-1], u.version)
}
