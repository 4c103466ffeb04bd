package ddl

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"fastddl/backfill/compare"
	"fastddl/ddl/job"
	"fastddl/ddl/session"
	"fastddl/kv"
)

// The second line behind the metadata lock. A writer that the lock does not see goes on by a schema
// without the job's indexes. What it commits up to S is scanned; what it commits later has no entries.
// So before an index is published that is not compared with all rows anyway, the rows that changed after S
// are compared with the entries that did.

const (
	// minChanges is how many changed keys are compared in any case, and one for each rowsPerChange of the
	// table: reading one takes the time of some six rows of the scan.
	minChanges, rowsPerChange = 1000, 256
	// spanShrink is by how much the compared time shrinks while too many keys have changed in it.
	spanShrink = 8
)

// missedWriters says that the indexes of a job are to be compared with all rows, because what changed
// after S is not the same in both, or cannot be compared. The changes are those up to now if these are
// few, otherwise those up to an earlier time, and at least those until the transactions that were open at S had
// ended. A store that does not know what has changed is not asked.
func (t *task) missedWriters(ctx context.Context, r *job.Record, rows int64) (missed bool, err error) {
	if _, ok := t.d.opts.Builds.(kv.ChangeFinder); !ok || r.Compare {
		return false, nil
	}
	upTo, err := t.d.opts.Builds.CurrentTS(ctx)
	if err != nil {
		return false, fmt.Errorf("take timestamp: %w", err)
	}
	task, err := t.d.buildTask(ctx, r, upTo)
	if err != nil {
		return false, err
	}
	limit, least := max(minChanges, rows/rowsPerChange), t.settledTS
	if least <= r.SnapshotTS {
		least = upTo // it is not known when they ended
	}
	for agree := false; ; {
		if agree, err = t.d.opts.Backfiller.ChangesAgree(session.Charged(ctx, r.ResourceGroup), ChangesTask{
			Task: task, Since: r.SnapshotTS, Limit: limit, TempDir: t.d.opts.TempDir, Settings: &t.live,
		}); err == nil {
			missed = !agree
			break
		}
		if !errors.Is(err, compare.ErrManyChanges) {
			break
		}
		if task.TS = r.SnapshotTS + (task.TS-r.SnapshotTS)/spanShrink; task.TS <= least {
			task.TS, limit = least, 0
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errors.Is(err, kv.ErrSnapshotTooOld):
		return false, errHoldLost
	case missed || err != nil: // what cannot be compared is not taken for equal
		t.d.opts.Logger.Error("rows and entries have not changed alike while an index was built: the index is compared with all rows",
			zap.Int64("job", t.id), zap.String("schema", r.DB), zap.String("table", r.Table), zap.Uint64("snapshot", r.SnapshotTS), zap.Error(err))
		return true, nil
	}
	return false, nil
}
