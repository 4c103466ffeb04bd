package ddl

import (
	"context"
	"errors"
	"fmt"

	"fastddl/backfill/compare"
	"fastddl/ddl/job"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/kv"
)

const (
	// maxComparisons bounds the comparisons of one attempt that bring it no nearer to its
	// end. One that finds more differences than it lists is followed by others until all are
	// listed; the next is clean unless a repair has failed, because no new defect arises after
	// the drain but on keys that have one.
	maxComparisons = 100
)

// compare compares the job's indexes with the rows, and repairs them, until a
// comparison is clean.
func (t *task) compare(ctx context.Context, r *job.Record, to job.Step) (outcome, error) {
	var repaired, rounds int64
	differs := false
	t.emit(event.StageChanged{Job: event.Job{ID: t.id}, Stage: job.StageCompare})
	err := t.watched(ctx, func(ctx context.Context) error {
		if err := t.settleLocks(ctx, r); err != nil {
			return err
		}
		for idle := 0; idle < maxComparisons; {
			rounds++
			result, n, err := t.compareOnce(ctx, r)
			repaired += n
			if err != nil || result.Clean() {
				return err
			}
			if differs = r.Deferred; differs {
				return nil
			}
			if !result.More || n == 0 {
				idle++
			}
		}
		err := fmt.Errorf("the index was not equal to the rows after %d comparisons", maxComparisons)
		if task, taskErr := t.d.buildTask(ctx, r, r.SnapshotTS); taskErr == nil && hasVirtual(task) {
			err = fmt.Errorf("%w%s", err, otherSettings)
		}
		return job.Permanent(err)
	})
	if err != nil {
		return outcome{}, err
	}
	if differs {
		return t.verifyBuild(ctx, r)
	}
	return t.write(ctx, to, func(_ *session.Txn, after *job.Record) error {
		after.Compared += rounds
		after.Repaired += repaired
		after.Cuts = 0
		return nil
	})
}

// verifyBuild sends a job back to its S, whose entries were not summed up, because a comparison
// has found a difference. DML makes some that are right to repair; what a build has done
// wrong is built again, not repaired key by key.
func (t *task) verifyBuild(ctx context.Context, r *job.Record) (outcome, error) {
	if err := t.scheduler.Recall(ctx); err != nil {
		return outcome{}, err
	}
	err := t.holdAt(ctx, r.SnapshotTS)
	if errors.Is(err, errHoldLost) {
		return t.forgetSnapshot(ctx)
	}
	if err != nil {
		return outcome{}, err
	}
	return t.write(ctx, job.StepSnapshot, func(_ *session.Txn, after *job.Record) error {
		after.VerifyBuild()
		after.Compared++
		after.Cuts = 0
		return nil
	})
}

// settleLocks makes records of what is left of locks of keys that transactions have locked before the
// import and not written. Such a record can hide what was imported: a comparison sees that, but not what
// is hidden later. Their transactions have ended with the drain, though a client that dies right after
// the commit leaves its locks. Once is enough: who locks a key now finds what was imported. TiDB's DML
// locks no keys of other indexes than unique ones.
func (t *task) settleLocks(ctx context.Context, r *job.Record) error {
	store, ok := t.d.opts.Builds.(kv.LockSettler)
	if !ok {
		return nil
	}
	ts, err := t.d.opts.Builds.CurrentTS(ctx)
	if err != nil {
		return fmt.Errorf("take timestamp: %w", err)
	}
	task, err := t.d.buildTask(ctx, r, ts)
	if err != nil {
		return err
	}
	var unique []int64
	for _, idx := range task.Indexes {
		if idx.Unique {
			unique = append(unique, idx.ID)
		}
	}
	if len(unique) == 0 {
		return nil
	}
	t.view.SetWait("transactions that are being committed")
	defer t.view.SetWait("")
	return store.SettleLocks(ctx, ts, indexRanges(r.TableID, task.Table, unique)...)
}

// compareOnce compares once, at a new timestamp, and repairs what it finds.
func (t *task) compareOnce(ctx context.Context, r *job.Record) (result compare.Result, repaired int64, err error) {
	ts, err := t.d.opts.Builds.CurrentTS(ctx)
	if err != nil {
		return result, 0, fmt.Errorf("take timestamp: %w", err)
	}
	assertComparable(r, ts)
	// No import can come any more, so the hold moves from S to here. On a cluster that
	// is a promise of others too, so it stays where it is as long as it can.
	if !t.keepsS(r) || t.keeper.Load() == nil {
		if err := t.holdAt(ctx, ts); err != nil {
			return result, 0, err
		}
	}
	task, err := t.d.buildTask(ctx, r, ts)
	if err != nil {
		return result, 0, err
	}
	result, err = t.d.opts.Backfiller.Compare(session.Charged(ctx, r.ResourceGroup), CompareTask{
		Task: task, Verified: verified(r), Built: built(r), TempDir: t.d.opts.TempDir, Settings: &t.live, Scheduler: t.scheduler.ForWork(r),
	})
	if err != nil || r.Deferred && !result.Clean() {
		return result, 0, err
	}
	if result.Clean() {
		return result, 0, t.checkHeld(ctx, r)
	}
	repaired, err = t.repairAll(ctx, r, task, result.Differences)
	return result, repaired, err
}

// checkHeld fails with errHoldLost if garbage collection has passed an S that a comparison needs. That shows here
// before the keeper of the hold knows of it, if this process has stood still.
func (t *task) checkHeld(ctx context.Context, r *job.Record) error {
	if !t.needsHold(r) {
		return nil
	}
	safe, err := t.d.opts.Builds.GCSafePoint(ctx)
	if err != nil {
		return fmt.Errorf("look at the safe point: %w", err)
	}
	if safe > r.SnapshotTS {
		return errHoldLost
	}
	return nil
}

// verified is when the job's indexes were equal to the rows, as far as the build has seen, and
// it has counted the rows. Where entries of an older S may be left it has let more entries than
// rows pass.
func verified(r *job.Record) compare.Verified {
	if r.Leftovers || !r.Counted {
		return compare.Verified{}
	}
	return compare.Verified{TS: r.SnapshotTS, Rows: r.RowCount}
}

// built is what the job's indexes were built from, if they are not verified yet.
func built(r *job.Record) compare.Built {
	if !r.Deferred || len(r.Given) != len(r.IndexIDs) {
		return compare.Built{}
	}
	return compare.Built{TS: r.SnapshotTS, Rows: r.RowCount, Given: r.Given}
}
