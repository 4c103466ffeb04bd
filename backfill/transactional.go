package backfill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"golang.org/x/sync/errgroup"

	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
)

// transactionalCheckpointInterval is how often the transactional build makes
// its progress durable.
const transactionalCheckpointInterval = time.Second

// RunTransactional builds the indexes of spec as TiDB does with
// tidb_ddl_enable_fast_reorg=OFF: in transactions of tidb_ddl_reorg_batch_size
// rows, each of which reads the rows at its own start, locks them, and writes
// the entries that are not there. A row that is changed meanwhile makes the
// transaction start again; one that is changed later maintains its entries
// itself, because the indexes are in the write-reorganization state.
//
// Rows written after the plan was made lie outside its ranges only if they were
// written with the indexes already maintained, so spec.TS, which the plan is
// made at, has to be taken in that state. It is the same contract as Run's.
func RunTransactional(ctx context.Context, opts Options, spec Spec) (Result, error) {
	return execute(ctx, opts, spec, true, (*build).runTransactional)
}

func (b *build) runTransactional(ctx context.Context) error {
	cp, err := decodeCheckpoint(b.spec.Checkpoint, &b.spec)
	if err != nil {
		return err
	}
	if cp == nil {
		if cp, err = b.firstCheckpoint(ctx); err != nil {
			return err
		}
	}
	tasks := cp.tasks()
	b.progress.begin(cp.Rows, cp.Weight-totalWeight(tasks), cp.Weight)
	if len(tasks) == 0 {
		return nil
	}
	b.enter("transactions", nil)
	t := &transactional{b: b, cp: cp, saved: time.Now()}
	return t.run(ctx, tasks)
}

// transactional is the state that the workers of a transactional build share.
type transactional struct {
	b *build
	q *queue

	mu    sync.Mutex
	saved time.Time // when the checkpoint was
	cp    *checkpoint
}

func (t *transactional) run(ctx context.Context, tasks []task) error {
	start := time.Now()
	defer func() { t.b.meter.scanning += time.Since(start) }()
	limit := t.b.share.Workers()
	t.b.result.Workers = limit
	t.q = newQueue(tasks, limit)

	g, workCtx := errgroup.WithContext(ctx)
	spawn := func(n int) {
		for range n {
			g.Go(func() error {
				err := t.work(workCtx)
				if err != nil {
					t.q.stop()
				}
				return err
			})
		}
	}
	spawn(limit)
	defer t.b.share.OnWorkers(func() { spawn(t.q.setLimit(t.b.share.Workers())) })()
	if err := g.Wait(); err != nil {
		return err
	}
	t.cp.Rows = t.b.progress.done()
	t.b.result.Entries = t.cp.Rows * int64(len(t.b.spec.Indexes))
	t.cp.setTasks(nil)
	return t.b.save(ctx, t.cp)
}

func (t *transactional) work(ctx context.Context) error {
	var enc []*indexEncoder
	for _, idx := range t.b.spec.Indexes {
		e, err := newIndexEncoder(t.b.spec.Table, idx, t.b.projection)
		if err != nil {
			return err
		}
		enc = append(enc, e)
	}
	for {
		c, ok := t.q.take(ctx)
		if !ok {
			return ctx.Err()
		}
		if err := t.runTask(ctx, c, enc); err != nil {
			return err
		}
	}
}

// runTask builds the entries of a task, batch by batch.
func (t *transactional) runTask(ctx context.Context, c *claim, enc []*indexEncoder) error {
	rest := c.rest
	pacer := t.b.share.NewWallPacer()
	for batches := 1; ; batches++ {
		done, err := t.runBatch(ctx, rest.KeyRange, enc)
		if err != nil {
			return err
		}
		if err := errors.Join(t.b.share.Wait(ctx, done.bytes), pacer.Pace(ctx)); err != nil {
			return err
		}
		if done.last {
			t.b.progress.add(int64(done.rows), rest.weight)
			t.q.release(c)
			return t.checkpoint(ctx)
		}
		weight := rest.weight * (1 - position(rest.KeyRange, done.end))
		t.b.progress.add(int64(done.rows), rest.weight-weight)
		rest = task{kv.KeyRange{Start: done.end, End: rest.End}, weight}

		decision := t.q.judge()
		switch {
		case decision == yield:
			t.q.release(c, rest)
			return t.checkpoint(ctx)
		case decision == share && batches >= batchesBeforeShare:
			t.q.release(c, splitTask(rest, 2)...)
			return t.checkpoint(ctx)
		default:
			t.q.keep(c, rest)
		}
		if err := t.checkpoint(ctx); err != nil {
			return err
		}
	}
}

// checkpoint saves what is left when it is time.
func (t *transactional) checkpoint(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.saved) < t.b.transactionalInterval {
		return nil
	}
	t.saved = time.Now()
	t.cp.Rows = t.b.progress.done()
	t.cp.setTasks(mergeTasks(t.q.remaining()))
	return t.b.save(ctx, t.cp)
}

// batchDone is what one transaction did.
type batchDone struct {
	rows  int
	bytes int    // written
	end   []byte // first key that was not read
	last  bool   // the range has no more rows
}

// runBatch builds the entries of the first rows of r in one transaction. When it
// conflicts with another one it starts again with half as many rows, so that it
// gets through where the rows are changed all the time.
func (t *transactional) runBatch(ctx context.Context, r kv.KeyRange, enc []*indexEncoder) (done batchDone, err error) {
	size := t.b.share.BatchRows()
	for attempt := 1; ; attempt++ {
		done, err = t.tryBatch(ctx, r, enc, size)
		if !kv.IsWriteConflict(err) {
			return done, err
		}
		t.b.opts.Bus.Emit(event.Retry{Job: t.b.job(), Op: "backfill transaction", Attempt: attempt, Err: err})
		size = max(1, size/2)
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
	}
}

func (t *transactional) tryBatch(ctx context.Context, r kv.KeyRange, enc []*indexEncoder, size int) (done batchDone, err error) {
	txn, err := t.b.opts.Store.Begin(ctx)
	if err != nil {
		return done, fmt.Errorf("backfill: begin transaction: %w", err)
	}
	defer func() { err = errors.Join(err, txn.Rollback()) }()

	done = batchDone{end: r.End, last: true}
	var dups duplicates
	err = t.b.opts.Store.ScanColumns(ctx, t.b.projection.request(r, txn.StartTS(), size), func(batch *kv.RowBatch) error {
		done.rows = batch.NumRows()
		done.end, done.last = kv.NextKey(batch.LastKey), false
		if err := t.lockRows(txn, batch); err != nil {
			return err
		}
		for _, e := range enc {
			if err := writeEntries(ctx, txn, e, batch, &dups); err != nil {
				return err
			}
		}
		return errInterrupted // one batch is one transaction
	})
	if err != nil && !errors.Is(err, errInterrupted) {
		return done, err
	}
	if err := dups.err(); err != nil {
		return done, err
	}
	if done.rows == 0 {
		return done, nil
	}
	done.bytes = txn.Size()
	return done, txn.Commit(ctx)
}

func (t *transactional) lockRows(txn kv.Txn, batch *kv.RowBatch) error {
	prefix := tablecodec.GenTableRecordPrefix(t.b.spec.Table.ID)
	keys := make([][]byte, batch.NumRows())
	for i := range keys {
		if t.b.spec.Table.IsCommonHandle {
			keys[i] = append(bytes.Clone(prefix), batch.CommonHandle(i)...)
		} else {
			keys[i] = tablecodec.EncodeRecordKey(prefix, tkv.IntHandle(batch.IntHandles[i]))
		}
	}
	return txn.LockKeys(keys...)
}

// writeEntries writes the entries of a batch that are not there, and adds those
// to dups whose keys other rows have. The key of an entry that is not distinct
// holds the row's handle, and the row is locked, so it takes part in no conflict
// of its own.
func writeEntries(ctx context.Context, txn kv.Txn, e *indexEncoder, batch *kv.RowBatch, dups *duplicates) error {
	if err := e.bind(batch); err != nil {
		return err
	}
	for i := range batch.NumRows() {
		entry, klen, distinct, err := e.entry(i)
		if err != nil {
			return err
		}
		key := append(bytes.Clone(e.prefix), entry[:klen]...)
		value := entry[klen:]
		present, err := txn.Get(ctx, key)
		switch {
		case errors.Is(err, kv.ErrNotExist):
			var flags []kv.KeyFlag
			if !distinct {
				flags = append(flags, kv.NoConflictCheck)
			}
			if err := txn.Set(key, value, flags...); err != nil {
				return err
			}
		case err != nil:
			return err
		case distinct && !bytes.Equal(present, value):
			dups.add(e.index.ID, key, present, value)
		}
	}
	return nil
}

// duplicates are the rows of a batch whose keys other rows have, by key. The
// batch is read to its end for them.
type duplicates map[string]*ingest.DuplicateGroup

// add adds the row with the entry value to the group of the row with the entry
// present.
func (d *duplicates) add(indexID int64, key, present, value []byte) {
	if *d == nil {
		*d = make(duplicates)
	}
	g := (*d)[string(key)]
	if g == nil {
		g = ingest.NewDuplicateGroup(indexID, key, present)
		(*d)[string(key)] = g
	}
	g.Add(value)
}

// err is nil or an ingest.DuplicateError. Indexes of one job have ascending IDs,
// so the order of keys is that of indexes, too.
func (d duplicates) err() error {
	if len(d) == 0 {
		return nil
	}
	groups := slices.SortedFunc(maps.Values(d), func(a, b *ingest.DuplicateGroup) int { return bytes.Compare(a.Key, b.Key) })
	return &ingest.DuplicateError{Groups: groups[:min(len(groups), ingest.MaxDuplicateGroups)]}
}
