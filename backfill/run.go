package backfill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// build is one run of a backfill.
type build struct {
	*execution
	opts         Options
	meter        *meter
	checkpointed []byte // what it starts from
	saved        time.Time
	result       Result
	parts        *parts    // that it builds; nil if it builds the whole table
	counts       bool      // the rows are counted by their keys
	defers       bool      // the entries need not be summed up
	leftovers    bool      // unique indexes may have entries of an older snapshot
	count        *rowCount // nil before that is planned
	cuts         [][]byte  // in the indexes, see keepCuts
}

func newBuild(opts Options, spec Spec) (*build, error) {
	opts.EnsureDefaults()
	x, err := newExecution(opts.Common(), spec.Task)
	if err := errors.Join(opts.Validate(), err); err != nil {
		return nil, err
	}
	return &build{execution: x, opts: opts, meter: newMeter(), checkpointed: spec.Checkpoint}, nil
}

// Run builds the indexes of spec by ingest, starting from the checkpoint if
// there is one. On success their entries at spec.TS are durable and verified.
// On error, or when ctx ends, which it obeys within a second, what was imported
// stays: either Run is called again, or the caller deletes the index ranges. It
// fails with ErrUnsupported, *ingest.DuplicateError, *NullError,
// *MismatchError, *RowCountError, *EntryError, an error of TiDB's from evaluating an expression, or one of the
// store.
func Run(ctx context.Context, opts Options, spec Spec) (Result, error) {
	b, err := newBuild(opts, spec)
	if err != nil {
		return Result{}, err
	}
	_, onlyChanges := opts.Store.(kv.ChangeFinder) // may be compared, not all rows
	b.counts, b.leftovers = onlyChanges || !spec.Compared, spec.Compared && spec.Leftovers
	b.defers = !b.counts && b.storeSums() && !spec.Differed && !b.leftovers
	err = ended(ctx, b.run(ctx))
	costs := b.stageCosts()
	b.meter.fill(&b.result, &costs)
	b.result.Rows, b.result.Counted = b.progress.done(), err == nil && b.counts
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
	if !cp.Rebuilt {
		err := b.buildAndVerify(ctx, cp)
		if !isWrong(err) {
			return err
		}
		b.opts.Bus.Emit(event.Retry{Job: b.job(), Op: "build", Attempt: 1, Err: err})
		if cp, err = b.beginAgain(ctx); err != nil {
			return err
		}
	}
	b.result.Rebuilt = true
	if err := b.buildAndVerify(ctx, cp); err != nil {
		return fmt.Errorf("after rebuilding once: %w", err)
	}
	return nil
}

// isWrong says that what was built is not what it must be.
func isWrong(err error) bool {
	var mismatch *MismatchError
	var lost *RowCountError
	var entry *EntryError
	return errors.As(err, &mismatch) || errors.As(err, &lost) || errors.As(err, &entry)
}

// beginAgain records that everything is built a second time. Importing the same
// entries at the same version again repairs whatever is missing or damaged;
// entries too many are beyond repair.
func (b *build) beginAgain(ctx context.Context) (*checkpoint, error) {
	cp, err := b.firstCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	cp.Rebuilt = true
	kept := *cp // as few tasks as can be: a table may have millions
	kept.Remaining = nil
	kept.setTasks(mergeTasks(cp.tasks()))
	return cp, b.save(ctx, &kept)
}

// buildAndVerify builds and reads back what cp says is left.
func (b *build) buildAndVerify(ctx context.Context, cp *checkpoint) error {
	shared, err := b.buildShared(ctx, cp)
	if err != nil {
		return err
	}
	share := b.shareOptions()
	share.ReadOnly = shared
	err = b.execute(ctx, share, func(ctx context.Context) (err error) {
		defer func() { err = errs.Also(err, b.endCount()) }()
		if err := b.ingest(ctx, cp); err != nil {
			return err
		}
		b.result.Entries = 0
		for _, t := range cp.wanted() {
			b.result.Entries += t.Entries
		}
		return b.verify(ctx, cp)
	})
	if shared {
		err = b.lookForDuplicates(ctx, err)
	}
	return err
}

// shareOptions describe the share of the resources that building needs.
func (b *build) shareOptions() ingest.ShareOptions {
	return ingest.ShareOptions{Indexes: len(groupFrom(b.task.Table, b.task.Indexes, b.physicals, 0).targets)}
}

// firstCheckpoint plans the whole table.
func (b *build) firstCheckpoint(ctx context.Context) (*checkpoint, error) {
	tasks, err := b.planRows(ctx)
	if err != nil {
		return nil, err
	}
	return b.newCheckpoint(tasks), nil
}

// newCheckpoint is the checkpoint of a build of which nothing is done.
func (b *build) newCheckpoint(tasks []task) *checkpoint {
	cp := &checkpoint{Format: checkpointFormat, TS: b.task.TS, Weight: totalWeight(tasks)}
	for _, idx := range b.task.Indexes {
		cp.Indexes = append(cp.Indexes, checkpointIndex{ID: idx.ID})
	}
	cp.setTasks(tasks)
	return cp
}

// resume returns the checkpoint in data, or nil if there is none or it belongs to another build. One that cannot be
// read is dropped, which costs work and nothing else: what has been imported is imported again at the same version.
func (b *build) resume(data []byte) *checkpoint {
	c, err := decodeCheckpoint(data, &b.task)
	if err != nil {
		b.opts.Bus.Emit(event.CheckpointDropped{Job: b.job(), Err: err})
	}
	return c
}
