package ddl

import (
	"context"
	"errors"

	"fastddl/backfill"
	"fastddl/ddl/job"
)

// NewBackfiller returns the Backfiller that builds indexes with package
// backfill. The options' TempDir and SaveCheckpoint are those of each task.
func NewBackfiller(opts backfill.Options) Backfiller { return &backfiller{opts} }

type backfiller struct{ opts backfill.Options }

// Backfill implements Backfiller.
func (b *backfiller) Backfill(ctx context.Context, t BackfillTask) (int64, error) {
	opts := b.opts
	opts.TempDir, opts.SaveCheckpoint = t.TempDir, t.SaveCheckpoint
	spec := backfill.Spec{JobID: t.JobID, Table: t.Table, Indexes: t.Indexes, TS: t.TS, Checkpoint: t.Checkpoint}
	run := backfill.Run
	if !t.Fast {
		run = backfill.RunTransactional
	}
	result, err := run(ctx, opts, spec)
	var mismatch *backfill.MismatchError
	if errors.As(err, &mismatch) {
		// The index has been rebuilt once already.
		err = job.Permanent(err)
	}
	return result.Rows, err
}
