package compare

import (
	"context"
	"errors"
	"fmt"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/internal/errs"
)

// Run compares the rows of a table at task.TS with the entries of its indexes
// at the same time. It relies on nothing found before: rows and entries are read anew, the
// rows are counted by their keys as well, and every index must have exactly the
// entries that the rows give.
//
// It reads everything once, and once more if there are differences, in parallel
// at the pace that flow control allows. What it holds in memory does not
// depend on the number of rows; if there are many differences, some of them are
// returned. It obeys ctx within a second, writes nothing, and may simply be called
// again. A row with a NULL in a primary key is a *encode.NullError.
func Run(ctx context.Context, opts execution.Options, task encode.Task) (Result, error) {
	return Since(ctx, opts, task, Verified{}, Built{})
}

// Since is Run of indexes that a build has verified, having counted the rows (see
// backfill.Result.Counted). If the store can tell what has changed since, and that is little, it is
// compared first: if rows and entries have changed alike they are equal, and nothing else is
// read. Or it is Run of indexes that a build has made without verifying them (see
// backfill.Result.Deferred). If the store can tell that no row has changed since, none is read
// anew.
func Since(ctx context.Context, opts execution.Options, task encode.Task, verified Verified, built Built) (Result, error) {
	opts.EnsureDefaults()
	x, err := execution.New(opts, task)
	if err := errors.Join(opts.Validate(), err); err != nil {
		return Result{}, err
	}
	c := &comparison{Execution: x, verified: verified, built: built, result: Result{Entries: make([]int64, len(task.Indexes))}}
	if err := execution.Ended(ctx, c.run(ctx)); err != nil {
		return Result{}, err
	}
	return c.result, nil
}

func (c *comparison) run(ctx context.Context) (err error) {
	if c.snap, err = c.Opts.Store.Snapshot(ctx, c.Task.TS); err != nil {
		return fmt.Errorf("backfill: compare: %w", err)
	}
	defer func() { err = errs.Combine(err, c.snap.Close()) }()
	if c.result.OnlyChanges, err = c.compareChanges(ctx); err != nil || c.result.OnlyChanges {
		return err
	}
	if c.result.Unchanged, err = c.compareUnchanged(ctx); err != nil || c.result.Unchanged {
		return err
	}
	if err := c.plan(ctx); err != nil {
		return fmt.Errorf("backfill: compare: %w", err)
	}
	c.Progress.Begin(0, 0, keyrange.TotalWeight(c.rows))
	shared, equal, err := c.sumUpDistributed(ctx)
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
	return c.Execute(ctx, ingest.ShareOptions{ReadOnly: true}, func(ctx context.Context) error {
		if !shared {
			if c.StoreSums() {
				if equal, err := c.storeSumsAgree(ctx); err != nil || equal {
					return err
				}
				c.Progress.Begin(0, 0, keyrange.TotalWeight(c.rows))
			}
			c.countBeside()
			c.sums = newSums(len(c.Task.Indexes), keyrange.TotalWeight(c.rows), maxBuckets)
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

// narrow compares the buckets that differ key by key.
func (c *comparison) narrow(ctx context.Context) error {
	suspects, more := c.sums.suspects()
	if suspects == nil {
		return nil
	}
	suspects.spec = &c.Task
	if err := c.read(ctx, false, func() (entrySink, func()) { return suspects, func() {} }); err != nil {
		return fmt.Errorf("backfill: compare: %w", err)
	}
	differences, others := suspects.differences()
	c.result.Differences, c.result.More = differences, more || others
	if len(c.result.Differences) == 0 {
		return fmt.Errorf("backfill: compare: sums of table %s and its indexes differ, and no key does", c.Task.Table.Name.O)
	}
	return nil
}
