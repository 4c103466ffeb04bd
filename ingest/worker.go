package ingest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"fastddl/internal/stage"
)

// Totals counts the entries of an index and sums their hashes, in an order
// that does not matter: two sets of entries with equal totals are equal but for
// a chance of 2^-64.
type Totals struct {
	Entries  int64  `json:"entries"`
	Bytes    int64  `json:"bytes"`
	Checksum uint64 `json:"checksum"`
}

// Add adds o to t.
func (t *Totals) Add(o Totals) {
	t.Entries += o.Entries
	t.Bytes += o.Bytes
	t.Checksum += o.Checksum
}

// AddEntry adds one entry. kv is the key without the index prefix, klen bytes
// long, and the value behind it.
func (t *Totals) AddEntry(kv []byte, klen int) {
	t.Entries++
	t.Bytes += int64(len(kv))
	t.Checksum += xxhash.Sum64(kv) ^ (uint64(klen) * 0x9e3779b97f4a7c15)
}

// Worker takes the entries of one backfill worker. It must be used by one
// goroutine, with a clock whose current stage it charges its work to, and ended
// by Finish or Discard.
type Worker struct {
	job    *Job
	clock  *stage.Clock
	sorter sorter

	indexes []workerIndex
	memory  int64 // bytes accounted to the job's share
}

// workerIndex is what a worker holds of one index.
type workerIndex struct {
	arena  arena
	chunks []*chunk
	totals Totals
}

// NewWorker returns a worker of the job; clock may be nil.
func (j *Job) NewWorker(clock *stage.Clock) *Worker {
	if clock == nil {
		clock = stage.Start(stage.Idle)
	}
	j.mu.Lock()
	j.workers++
	j.mu.Unlock()
	return &Worker{job: j, clock: clock, indexes: make([]workerIndex, len(j.indexes))}
}

// Append adds an entry to the job's i-th index: the key without the index
// prefix, and the value, back to back in kv. It copies kv.
func (w *Worker) Append(i int, kv []byte, klen int) error {
	idx := &w.indexes[i]
	if err := idx.arena.append(kv[:klen], kv[klen:]); err != nil {
		return err
	}
	idx.totals.AddEntry(kv, klen)
	return nil
}

// maxChunkBytes bounds the memory of an arena before it is sorted. Small ones
// sort faster, because the sort's buffers stay in the processor's caches, and
// let a cancelled job stop soon; but each is another way in the merge.
const maxChunkBytes = 32 << 20

// EndBatch is called between two batches of rows. It sorts and spills what has
// to be, and reports with full that the job's share of the disk is used up, so
// that the caller has to bring all workers to a stop and Flush the job.
func (w *Worker) EndBatch(ctx context.Context) (full bool, err error) {
	limit := w.job.workerMemory()
	// A small memory is divided between chunks and the sort's buffers.
	chunkLimit := min(maxChunkBytes, limit/4)
	for i := range w.indexes {
		idx := &w.indexes[i]
		if idx.arena.size() >= chunkLimit {
			w.seal(idx)
		}
	}
	w.account()
	if w.used() < limit {
		return w.job.NeedsFlush(), nil
	}
	return w.spill(ctx)
}

// seal turns an index's arena into a sorted chunk.
func (w *Worker) seal(idx *workerIndex) {
	if idx.arena.count == 0 {
		return
	}
	defer w.clock.Enter(w.clock.Enter(stage.Sort))
	order := w.sorter.sort(&idx.arena)
	idx.chunks = append(idx.chunks, &chunk{arena: idx.arena, order: order})
	idx.arena = arena{}
}

// used is the memory the worker will hold once all its arenas are sorted.
func (w *Worker) used() int64 {
	var n, most int64
	for i := range w.indexes {
		idx := &w.indexes[i]
		n += idx.arena.size() + int64(idx.arena.count)*orderBytesPerEntry
		most = max(most, int64(idx.arena.count))
		for _, c := range idx.chunks {
			n += c.size()
		}
	}
	return n + max(w.sorter.size(), 2*most*entrySize)
}

// account tells the job's share what the worker holds.
func (w *Worker) account() {
	if used := w.used(); used != w.memory {
		w.job.share.useMemory(used - w.memory)
		w.memory = used
	}
}

// spill writes everything the worker holds to runs, one for each index. When
// the disk has no room for them it keeps what it holds, for the flush.
func (w *Worker) spill(ctx context.Context) (full bool, err error) {
	for i := range w.indexes {
		w.seal(&w.indexes[i])
	}
	defer w.clock.Enter(w.clock.Enter(stage.Spill))
	for i := range w.indexes {
		idx := &w.indexes[i]
		if len(idx.chunks) == 0 {
			continue
		}
		ok, err := w.spillIndex(ctx, i)
		if err != nil {
			return false, err
		}
		if !ok {
			w.job.needsFlush.Store(true)
			return true, nil
		}
		for _, c := range idx.chunks {
			c.release()
		}
		idx.chunks = nil
	}
	w.account()
	return w.job.NeedsFlush(), nil
}

func (w *Worker) spillIndex(ctx context.Context, i int) (ok bool, err error) {
	chunks := w.indexes[i].chunks
	var bound int64
	for _, c := range chunks {
		bound += runSizeBound(c.arena.count, c.arena.bytes)
	}
	if !w.job.share.tryAcquireRuns(bound) {
		return false, nil
	}
	r, err := w.writeRun(ctx, i, chunks)
	if err != nil {
		w.job.share.releaseRuns(bound)
		return false, err
	}
	w.job.share.releaseRuns(bound - r.bytes)
	w.job.addRun(i, r)
	return true, nil
}

func (w *Worker) writeRun(ctx context.Context, i int, chunks []*chunk) (*run, error) {
	dir, err := w.job.dir()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d-%d.run", w.job.indexes[i].spec.ID, w.job.runSeq.Add(1))
	out, err := newRunWriter(filepath.Join(dir, name), w.job.opts.CreateRun)
	if err != nil {
		return nil, err
	}
	if err := mergeTo(ctx, chunks, out); err != nil {
		return nil, errors.Join(err, out.abort())
	}
	return out.finish()
}

// mergeTo writes the merged chunks to out.
func mergeTo(ctx context.Context, chunks []*chunk, out *runWriter) error {
	cursors := make([]cursor, len(chunks))
	bounds := newBounds()
	for i, c := range chunks {
		cursors[i] = c.cursor(keyRange{})
		bounds.addChunk(c)
	}
	m, err := newMerger(cursors, nil, bounds.common(), false)
	if err != nil {
		return err
	}
	defer m.close()
	var batch records
	for {
		if err := m.next(ctx, nil, &batch); err != nil {
			return err
		}
		if batch.len() == 0 {
			return nil
		}
		for i := range batch.len() {
			if err := out.add(batch.key(i), batch.value(i)); err != nil {
				return err
			}
		}
	}
}

// Finish sorts what is left and hands everything to the job, for the next
// Flush. The worker must not be used afterwards.
func (w *Worker) Finish() {
	for i := range w.indexes {
		idx := &w.indexes[i]
		w.seal(idx)
	}
	w.sorter = sorter{}
	w.account()
	w.job.takeOver(w)
}

// Discard drops what the worker holds.
func (w *Worker) Discard() {
	for i := range w.indexes {
		idx := &w.indexes[i]
		idx.arena.release()
		for _, c := range idx.chunks {
			c.release()
		}
	}
	w.job.share.useMemory(-w.memory)
	w.indexes, w.memory = nil, 0
	w.job.mu.Lock()
	w.job.workers--
	w.job.mu.Unlock()
}
