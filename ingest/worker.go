package ingest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"fastddl/event"
	"fastddl/internal/stage"
	"fastddl/kv"
)

// Totals counts the entries of an index and sums their hashes, in an order
// that does not matter: two sets of entries with equal totals are equal but for
// a chance of 2^-64.
type Totals struct {
	Entries  int64  `json:"entries"`
	Bytes    int64  `json:"bytes"`
	Checksum uint64 `json:"checksum"`
	// CRC is there instead of Checksum if the store sums up its entries itself: that of
	// kv.Checksum, of whole keys.
	CRC uint64 `json:"crc,omitempty"`
}

// Add adds o to t.
func (t *Totals) Add(o Totals) {
	t.Entries += o.Entries
	t.Bytes += o.Bytes
	t.Checksum += o.Checksum
	t.CRC ^= o.CRC
}

// AddEntry adds one entry. kv is the key without the index prefix, klen bytes
// long, and the value behind it.
func (t *Totals) AddEntry(kv []byte, klen int) {
	t.Entries++
	t.Bytes += int64(len(kv))
	t.Checksum += xxhash.Sum64(kv) ^ (uint64(klen) * 0x9e3779b97f4a7c15)
}

// AddForStore is AddEntry for a kv.Checksummer; prefixCRC is the CRC of the index prefix.
func (t *Totals) AddForStore(prefixCRC uint64, pair []byte) {
	t.Entries++
	t.Bytes += int64(len(pair))
	t.CRC ^= kv.UpdateCRC(prefixCRC, pair)
}

// Worker takes the entries of one backfill worker. It must be used by one
// goroutine, with a clock whose current stage it charges its work to, and ended
// by Finish or Discard.
type Worker struct {
	job   *Job
	clock *stage.Clock

	indexes []workerIndex
	memory  int64 // bytes accounted to the job's share
	grown   int64 // bytes that the arenas have grown by since it was last looked whether they are full
}

// workerIndex is what a worker holds of one index.
type workerIndex struct {
	splitters  *splitters
	partitions []arena
	totals     Totals
	prefixCRC  uint64 // if the store sums up entries itself
	maxEntry   int    // bytes
}

// NewWorker returns a worker of the job; clock may be nil.
func (j *Job) NewWorker(clock *stage.Clock) *Worker {
	if clock == nil {
		clock = stage.Start(stage.Idle)
	}
	j.mu.Lock()
	j.workers++
	j.mu.Unlock()
	w := &Worker{job: j, clock: clock, indexes: make([]workerIndex, len(j.indexes))}
	for i := range w.indexes {
		s := j.indexes[i].splitters
		w.indexes[i] = workerIndex{splitters: s, partitions: make([]arena, s.count()), maxEntry: MaxEntrySize}
		if j.indexes[i].spec.Records {
			w.indexes[i].maxEntry = MaxRecordSize
		}
		if j.storeSums {
			w.indexes[i].prefixCRC = kv.UpdateCRC(0, j.indexes[i].spec.Prefix)
		}
	}
	return w
}

// Append adds an entry to the job's i-th index: the key without the index
// prefix, and the value, back to back in pair. It copies pair.
func (w *Worker) Append(i int, pair []byte, klen int) error {
	idx := &w.indexes[i]
	if len(pair) > idx.maxEntry {
		return fmt.Errorf("ingest: index entry of %d bytes is larger than %d", len(pair), idx.maxEntry)
	}
	a := &idx.partitions[idx.splitters.find(pair[:klen])]
	before := a.reserved
	if err := a.append(pair, klen); err != nil {
		return err
	}
	w.grown += a.reserved - before
	if w.job.storeSums {
		idx.totals.AddForStore(idx.prefixCRC, pair)
	} else {
		idx.totals.AddEntry(pair, klen)
	}
	return nil
}

// lookAfter is how many bytes a worker's arenas may grow by within a batch before it looks whether they are full.
const lookAfter = 1 << 20

// MakeRoom is called between two entries, and spills when the worker's memory is full: a row has as many entries as an array
// of its has elements, which may be a hundred times as long as what was read of it. Where the disk has no room for them
// they stay where they are, for EndBatch to tell.
func (w *Worker) MakeRoom(ctx context.Context) error {
	if w.grown < lookAfter {
		return nil
	}
	_, err := w.EndBatch(ctx)
	return err
}

// EndBatch is called between two batches of rows. It spills when the worker's
// memory is full, and reports with full that the job's share of the disk is used
// up, so that the caller has to bring all workers to a stop and Flush the job.
func (w *Worker) EndBatch(ctx context.Context) (full bool, err error) {
	w.grown = 0
	w.account()
	if w.memory < w.job.workerMemory() {
		return w.job.NeedsFlush(), nil
	}
	return w.spill(ctx)
}

// used returns the memory the worker holds, and what sorting its part of the
// partitions that are merged at one time will take.
func (w *Worker) used() int64 {
	var reserved, sorting int64
	parallel := int64(w.job.opts.Parallel())
	for i := range w.indexes {
		var all, most int64
		for p := range w.indexes[i].partitions {
			a := &w.indexes[i].partitions[p]
			reserved += a.reserved
			all += int64(a.count)
			most = max(most, int64(a.count))
		}
		sorting = max(sorting, min(all, most*parallel))
	}
	return reserved + sorting*2*entrySize
}

// account charges the job's share with what the worker holds.
func (w *Worker) account() {
	if used := w.used(); used != w.memory {
		w.job.share.useMemory(used - w.memory)
		w.memory = used
	}
}

// spill writes everything the worker holds to runs, one for each index. When
// the disk has no room for them it keeps what it holds, for the flush.
func (w *Worker) spill(ctx context.Context) (full bool, err error) {
	defer w.clock.Enter(w.clock.Enter(stage.Spill))
	for i := range w.indexes {
		ok, err := w.spillIndex(ctx, i)
		if err != nil {
			return false, err
		}
		if !ok {
			w.job.needsFlush.Store(true)
			return true, nil
		}
	}
	w.account()
	return w.job.NeedsFlush(), nil
}

// spillIndex writes what the worker holds of an index to a run, if the disk has
// room for it.
func (w *Worker) spillIndex(ctx context.Context, i int) (ok bool, err error) {
	partitions := w.indexes[i].partitions
	var parts []part
	var bound int64
	for p := range partitions {
		if a := &partitions[p]; a.count > 0 {
			a.seal()
			parts = append(parts, part{bucket{a}, w.indexes[i].splitters.commonPrefix(p)})
			bound += runSizeBound(a.count, a.bytes)
		}
	}
	if len(parts) == 0 {
		return true, nil
	}
	w.job.measureRoom()
	if !w.job.share.tryAcquireRuns(bound) {
		return false, nil
	}
	r, err := w.writeRun(ctx, i, parts)
	if w.job.share.refused(err) {
		w.job.opts.Bus.Emit(event.Retry{Job: event.Job{ID: w.job.opts.ID}, Op: "write of a run", Attempt: 1, Err: err})
		w.job.share.releaseRuns(bound)
		return false, nil
	}
	if err != nil {
		w.job.share.releaseRuns(bound)
		return false, err
	}
	w.job.share.releaseRuns(bound - r.bytes)
	w.job.addRun(i, r)
	for p := range partitions {
		partitions[p].release()
	}
	return true, nil
}

func (w *Worker) writeRun(ctx context.Context, i int, parts []part) (*run, error) {
	dir, err := w.job.dir()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d-%d.run", w.job.indexes[i].spec.ID, w.job.runSeq.Add(1))
	out, err := newRunWriter(w.job.opts.FS, filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	if err := writeParts(ctx, parts, w.clock, out); err != nil {
		return nil, errors.Join(err, out.abort())
	}
	return out.finish()
}

// writeParts writes the entries of parts, which are in key order, to out.
func writeParts(ctx context.Context, parts []part, clock *stage.Clock, out *runWriter) error {
	c := newBucketCursor(parts, clock)
	defer c.close()
	var batch records
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.next(&batch); err != nil {
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

// Finish hands everything to the job, for the next Flush. The worker must not be
// used afterwards.
func (w *Worker) Finish() {
	w.account()
	w.job.takeOver(w)
}

// Discard drops what the worker holds.
func (w *Worker) Discard() {
	for i := range w.indexes {
		for p := range w.indexes[i].partitions {
			w.indexes[i].partitions[p].release()
		}
	}
	w.job.share.useMemory(-w.memory)
	w.indexes, w.memory = nil, 0
	w.job.mu.Lock()
	w.job.workers--
	w.job.mu.Unlock()
}
