package backfill

import (
	"context"
	"errors"
	"fmt"

	"fastddl/backfill/compare"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/lightning"
)

// Run builds the indexes of spec by ingest, starting from the checkpoint if
// there is one. On success their entries at spec.TS are durable and verified.
// On error, or when ctx ends, which it obeys within a second, what was imported
// stays: either Run is called again, or the caller deletes the index ranges. It
// fails with encode.ErrUnsupported, *ingest.DuplicateError, *encode.NullError,
// *MismatchError, *lightning.PairCountError, *execution.RowCountError, *execution.ScannedRangesError, *kv.ScanCountError,
// *kv.DamagedUnitError, *kv.ImportAccountError, *compare.EntryError, an error of TiDB's from evaluating an expression,
// or one of the store.
func Run(ctx context.Context, opts Options, spec Spec) (Result, error) {
	b, err := newBuild(opts, spec)
	if err != nil {
		return Result{}, err
	}
	_, onlyChanges := opts.Store.(kv.ChangeFinder) // may be compared, not all rows
	b.counts, b.leftovers = onlyChanges || !spec.Compared, spec.Compared && spec.Leftovers
	b.defers = !b.counts && b.StoreSums() && !spec.Differed && !b.leftovers
	b.since = spec.Since
	b.auto = spec.Verify == config.VerifyAuto && b.countsScans && !spec.Differed && !spec.Leftovers
	err = execution.Ended(ctx, b.run(ctx))
	costs := b.StageCosts()
	b.meter.fill(&b.result, &costs)
	b.result.Rows, b.result.Counted = b.Progress.Done(), err == nil && b.counts
	b.opts.Bus.Emit(Finished{Job: b.Job(), Result: b.result, Err: err})
	return b.result, err
}

func (b *build) run(ctx context.Context) error {
	cp := b.resume(b.checkpointed)
	if cp == nil {
		var err error
		if cp, err = b.firstCheckpoint(ctx); err != nil {
			return err
		}
	}
	if !cp.Rebuilt { // otherwise everything is read back
		if err := b.findOlder(ctx); err != nil {
			return err
		}
		err := b.buildAndVerify(ctx, cp)
		if !IsWrong(err) {
			return err
		}
		b.opts.Bus.Emit(event.Retry{Job: b.Job(), Op: "build", Attempt: 1, Err: err})
		again, saveErr := b.beginAgain(ctx)
		if saveErr != nil {
			return errors.Join(err, saveErr) // that it is wrong is not recorded, so it ends here
		}
		cp = again
	}
	b.result.Rebuilt = true
	if err := b.buildAndVerify(ctx, cp); err != nil {
		return fmt.Errorf("after rebuilding once: %w", err)
	}
	return nil
}

// IsWrong says that what was built is not what it must be.
func IsWrong(err error) bool {
	if damaged := (*kv.DamagedUnitError)(nil); errors.As(err, &damaged) {
		return !damaged.Imported // entries too many would stay
	}
	for _, wrong := range []any{
		new(*MismatchError), new(*compare.EntryError), new(*lightning.PairCountError),
		new(*execution.RowCountError), new(*execution.ScannedRangesError),
		new(*kv.ScanCountError), new(*kv.ImportAccountError),
	} {
		if errors.As(err, wrong) {
			return true
		}
	}
	return false
}

// beginAgain records that everything is built a second time. Importing the same
// entries at the same version again repairs what is missing or damaged;
// entries too many are beyond repair.
func (b *build) beginAgain(ctx context.Context) (*checkpoint, error) {
	cp, err := b.firstCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	cp.Rebuilt = true
	kept := *cp // as few tasks as can be: a table may have millions
	kept.Remaining = nil
	kept.setTasks(keyrange.Merge(cp.tasks()))
	return cp, b.save(ctx, &kept)
}

// buildAndVerify builds and reads back what cp says is left.
func (b *build) buildAndVerify(ctx context.Context, cp *checkpoint) error {
	shared, err := b.buildDistributed(ctx, cp)
	if err != nil {
		return err
	}
	share := b.shareOptions()
	share.ReadOnly = shared
	err = b.Execute(ctx, share, func(ctx context.Context) (err error) {
		defer func() { err = errs.Combine(err, b.endCount()) }()
		if err := b.ingestAnywhere(ctx, cp); err != nil {
			return err
		}
		b.result.Entries = 0
		for _, t := range cp.wanted() {
			b.result.Entries += t.Entries
		}
		if err := b.checkEntries(cp); err != nil {
			return err
		}
		return b.verify(ctx, cp)
	})
	if shared {
		err = b.lookForDuplicates(ctx, err)
	}
	return err
}

// checkEntries fails unless each index whose rows have one entry each has as many entries as there are rows.
func (b *build) checkEntries(cp *checkpoint) error {
	for i, idx := range b.Task.Indexes {
		if n := cp.Indexes[i].Totals.Entries; n != cp.Rows && !idx.MVIndex {
			return &MismatchError{Index: idx.Name.O, Want: ingest.Totals{Entries: cp.Rows}, Got: ingest.Totals{Entries: n}, Where: "encoded"}
		}
	}
	return nil
}

// firstCheckpoint plans the whole table.
func (b *build) firstCheckpoint(ctx context.Context) (*checkpoint, error) {
	tasks, err := b.PlanRows(ctx)
	if err != nil {
		return nil, err
	}
	return b.newCheckpoint(tasks), nil
}
