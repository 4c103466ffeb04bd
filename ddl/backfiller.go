package ddl

import (
	"context"
	"errors"
	"sync"

	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/backfill"
	"fastddl/ddl/job"
	"fastddl/ingest"
	"fastddl/ingest/governor"
)

// IndexBackfiller is the Backfiller over package backfill. All jobs share one
// budget of memory, disk and write speed.
type IndexBackfiller struct {
	opts backfill.Options

	mu   sync.Mutex
	last backfill.Result
}

// NewBackfiller returns a backfiller of the tables in opts.Store. The options'
// TempDir, SaveCheckpoint and Settings are those of each task.
func NewBackfiller(opts backfill.Options) *IndexBackfiller {
	opts.EnsureDefaults()
	return &IndexBackfiller{opts: opts}
}

// Held implements Backfiller.
func (b *IndexBackfiller) Held(jobID int64) ingest.Held { return b.opts.Resources.Held(jobID) }

// Usage is what the running builds occupy.
func (b *IndexBackfiller) Usage() ingest.Usage { return b.opts.Resources.Usage() }

// Governor is how much of the machine builds may use now.
func (b *IndexBackfiller) Governor() governor.Decision { return b.opts.Resources.Governor() }

// LastResult is what the build that ended last says of itself, for benchmarks.
func (b *IndexBackfiller) LastResult() backfill.Result {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Backfill implements Backfiller.
func (b *IndexBackfiller) Backfill(ctx context.Context, t BackfillTask) (int64, error) {
	opts := b.opts
	opts.TempDir, opts.SaveCheckpoint, opts.Settings = t.TempDir, t.SaveCheckpoint, t.Settings
	spec := backfill.Spec{
		JobID: t.JobID, Table: t.Table, Indexes: t.Indexes, Expressions: t.Expressions, TS: t.TS, Checkpoint: t.Checkpoint,
	}
	run := backfill.Run
	if !t.Fast {
		run = backfill.RunTransactional
	}
	result, err := run(ctx, opts, spec)
	b.mu.Lock()
	b.last = result
	b.mu.Unlock()
	return result.Rows, backfillError(t, err)
}

// backfillError tells what no further attempt can cure.
func backfillError(t BackfillTask, err error) error {
	var mismatch *backfill.MismatchError
	var dup *ingest.DuplicateError
	var null *backfill.NullError
	switch {
	case errors.As(err, &mismatch):
		// The index has been rebuilt once already.
		return job.Permanent(err)
	case errors.As(err, &dup):
		return duplicateEntries(t.Table, t.Loc, dup.Groups)
	case errors.As(err, &null):
		return dbterror.ErrInvalidUseOfNull.FastGenByArgs()
	}
	return err
}
