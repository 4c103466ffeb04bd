package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"fastddl/flow"
	"fastddl/internal/parallel"
	"fastddl/internal/stage"
	"fastddl/kv"
	"fastddl/lightning"
)

// limiter holds a flush to the job's write speed, and counts how far it is.
type limiter struct{ j *Job }

// Wait implements lightning.Limiter.
func (l limiter) Wait(ctx context.Context, n int) error {
	return l.j.share.throttle.Wait(ctx, n, func(n int) { l.j.flushed.Add(int64(n)) })
}

func (j *Job) flush(ctx context.Context) (err error) {
	pieces := j.pieces()
	for i := range j.indexes {
		j.indexes[i].summaries = nil
	}
	if len(pieces) == 0 {
		j.summarize(nil, nil)
		return j.checkWritten()
	}
	var total int64
	for _, p := range pieces {
		total += p.bytes
	}
	j.flushed.Store(0)
	j.flushing.Store(total)
	dir, err := j.dir()
	if err != nil {
		return err
	}
	j.measureRoom()
	im, err := lightning.NewImporter(lightning.Options{
		Store: j.opts.Store, Dir: dir, Version: j.opts.Version, Overlaps: j.overlaps(),
		JobID: j.opts.ID, Bus: j.opts.Bus,
		TargetFileBytes: j.opts.TargetFileBytes, ImportBatchBytes: j.opts.ImportBatchBytes, BeforeImport: j.opts.BeforeImport,
		Quota: j.share, Limiter: limiter{j}, NoRoom: j.share.setNoRoom,
	})
	if err != nil {
		return err
	}
	defer func() {
		j.share.refused(err)
		j.mu.Lock()
		j.stats = addStats(j.stats, im.Stats())
		j.mu.Unlock()
		err = errors.Join(err, im.Close())
	}()

	stored, err := j.openStored(ctx)
	if err != nil {
		return err
	}
	if stored != nil {
		defer stored.Close()
	}
	before := j.writtenEntries()
	collectors := j.newCollectors(pieces)
	if err := j.build(ctx, im, pieces, stored, collectors); err != nil {
		return err
	}
	if err := j.checkWritten(); err != nil { // before what is left to import is imported
		return err
	}
	if err := j.timed(stage.Ingest, func(*stage.Clock) error { return im.Flush(ctx) }); err != nil {
		return err
	}
	if written, imported := j.writtenEntries()-before, im.Stats().Pairs; written != imported {
		return &lightning.PairCountError{Written: written, InFiles: imported}
	}
	for i := range j.indexes {
		idx := &j.indexes[i]
		idx.imported = idx.imported || idx.totals.Entries > 0
	}
	j.summarize(pieces, collectors)
	return nil
}

// overlaps says that the store may have entries between those of this flush.
func (j *Job) overlaps() bool {
	return j.opts.IsPart || slices.ContainsFunc(j.indexes, func(idx jobIndex) bool { return idx.imported })
}

// build writes the pieces, several at a time. It fails with a DuplicateError if
// it meets duplicates.
func (j *Job) build(ctx context.Context, im *lightning.Importer, pieces []piece, stored kv.Snapshot, collectors []*collector) error {
	s := newSearch(len(pieces))
	defer s.fail()
	err := parallel.Do(ctx, len(pieces), j.opts.Parallel, func(ctx context.Context, i int) error {
		flow.BackgroundThread()
		return j.timed(stage.Merge, func(clock *stage.Clock) error {
			index := pieces[i].index
			b := pieceBuild{
				im: im, search: s, i: i, spec: &j.indexes[index].spec, clock: clock, pacer: j.share.NewPacer(clock), written: j.newTally(index),
				values: collectors[i],
			}
			err := j.buildPiece(ctx, &b, pieces[i], stored)
			j.addWritten(index, b.written)
			return err
		})
	})
	if err != nil {
		return err
	}
	return s.err()
}

// timed runs fn locked to its thread and charges its time to s and to the
// stages that fn enters.
func (j *Job) timed(s stage.Stage, fn func(*stage.Clock) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	clock := stage.Start(s)
	defer func() {
		costs := clock.Stop()
		j.mu.Lock()
		j.costs.Add(costs)
		j.mu.Unlock()
	}()
	return fn(clock)
}

// buildPiece merges one piece into files, or searches it for duplicates once
// there are any.
func (j *Job) buildPiece(ctx context.Context, b *pieceBuild, p piece, stored kv.Snapshot) error {
	if b.search.over() && !b.wanted() {
		return nil
	}
	m, err := j.openPiece(p, stored, b.clock)
	if err != nil {
		return err
	}
	defer m.close()
	if done, err := b.write(ctx, m); done || err != nil {
		return err
	}
	b.clock.Enter(stage.Merge)
	return b.collect(ctx, m)
}

// pieceBuild is what the build of the i-th piece works with.
type pieceBuild struct {
	im     *lightning.Importer
	search *search
	i      int
	spec   *KeySpace
	clock  *stage.Clock
	pacer  *flow.Pacer
	// written sums up what is handed to the importer.
	written *tally
	// values sums up how the values are distributed; nil if that is not wanted.
	values *collector
	// fileKey is what the keys of the current file share, of KeySpace.FileKey bytes.
	fileKey []byte
}

// write writes what m merges. Without an error it is not done when a duplicate
// was met, here or in another piece: m is then where scan can go on.
func (b *pieceBuild) write(ctx context.Context, m *merger) (done bool, err error) {
	writing, cancel := b.search.writing(ctx)
	defer cancel()
	// Entries of an index that is not unique hold their handle: a whole
	// key is known only with the row.
	w := b.im.NewWriter(!b.spec.Unique)
	defer func() { err = errors.Join(err, w.Abort()) }()
	var batch records
	for !b.search.over() {
		if err := b.pacer.Pace(ctx); err != nil {
			return false, err
		}
		b.clock.Enter(stage.Merge)
		err := m.next(ctx, b.spec.Prefix, &batch)
		if errors.Is(err, errDuplicate) {
			b.search.fail()
			break
		}
		if err != nil {
			return false, err
		}
		b.clock.Enter(stage.Write)
		err = b.writeBatch(writing, w, &batch)
		if err == nil && batch.len() == 0 {
			return true, nil
		}
		if same := (*SameKeyError)(nil); errors.As(err, &same) {
			b.search.addSameKey(b.i, same)
			break
		}
		// When there are duplicates it does not matter what has kept a file from being
		// written.
		if err != nil && !b.search.over() {
			return false, err
		}
	}
	return false, nil
}

// writeBatch adds a batch to a writer and, with the empty batch, finishes it.
func (b *pieceBuild) writeBatch(ctx context.Context, w *lightning.Writer, batch *records) error {
	if batch.len() == 0 {
		return w.Finish(ctx)
	}
	b.written.add(batch)
	for i := range batch.len() {
		if err := b.cutFile(ctx, w, batch.key(i)); err != nil {
			return err
		}
		if b.values != nil {
			b.values.add(batch.key(i))
		}
		err := w.Add(ctx, batch.key(i), batch.value(i))
		if errors.Is(err, kv.ErrSameKey) {
			return &SameKeyError{IndexID: b.spec.ID, Key: bytes.Clone(batch.key(i))}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cutFile ends the file if the next key must not be in it.
func (b *pieceBuild) cutFile(ctx context.Context, w *lightning.Writer, key []byte) error {
	if b.spec.FileKey == 0 {
		return nil
	}
	fileKey := key[len(b.spec.Prefix):][:b.spec.FileKey]
	if bytes.Equal(fileKey, b.fileKey) {
		return nil
	}
	b.fileKey = append(b.fileKey[:0], fileKey...)
	if b.values != nil {
		b.values.begin(fileKey)
	}
	return w.Finish(ctx)
}

// wanted says that what was not read of the piece yet is to be searched for
// duplicates.
func (b *pieceBuild) wanted() bool { return b.spec.Unique && b.search.wants(b.i) }

// collect searches the rest of m for duplicates.
func (b *pieceBuild) collect(ctx context.Context, m *merger) error {
	for b.wanted() {
		groups, more, err := m.scan(ctx)
		if err != nil {
			return err
		}
		for _, g := range groups {
			g.IndexID, g.Key = b.spec.ID, concat(b.spec.Prefix, g.Key)
		}
		b.search.add(b.i, groups)
		if !more {
			return nil
		}
	}
	return nil
}

func (j *Job) openPiece(p piece, stored kv.Snapshot, clock *stage.Clock) (*merger, error) {
	idx := &j.indexes[p.index]
	keys := idx.splitters.keyRange(p.first, p.end)
	var cursors []cursor
	var b bounds
	inMemory := idx.parts(p)
	if len(inMemory) > 0 {
		cursors = append(cursors, newBucketCursor(inMemory, clock))
	}
	for _, r := range idx.runs {
		cursors = append(cursors, r.cursor(keys))
		b.addRun(r)
	}
	resumed := stored != nil && idx.spec.Unique && idx.imported
	if len(inMemory) > 0 && (len(cursors) > 1 || resumed) {
		b.addParts(inMemory)
	}
	var existing cursor
	if resumed {
		c, err := newStored(stored, idx.spec.Prefix, b.clip(keys))
		if err != nil {
			return nil, err
		}
		existing = c
	}
	m, err := newMerger(cursors, existing, b.common(), idx.spec.Unique)
	if err == nil {
		m.once = idx.spec.Once
	}
	return m, err
}

// parts returns what the workers have left of a piece in memory.
func (idx *jobIndex) parts(p piece) (parts []part) {
	for i := p.first; i < p.end; i++ {
		if b := idx.buckets[i]; len(b) > 0 {
			parts = append(parts, part{b, idx.splitters.commonPrefix(i)})
		}
	}
	return parts
}

// openStored opens a snapshot at the job's version, if an index needs the entries
// that the store has of it: two rows with the same unique key may have come with
// different flushes.
func (j *Job) openStored(ctx context.Context) (kv.Snapshot, error) {
	for i := range j.indexes {
		if idx := &j.indexes[i]; idx.spec.Unique && idx.imported {
			snap, err := j.opts.Store.Snapshot(ctx, j.opts.Version)
			if err != nil {
				return nil, fmt.Errorf("ingest: open snapshot: %w", err)
			}
			return snap, nil
		}
	}
	return nil, nil
}

func concat(a, b []byte) []byte { return append(append(make([]byte, 0, len(a)+len(b)), a...), b...) }

func addStats(a, b lightning.Stats) lightning.Stats {
	a.Files += b.Files
	a.Pairs += b.Pairs
	a.Bytes += b.Bytes
	a.Imports += b.Imports
	a.ImportTime += b.ImportTime
	return a
}
