package backfill

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

// CompareResult is what a comparison of a table's rows with its indexes found.
type CompareResult struct {
	// Rows is the number of rows, Entries that of the entries of each index, in the
	// order of the task; they are not known if only changes were compared.
	Rows    int64
	Entries []int64
	// Records is how many records the store has met where the entries of each index are, as in
	// kv.Checksum; nil if it was not asked.
	Records []int64
	// Unchanged says that rows were not read, because none has changed since the build.
	Unchanged bool
	// OnlyChanges says that only what has changed since the indexes were verified was
	// compared. Changes is how many keys of rows and entries these were, if they were read.
	OnlyChanges bool
	Changes     int64
	// Differences lists keys that the rows and an index do not agree on, by index
	// and key. There are more if More says so.
	Differences []Difference
	More        bool
}

// Clean says that every index is what the rows give.
func (r *CompareResult) Clean() bool { return len(r.Differences) == 0 && !r.More }

// Difference is a key of an index that has another value than the rows give it,
// or that more than one row claims.
type Difference struct {
	// Index is the ID of the index, Key the whole key.
	Index int64
	Key   []byte
	// Rows is the number of rows that claim the key: none, one or, of a unique index,
	// more. Claims are those with the least record keys, at most maxClaims.
	Rows   int64
	Claims []Claim
	// Actual is the value that the index has; nil if it does not have the key.
	Actual []byte
}

// Claim is a row that gives an index key a value.
type Claim struct {
	RecordKey []byte
	Value     []byte
}

// Compare compares the rows of a table at task.TS with the entries of its indexes
// at the same time. It takes no one's word: rows and entries are read anew, the
// rows are counted by their keys as well, and every index must have exactly the
// entries that the rows give.
//
// It reads everything once, and once more if there are differences, in parallel
// and with the pauses that the governor asks for. What it holds in memory does not
// depend on the number of rows; if there are many differences, some of them are
// returned. It obeys ctx within a second, keeps nothing, and may simply be called
// again. A row with a NULL in a primary key is a *NullError.
func Compare(ctx context.Context, opts executionOptions, task Task) (CompareResult, error) {
	return CompareSince(ctx, opts, task, Verified{}, Built{})
}

// CompareSince is Compare of indexes that a build has verified, having counted the rows (see
// Result.Counted). If the store can tell what has changed since, and that is little, it is
// compared first: if rows and entries have changed alike they are equal, and nothing else is
// read. Or it is Compare of indexes that a build has made without verifying them (see Result.Deferred). If the
// store can tell that no row has changed since, none is read anew.
func CompareSince(ctx context.Context, opts executionOptions, task Task, verified Verified, built Built) (CompareResult, error) {
	opts.EnsureDefaults()
	x, err := newExecution(opts, task)
	if err := errors.Join(opts.Validate(), err); err != nil {
		return CompareResult{}, err
	}
	c := &comparison{execution: x, verified: verified, built: built, result: CompareResult{Entries: make([]int64, len(task.Indexes))}}
	if err := ended(ctx, c.run(ctx)); err != nil {
		return CompareResult{}, err
	}
	return c.result, nil
}

// stageCompare is the name of the stage in events.
const stageCompare = "compare"

// enterCompare reports the stage, with n parts; done says that one more is done.
func enterCompare(x *execution, n int) (done func()) {
	count := new(atomic.Int64)
	x.enter(stageCompare, func() float64 { return float64(count.Load()) / float64(max(1, n)) })
	return func() { count.Add(1) }
}

// prefixOf is that of the keys which rows of a physical table have in an index.
func prefixOf(x *execution, idx *model.IndexInfo, physicalID int64) []byte {
	return indexPrefix(indexIDs(x.task.Table, idx, []int64{physicalID})[0], idx.ID)
}

// comparison is one run of Compare. First everything is summed up, in buckets of
// keys with the same hash: what the rows give is added, what the indexes have is
// taken away. Buckets that are not zero then are looked at key by key.
type comparison struct {
	*execution
	verified Verified
	built    Built
	// stored are the indexes as the store cuts them, once it has been asked.
	stored []entryRange

	snap    kv.Snapshot
	rows    []task
	counts  []kv.KeyRange // of which the records are counted
	beside  bool          // the records of rows are counted by who reads them
	entries []entryRange
	scanned atomic.Int64
	keys    atomic.Int64
	sums    *sums
	result  CompareResult
}

// entrySink takes the entries of the k-th index that rows give and that the index
// has. keyHash is of the whole key. Slices are valid until it returns.
type entrySink interface {
	fromRow(k int, keyHash uint64, e rowEntry)
	fromIndex(k int, keyHash uint64, key, value []byte)
}

// rowEntry is an entry as it is encoded from row i of a batch: the key without its
// prefix, klen bytes long, and the value behind it.
type rowEntry struct {
	kv         []byte
	klen       int
	physicalID int64
	batch      *kv.RowBatch
	i          int
}

func (c *comparison) run(ctx context.Context) (err error) {
	if c.snap, err = c.opts.Store.Snapshot(ctx, c.task.TS); err != nil {
		return fmt.Errorf("backfill: compare: %w", err)
	}
	defer func() { err = errs.Also(err, c.snap.Close()) }()
	if c.result.OnlyChanges, err = c.compareChanges(ctx); err != nil || c.result.OnlyChanges {
		return err
	}
	if c.result.Unchanged, err = c.compareUnchanged(ctx); err != nil || c.result.Unchanged {
		return err
	}
	if err := c.plan(ctx); err != nil {
		return fmt.Errorf("backfill: compare: %w", err)
	}
	c.progress.begin(0, 0, totalWeight(c.rows))
	shared, equal, err := c.sumUpShared(ctx)
	if err != nil {
		return fmt.Errorf("backfill: compare: %w", err)
	}
	if equal {
		return nil
	}
	if shared {
		if suspects, _ := c.sums.suspects(); suspects == nil {
			return c.count()
		}
	}
	return c.execute(ctx, ingest.ShareOptions{ReadOnly: true}, func(ctx context.Context) error {
		if !shared {
			if c.storeSums() {
				if equal, err := c.storeSumsAgree(ctx); err != nil || equal {
					return err
				}
				c.progress.begin(0, 0, totalWeight(c.rows))
			}
			c.countBeside()
			c.sums = newSums(len(c.task.Indexes), totalWeight(c.rows), maxBuckets)
			if err := c.read(ctx, true, c.sums.accumulator); err != nil {
				return fmt.Errorf("backfill: compare: %w", err)
			}
		}
		if err := c.count(); err != nil {
			return err
		}
		return c.narrow(ctx)
	})
}

// checkCount takes over how many rows there were. Every record must have been scanned.
func (c *comparison) checkCount() error {
	if scanned, keys := c.scanned.Load(), c.keys.Load(); scanned != keys {
		return &RowCountError{Table: c.task.Table.Name.O, Scanned: scanned, Keys: keys}
	}
	c.result.Rows = c.scanned.Load()
	return nil
}

// count takes over how much there was of everything.
func (c *comparison) count() error {
	if err := c.checkCount(); err != nil {
		return err
	}
	for k := range c.result.Entries {
		c.result.Entries[k] = c.sums.entries(k)
	}
	return nil
}

// narrow looks at the buckets that differ key by key.
func (c *comparison) narrow(ctx context.Context) error {
	suspects, more := c.sums.suspects()
	if suspects == nil {
		return nil
	}
	suspects.spec = &c.task
	if err := c.read(ctx, false, func() (entrySink, func()) { return suspects, func() {} }); err != nil {
		return fmt.Errorf("backfill: compare: %w", err)
	}
	differences, others := suspects.differences()
	c.result.Differences, c.result.More = differences, more || others
	if len(c.result.Differences) == 0 {
		return fmt.Errorf("backfill: compare: sums of table %s and its indexes differ, and no key does", c.task.Table.Name.O)
	}
	return nil
}

// plan cuts everything that is to be read into parts.
func (c *comparison) plan(ctx context.Context) (err error) {
	if c.rows, err = c.planRows(ctx); err != nil {
		return err
	}
	atLeast := c.partsOfEach()
	if len(c.rows) < atLeast*len(c.physicals) {
		var finer []task
		for _, t := range c.rows {
			finer = append(finer, splitTask(t, atLeast)...)
		}
		c.rows = finer
	}
	if c.storeSums() || c.opts.Crew != nil {
		if c.counts, err = c.planCounts(c.snap, atLeast); err != nil {
			return err
		}
	}
	for _, r := range c.indexRanges() {
		tasks, err := planRange(ctx, c.opts.Store, c.snap, r.KeyRange, verifyTaskBytes, atLeast)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			c.entries = append(c.entries, entryRange{t.KeyRange, r.index})
		}
	}
	return nil
}

// partsOfEach is how many parts each physical table and index has at least.
func (c *comparison) partsOfEach() int { return 1 + tasksPerWorker*c.opts.MaxWorkers/len(c.physicals) }

// countBeside has the scan count what it reads, unless the store counts itself, so that a large
// table is read from disk once. What the scan was not given is counted as before.
func (c *comparison) countBeside() {
	if c.storeSums() {
		return
	}
	rows := make([]kv.KeyRange, len(c.rows))
	for i, t := range c.rows {
		rows[i] = t.KeyRange
	}
	all := c.recordRanges()
	if c.counts, c.beside = without(all, rows); !c.beside {
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

// read hands out all rows' entries and all entries, and the first time counts
// the rows. Each time is a stage of its own in events. open returns the sink of one goroutine, for a time.
func (c *comparison) read(ctx context.Context, first bool, open func() (sink entrySink, release func())) error {
	counts := c.counts
	if !first {
		counts = nil
	}
	n := len(c.rows) + len(c.entries) + len(counts)
	done := enterCompare(c.execution, n)
	return parallel.Do(ctx, n, c.share.Workers, func(ctx context.Context, i int) error {
		defer done()
		if i < len(counts) {
			return c.countPart(ctx, counts[i])
		}
		i -= len(counts)
		pacer, end := c.startVerifying()
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
	pacer, end := c.startVerifying()
	defer end()
	n, err := c.countKeys(ctx, c.snap, r, pacer)
	c.keys.Add(n)
	return err
}

// readEntries hands out the entries of a part of an index.
func (c *comparison) readEntries(ctx context.Context, r entryRange, pacer *ingest.Pacer, sink entrySink) error {
	var seed uint64
	known := false
	return c.iterate(ctx, r.KeyRange, pacer, func(key, value []byte) {
		if !known { // all keys of a range have one prefix
			seed, known = prefixSeed(key[:indexPrefixLen]), true
		}
		sink.fromIndex(r.index, hashKey(seed, key[indexPrefixLen:]), key, value)
	})
}

func (c *comparison) iterate(ctx context.Context, r kv.KeyRange, pacer *ingest.Pacer, fn func(key, value []byte)) error {
	iter, err := c.snap.Iter(r)
	if err != nil {
		return err
	}
	defer iter.Close()
	for n := 0; iter.Valid(); n++ {
		if n%verifyBatch == 0 {
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
func (c *comparison) readRows(ctx context.Context, t task, pacer *ingest.Pacer, sink entrySink, first bool) error {
	enc, err := newEncoders(c.projection)
	if err != nil {
		return err
	}
	e := rowEntry{physicalID: t.physicalID()}
	seeds := make([]uint64, len(c.task.Indexes))
	for k, idx := range c.task.Indexes {
		seeds[k] = prefixSeed(prefixOf(c.execution, idx, e.physicalID))
	}
	req := c.projection.request(t.KeyRange, c.task.TS, c.batchRows())
	credited, trailing := 0.0, trailingCount{count: c.countScanned, start: t.Start}
	err = c.opts.Store.ScanColumns(ctx, req, func(batch *kv.RowBatch) error {
		e.batch = batch
		if err := enc.bind(batch, e.physicalID); err != nil {
			return err
		}
		for k, index := range enc.indexes {
			err := index.encode(func(i int, kv []byte, klen int) error {
				e.i, e.kv, e.klen = i, kv, klen
				sink.fromRow(k, hashKey(seeds[k], kv[:klen]), e)
				return nil
			})
			if err != nil {
				return err
			}
		}
		if first {
			done := t.weight * position(t.KeyRange, batch.LastKey)
			c.scanned.Add(int64(batch.NumRows()))
			c.progress.add(int64(batch.NumRows()), done-credited)
			credited = done
			if err := trailing.scanned(ctx, batch); err != nil {
				return err
			}
		}
		return pacer.Pace(ctx)
	})
	if err != nil || !first {
		return err
	}
	c.progress.add(0, t.weight-credited)
	return trailing.until(ctx, t.End)
}
