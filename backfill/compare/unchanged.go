package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"fastddl/ingest"
	"fastddl/internal/parallel"
	"fastddl/kv"
)

// compareUnchanged says that the indexes are equal to the rows, because the store has counted as many record keys as rows
// were scanned by the build, none of them has changed since, and the sums of the indexes are those of what the build has
// made of the rows. If it says no, nothing is known.
//
// The last range of the rows is counted alone, and then the others from the end: while a table is in use its newest rows
// are the likeliest to have changed, and nothing else is counted then.
func (c *comparison) compareUnchanged(ctx context.Context) (bool, error) {
	counter, ok := c.Opts.Store.(kv.UnchangedCounter)
	if !ok || !c.StoreSums() || c.built.TS == 0 {
		return false, nil
	}
	counts, err := c.StoreCounts(ctx)
	if err != nil {
		return false, fmt.Errorf("backfill: compare: %w", err)
	}
	slices.Reverse(counts)
	entries, err := c.storeEntries(ctx)
	if err != nil {
		return false, fmt.Errorf("backfill: compare: %w", err)
	}
	var keys atomic.Int64
	count := func(ctx context.Context, i int) error {
		pacer, end := c.StartVerifying()
		defer end()
		if err := pacer.Pace(ctx); err != nil {
			return err
		}
		n, unchanged, err := counter.CountUnchanged(ctx, counts[i], c.built.TS, c.Task.TS)
		if err == nil && !unchanged {
			return errRowsChanged
		}
		keys.Add(n)
		return err
	}
	s := c.newStoreSums()
	err = c.Execute(ctx, ingest.ShareOptions{ReadOnly: true}, func(ctx context.Context) error {
		done := enterCompare(c.Execution, len(counts)+len(entries))
		if err := count(ctx, 0); err != nil {
			return err
		}
		done()
		return parallel.Do(ctx, len(counts)-1+len(entries), c.StoreParallel, func(ctx context.Context, i int) error {
			defer done()
			if i < len(counts)-1 {
				return count(ctx, i+1)
			}
			return s.addStored(ctx, entries[i-len(counts)+1])
		})
	})
	switch {
	case errors.Is(err, errRowsChanged), errors.Is(err, kv.ErrSnapshotTooOld):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("backfill: compare: %w", err)
	}
	if keys.Load() != c.built.Rows || !s.equal(c.built.Given) {
		return false, nil
	}
	c.result.Rows = c.built.Rows
	return true, nil
}

// errRowsChanged says that the rows have to be read again.
var errRowsChanged = errors.New("rows may have changed")
