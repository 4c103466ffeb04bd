package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"fastddl/config"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/stage"
	"fastddl/load/rows"
)

// round is what a round of reading has read: its rows are with the ingest job.
type round struct {
	l   *loader
	q   *queue
	job *ingest.Job
	ids *rows.IDs

	mu         sync.Mutex
	rows       int64
	bytes      int64   // of the source
	partitions []int64 // rows of each physical table
	left       []rows.Chunk
}

// read reads chunks until there are none left or the ingest job has to be flushed.
func (l *loader) read(ctx context.Context, job *ingest.Job, chunks []rows.Chunk, ids *rows.IDs) (*round, error) {
	start := time.Now()
	limit := l.share.Workers()
	l.result.Workers = limit
	r := &round{l: l, q: newQueue(chunks, limit), job: job, ids: ids, partitions: make([]int64, len(l.layout.physicals))}
	interval := time.AfterFunc(l.opts.checkpointInterval(), r.q.end)
	defer interval.Stop()
	follow := func() { interval.Reset(time.Until(start.Add(l.opts.checkpointInterval()))) }
	defer l.opts.Globals.OnChange(func(name, _ string) {
		if name == config.CheckpointInterval {
			follow()
		}
	})()
	follow() // it may have changed before the subscription

	workers, ctx := errgroup.WithContext(ctx)
	spawn := func(n int) {
		for range n {
			workers.Go(func() error { return r.work(ctx) })
		}
	}
	spawn(limit)
	defer l.share.OnWorkers(func() { r.q.setLimit(l.share.Workers(), spawn) })()
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	r.left = r.q.left()
	return r, nil
}

// worker reads chunks.
type worker struct {
	*round
	clock *stage.Clock
	out   *ingest.Worker
	pacer *flow.Pacer
	pair  []byte

	rows       int64
	partitions []int64
}

func (r *round) work(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			r.q.stop() // what it holds it does not give back
		}
	}()
	defer errs.Contain(&err)
	flow.BackgroundThread()
	clock := stage.Start(stage.Idle)
	defer func() { r.l.addCosts(clock.Stop()) }()

	w := &worker{round: r, clock: clock, out: r.job.NewWorker(clock), pacer: r.l.share.NewPacer(clock), partitions: make([]int64, len(r.partitions))}
	finished := false
	defer func() {
		if !finished { // also after a panic
			w.out.Discard()
		}
	}()
	for {
		clock.Enter(stage.Idle)
		c, ok := r.q.take(ctx)
		if !ok {
			break
		}
		if err := w.readChunk(ctx, c); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	finished = true
	w.out.Finish()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows += w.rows
	for i, n := range w.partitions {
		r.partitions[i] += n
	}
	return nil
}

// readChunk reads a chunk, or as much of it as the queue lets it.
func (w *worker) readChunk(ctx context.Context, c chunk) (err error) {
	w.clock.Enter(stage.Scan)
	in, err := w.l.source.open(ctx, c.Chunk, w.ids)
	if err != nil {
		return err
	}
	defer func() { err = errs.Combine(err, in.Close()) }()
	reported := int64(0) // bytes
	report := func(rows int64) {
		read := in.Read()
		w.l.opts.Progress.add(rows, read-reported)
		w.mu.Lock()
		w.bytes += read - reported
		w.mu.Unlock()
		reported = read
	}
	for {
		n, more, err := w.readBatch(ctx, in)
		report(n)
		if err != nil || !more {
			return err
		}
		full, err := w.out.EndBatch(ctx)
		if err != nil {
			return err
		}
		if full {
			w.q.stop()
		} else if err := w.pacer.Pace(ctx); err != nil {
			return err
		}
		w.clock.Enter(stage.Scan)
		if w.q.yields() {
			if c.Chunk = in.Rest(); !c.Done {
				w.q.giveBack(c)
			}
			return nil
		}
	}
}

// maxBatchBytes is how many bytes of entries a batch has about, however few rows they are of.
const maxBatchBytes = 1 << 20

// readBatch reads some rows. more is false at the end of the chunk.
func (w *worker) readBatch(ctx context.Context, in reader) (n int64, more bool, err error) {
	limit := int64(w.l.batchRows())
	for size := 0; n < limit && size < maxBatchBytes; {
		pairs, err := in.Next(ctx)
		if errors.Is(err, io.EOF) {
			return n, false, nil
		}
		if bad := (*rows.RowError)(nil); errors.As(err, &bad) {
			enough := w.l.bad.add(bad)
			if enough {
				w.q.stop()
			}
			if enough || bad.Final {
				return n, false, nil
			}
			continue
		}
		if err != nil {
			return n, false, err
		}
		n++
		if w.l.bad.any() {
			if w.l.bad.over() {
				w.q.stop()
				return n, false, nil
			}
			continue // the load has failed, and what is left is read for the list of bad rows
		}
		for i := range pairs {
			bytes, err := w.add(pairs[i].Key, pairs[i].Val)
			if err != nil {
				return n, false, fmt.Errorf("%v: %w", in.Place(), err)
			}
			size += bytes
			if err := w.out.MakeRoom(ctx); err != nil {
				return n, false, err
			}
		}
		w.rows++
	}
	return n, true, nil
}

// add appends a pair to its space.
func (w *worker) add(key, value []byte) (bytes int, err error) {
	at, table, err := w.l.layout.find(key)
	if err != nil {
		return 0, err
	}
	if at == 0 {
		w.partitions[table]++
	}
	prefix := len(w.l.layout.spaces[at].spec.Prefix)
	w.pair = append(append(w.pair[:0], key[prefix:]...), value...)
	return len(w.pair), w.out.Append(at, w.pair, len(key)-prefix)
}

// batchRows is after how many rows a worker looks whether to go on.
func (l *loader) batchRows() int {
	if l.opts.BatchRows > 0 {
		return l.opts.BatchRows
	}
	return l.share.BatchRows()
}
