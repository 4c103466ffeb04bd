package compare

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

// A comparison of indexes that were equal to the rows once. An index that has the rows' entries
// at one time has them at a later one, too, if the entries that were added and removed in between
// are the same on both sides. A key without a version since has the value that it had, so only keys
// with one are read, at both times. Like Run it compares sums of hashes, so the order in
// which keys are met does not matter, and nothing is kept.

const (
	// changeBatch is how many changed keys are read between two checks of the limit, ctx and the pace.
	changeBatch = 64
	// minChanges are read in any case, and one for each rowsPerChange of the table. The time of
	// a key is that of 6 rows in memory; on a disk at most that of a block.
	minChanges, rowsPerChange = 1000, 16
)

var (
	// errUnsure says that the changes do not decide it: everything has to be compared.
	errUnsure = errors.New("cannot tell from the changes")
	// ErrManyChanges says that more keys have changed than may be read.
	ErrManyChanges = errors.New("backfill: more keys have changed than may be read")
)

// ChangesAgree says whether the rows of a table and the entries of its indexes have changed alike
// after since and up to task.TS: an index that had the rows' entries at since has them at task.TS,
// too, if they have. It returns false also where a row's entries cannot be encoded. n is how many keys were
// read. It fails with ErrManyChanges if these are more than limit, which is 0 for none, and with
// kv.ErrSnapshotTooOld if versions after since may have been collected. opts.Store has to be a
// kv.ChangeFinder.
func ChangesAgree(ctx context.Context, opts execution.Options, task encode.Task, since uint64, limit int64) (agree bool, n int64, err error) {
	opts.EnsureDefaults()
	x, err := execution.New(opts, task)
	if err := errors.Join(opts.Validate(), err); err != nil {
		return false, 0, err
	}
	finder, ok := opts.Store.(kv.ChangeFinder)
	if !ok {
		return false, 0, errors.New("backfill: the store cannot tell what has changed")
	}
	c := &comparison{Execution: x}
	if c.snap, err = opts.Store.Snapshot(ctx, task.TS); err != nil {
		return false, 0, fmt.Errorf("backfill: changes: %w", execution.Ended(ctx, err))
	}
	defer func() { err = errs.Combine(err, c.snap.Close()) }()
	agree, err = c.changedAlike(ctx, finder, since, limit)
	if errors.Is(err, errUnsure) {
		return false, c.result.Changes, nil
	}
	if err := execution.Ended(ctx, err); err != nil {
		return false, c.result.Changes, fmt.Errorf("backfill: changes: %w", err)
	}
	return agree, c.result.Changes, nil
}

// changedAlike is changesAgree since a timestamp.
func (c *comparison) changedAlike(ctx context.Context, finder kv.ChangeFinder, since uint64, limit int64) (equal bool, err error) {
	before, err := c.Opts.Store.Snapshot(ctx, since)
	if err != nil {
		return false, err
	}
	defer func() { err = errs.Combine(err, before.Close()) }()
	return c.changesAgree(ctx, finder, before, limit)
}

// compareChanges says that rows and indexes are equal, because they were when they were verified
// and what has changed since agrees. Otherwise, and whenever it cannot be sure, everything is to
// be compared.
func (c *comparison) compareChanges(ctx context.Context) (equal bool, err error) {
	finder, ok := c.Opts.Store.(kv.ChangeFinder)
	if !ok || c.verified.TS == 0 {
		return false, nil
	}
	equal, err = c.changedAlike(ctx, finder, c.verified.TS, max(minChanges, c.verified.Rows/rowsPerChange))
	if errors.Is(err, kv.ErrSnapshotTooOld) || errors.Is(err, errUnsure) || errors.Is(err, ErrManyChanges) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("backfill: compare: %w", err)
	}
	return equal, nil
}

// changesAgree reads the keys that have changed since before, at most limit of them, or all if it is 0.
func (c *comparison) changesAgree(ctx context.Context, finder kv.ChangeFinder, before kv.Snapshot, limit int64) (bool, error) {
	ranges, err := c.cutAll()
	if err != nil {
		return false, err
	}
	all := netChanges{c: c, finder: finder, before: before, net: make([]bucket, len(c.Task.Indexes)), limit: limit}
	err = c.Execute(ctx, ingest.ShareOptions{ReadOnly: true}, func(ctx context.Context) error {
		c.Enter(stageCompare, nil)
		return parallel.Do(ctx, len(ranges), c.Share.Workers, func(ctx context.Context, i int) error { return all.read(ctx, ranges[i]) })
	})
	c.result.Changes = all.n
	if err != nil {
		return false, err
	}
	for _, net := range all.net {
		if net != (bucket{}) {
			return false, nil
		}
	}
	return true, nil
}

// ofRecords is the index of a range of the table's records.
const ofRecords = -1

// cutAll cuts records and indexes into ranges. They cover all keys, deleted ones included.
func (c *comparison) cutAll() (ranges []keyrange.Indexed, err error) {
	whole := c.IndexRanges()
	for _, r := range c.RecordRanges() {
		whole = append(whole, keyrange.Indexed{KeyRange: r, Index: ofRecords})
	}
	for _, w := range whole {
		cut, err := keyrange.CutWhole(c.snap, w.KeyRange, c.rangesOfEach())
		if err != nil {
			return nil, err
		}
		for _, r := range cut {
			ranges = append(ranges, keyrange.Indexed{KeyRange: r, Index: w.Index})
		}
	}
	return ranges, nil
}

// netChanges are the changes of rows and indexes since they were verified.
type netChanges struct {
	c      *comparison
	finder kv.ChangeFinder
	before kv.Snapshot // when they were verified

	mu    sync.Mutex
	n     int64    // keys that were read
	limit int64    // of n; 0 for none
	net   []bucket // by index: entries that the rows have gained, less those that they have lost; less the same of the index
}

// read reads the changes of a range.
func (a *netChanges) read(ctx context.Context, r keyrange.Indexed) error {
	pacer, end := a.c.StartVerifying()
	defer end()
	p := rangeChanges{netChanges: a, of: r, net: make([]bucket, len(a.net))}
	err := a.finder.Changes(ctx, r.KeyRange, a.before.TS(), a.c.Task.TS, func(key []byte) error {
		if p.n++; p.n%changeBatch == 0 {
			if err := errors.Join(a.addKeys(changeBatch), ctx.Err(), pacer.Pace(ctx)); err != nil {
				return err
			}
		}
		return errors.Join(p.add(ctx, a.before, key, -1), p.add(ctx, a.c.snap, key, 1))
	})
	if err := errors.Join(err, a.addKeys(p.n%changeBatch)); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, net := range p.net {
		a.net[k].merge(net)
	}
	return nil
}

// addKeys counts keys that were read, and fails with ErrManyChanges if they are more than the limit.
func (a *netChanges) addKeys(n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n += n; a.limit > 0 && a.n > a.limit {
		return ErrManyChanges
	}
	return nil
}

// rangeChanges are the changes of a range.
type rangeChanges struct {
	*netChanges
	of      keyrange.Indexed
	n       int64
	net     []bucket
	encoder *encode.RowEncoder // nil before there is a row
}

// add adds what key has in a snapshot: sign is 1 for what is new and -1 for what was before.
func (p *rangeChanges) add(ctx context.Context, snap kv.Snapshot, key []byte, sign int64) error {
	value, err := snap.Get(ctx, key)
	switch {
	case errors.Is(err, kv.ErrNotExist):
		return nil
	case err != nil:
		return err
	case p.of.Index != ofRecords:
		p.net[p.of.Index].add(-sign, hashEntry(xxhash.Sum64(key), value))
		return nil
	}
	entries, err := p.encode(key, value)
	if err != nil { // an error of the row is returned with it when all rows are compared
		return fmt.Errorf("%w: %w", errUnsure, err)
	}
	for k, idx := range p.c.Task.Indexes {
		for _, e := range entries {
			if e.Index == idx.ID {
				p.net[k].add(sign, hashEntry(xxhash.Sum64(e.Key), e.Value))
			}
		}
	}
	return nil
}

func (p *rangeChanges) encode(key, value []byte) (_ []encode.Entry, err error) {
	if p.encoder == nil {
		if p.encoder, err = encode.NewRowEncoder(p.c.Task); err != nil {
			return nil, err
		}
	}
	return p.encoder.Encode(key, value)
}
