package compare

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/flow"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

// stageCompare is the name of the stage in events.
const stageCompare = "compare"

// enterCompare reports the stage, with n ranges; done says that one more is done.
func enterCompare(x *execution.Execution, n int) (done func()) {
	count := new(atomic.Int64)
	x.Enter(stageCompare, func() float64 { return float64(count.Load()) / float64(max(1, n)) })
	return func() { count.Add(1) }
}

// prefixOf is that of the keys which rows of a physical table have in an index.
func prefixOf(x *execution.Execution, idx *model.IndexInfo, physicalID int64) []byte {
	return encode.IndexPrefix(encode.IndexIDs(x.Task.Table, idx, []int64{physicalID})[0], idx.ID)
}

// comparison is the state of one Run. First everything is summed up, in buckets of
// keys with the same hash: what the rows give is added, what the indexes have is
// taken away. Buckets that are not zero then are looked at key by key.
type comparison struct {
	*execution.Execution
	verified Verified
	built    Built
	// stored are the indexes as the store cuts them, once it has been asked.
	stored []keyrange.Indexed

	snap    kv.Snapshot
	rows    []keyrange.Weighted
	counts  []kv.KeyRange // of which the records are counted
	beside  bool          // the records of rows are counted by who reads them
	entries []keyrange.Indexed
	scanned atomic.Int64
	keys    atomic.Int64
	sums    *sums
	result  Result
}

// checkCount sets the result's rows. Every record must have been scanned.
func (c *comparison) checkCount() error {
	if scanned, keys := c.scanned.Load(), c.keys.Load(); scanned != keys {
		return &execution.RowCountError{Table: c.Task.Table.Name.O, Scanned: scanned, Keys: keys}
	}
	c.result.Rows = c.scanned.Load()
	return nil
}

// count sets the result's rows and entries.
func (c *comparison) count() error {
	if err := c.checkCount(); err != nil {
		return err
	}
	for k := range c.result.Entries {
		c.result.Entries[k] = c.sums.entries(k)
	}
	return nil
}

// plan cuts everything that is to be read into ranges.
func (c *comparison) plan(ctx context.Context) (err error) {
	if c.rows, err = c.PlanRows(ctx); err != nil {
		return err
	}
	atLeast := c.rangesOfEach()
	if len(c.rows) < atLeast*len(c.Physicals) {
		var finer []keyrange.Weighted
		for _, t := range c.rows {
			finer = append(finer, keyrange.Split(t, atLeast)...)
		}
		c.rows = finer
	}
	if c.StoreSums() || c.Opts.Scheduler != nil {
		if c.counts, err = c.PlanCounts(c.snap, atLeast); err != nil {
			return err
		}
	}
	for _, r := range c.IndexRanges() {
		tasks, err := keyrange.Plan(ctx, c.Opts.Store, c.snap, r.KeyRange, execution.VerifyRangeBytes, atLeast)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			c.entries = append(c.entries, keyrange.Indexed{KeyRange: t.KeyRange, Index: r.Index})
		}
	}
	return nil
}

// rangesOfEach is into how many ranges each physical table and index is cut at least.
func (c *comparison) rangesOfEach() int {
	return 1 + execution.RangesPerWorker*c.Opts.MaxWorkers/len(c.Physicals)
}

// countBeside has the scan count what it reads, unless the store counts itself, so that a large
// table is read from disk once. What the scan was not given is counted as before.
func (c *comparison) countBeside() {
	if c.StoreSums() {
		return
	}
	rows := make([]kv.KeyRange, len(c.rows))
	for i, t := range c.rows {
		rows[i] = t.KeyRange
	}
	all := c.RecordRanges()
	if c.counts, c.beside = keyrange.Without(all, rows); !c.beside {
		c.counts = all
	}
}

// countScanned counts the records in r, which have just been scanned.
func (c *comparison) countScanned(ctx context.Context, r kv.KeyRange) error {
	if !c.beside {
		return nil
	}
	n, err := c.snap.Count(ctx, r)
	c.keys.Add(n)
	return err
}

// read passes all rows' entries and all entries to a sink, and the first time counts
// the rows. Each time is a stage of its own in events. open returns the sink of one goroutine, for a time.
func (c *comparison) read(ctx context.Context, first bool, open func() (sink entrySink, release func())) error {
	counts := c.counts
	if !first {
		counts = nil
	}
	n := len(c.rows) + len(c.entries) + len(counts)
	done := enterCompare(c.Execution, n)
	return parallel.Do(ctx, n, c.Share.Workers, func(ctx context.Context, i int) error {
		defer done()
		if i < len(counts) {
			return c.countPart(ctx, counts[i])
		}
		i -= len(counts)
		pacer, end := c.StartVerifying()
		defer end()
		sink, release := open()
		defer release()
		if i < len(c.rows) {
			return c.readRows(ctx, c.rows[i], pacer, sink, first)
		}
		return c.readEntries(ctx, c.entries[i-len(c.rows)], pacer, sink)
	})
}

// countPart counts the records in r.
func (c *comparison) countPart(ctx context.Context, r kv.KeyRange) error {
	pacer, end := c.StartVerifying()
	defer end()
	n, err := c.CountKeys(ctx, c.snap, r, pacer)
	c.keys.Add(n)
	return err
}

// readEntries gives the sink the entries of a range of an index.
func (c *comparison) readEntries(ctx context.Context, r keyrange.Indexed, pacer *flow.Pacer, sink entrySink) error {
	var seed uint64
	known := false
	return c.iterate(ctx, r.KeyRange, pacer, func(key, value []byte) {
		if !known { // all keys of a range have one prefix
			seed, known = prefixSeed(key[:encode.PrefixLen]), true
		}
		sink.fromIndex(r.Index, hashKey(seed, key[encode.PrefixLen:]), key, value)
	})
}

func (c *comparison) iterate(ctx context.Context, r kv.KeyRange, pacer *flow.Pacer, fn func(key, value []byte)) error {
	iter, err := c.snap.Iter(r)
	if err != nil {
		return err
	}
	defer iter.Close()
	for n := 0; iter.Valid(); n++ {
		if n%execution.VerifyBatch == 0 {
			if err := errors.Join(ctx.Err(), pacer.Pace(ctx)); err != nil {
				return err
			}
		}
		fn(iter.Key(), iter.Value())
		if err := iter.Next(); err != nil {
			return err
		}
	}
	return nil
}

// readRows hands out the entries that some rows give, and the first time says that they were
// scanned and counts them, if the scan does that.
func (c *comparison) readRows(ctx context.Context, t keyrange.Weighted, pacer *flow.Pacer, sink entrySink, first bool) error {
	enc, err := encode.NewEncoders(c.Projection)
	if err != nil {
		return err
	}
	e := rowEntry{physicalID: t.PhysicalID()}
	seeds := make([]uint64, len(c.Task.Indexes))
	for k, idx := range c.Task.Indexes {
		seeds[k] = prefixSeed(prefixOf(c.Execution, idx, e.physicalID))
	}
	req := c.Projection.Request(t.KeyRange, c.Task.TS, c.BatchRows())
	credited, trailing := 0.0, execution.TrailingCount{Count: c.countScanned, Start: t.Start}
	err = c.Opts.Store.ScanColumns(ctx, req, func(batch *kv.RowBatch) error {
		e.batch = batch
		if err := enc.Bind(batch, e.physicalID); err != nil {
			return err
		}
		for k, index := range enc.Indexes {
			err := index.Encode(func(i int, kv []byte, klen int) error {
				e.i, e.kv, e.klen = i, kv, klen
				sink.fromRow(k, hashKey(seeds[k], kv[:klen]), e)
				return nil
			})
			if err != nil {
				return err
			}
		}
		if first {
			done := t.Weight * keyrange.Position(t.KeyRange, batch.LastKey)
			c.scanned.Add(int64(batch.NumRows()))
			c.Progress.Add(int64(batch.NumRows()), done-credited)
			credited = done
			if err := trailing.Scanned(ctx, batch); err != nil {
				return err
			}
		}
		return pacer.Pace(ctx)
	})
	if err != nil || !first {
		return err
	}
	c.Progress.Add(0, t.Weight-credited)
	return trailing.Until(ctx, t.End)
}
