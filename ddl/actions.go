package ddl

import (
	"context"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/catalog"
	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/ddl/mdl"
	"fastddl/event"
	"fastddl/kv"
	"fastddl/table"
)

// waitLock waits until nobody can write the job's tables under a version before
// the current one.
func (t *task) waitLock(ctx context.Context) error {
	j := t.snapshot()
	start := time.Now()
	defer t.view.setWait("")
	for _, id := range t.lockedTables(j) {
		version := j.SchemaVersion
		if tbl, ok := t.d.cat.Current().TableByID(id); ok {
			version = tbl.SchemaVersion
		}
		err := t.d.opts.Locks.Wait(ctx, t.id, id, version, func(b []mdl.Blocker) { t.onLockWait(j, start, b) })
		if err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.machine.Waited()
	return nil
}

func (t *task) onLockWait(j *job.Job, start time.Time, blockers []mdl.Blocker) {
	names := make([]string, 0, len(blockers))
	for _, b := range blockers {
		names = append(names, fmt.Sprintf("connection %d", b.ConnID))
	}
	t.view.setWait(lockWaitReason(blockers))
	if j.RollingBack() {
		t.lockWaitOnce.Do(func() { close(t.lockWait) })
	}
	t.emit(event.LockWait{Job: event.Job{ID: t.id}, Waited: time.Since(start), Blockers: names})
}

// lockedTables are the tables whose writers the job waits for.
func (t *task) lockedTables(j *job.Job) []int64 {
	switch {
	case j.DropDatabase != nil && j.Step == job.StepStart:
		var ids []int64
		for _, tbl := range t.d.cat.Current().Tables(j.DB) {
			ids = append(ids, tbl.Info.ID)
		}
		return ids
	case j.CreateTable != nil, j.CreateDatabase != nil, j.AlterDatabase != nil:
		return nil
	case j.RenameTables != nil:
		var ids []int64
		for _, r := range j.RenameTables {
			ids = append(ids, r.ID)
		}
		return ids
	case len(droppedTables(j)) > 0:
		return droppedTables(j)
	}
	return []int64{j.TableID}
}

// droppedTables are the tables that the job takes out of the schema.
func droppedTables(j *job.Job) []int64 {
	var ids []int64
	switch {
	case j.DropDatabase != nil:
		ids = j.DropDatabase.TableIDs
	case j.TruncateTable != nil:
		ids = []int64{j.TruncateTable.ID}
	}
	for _, r := range j.DropTables {
		ids = append(ids, r.ID)
	}
	return ids
}

// changeSchema writes the schema of the next step with the job's record and
// publishes it.
func (t *task) changeSchema(ctx context.Context, to job.Step) error {
	if err := t.rebaseAutoID(ctx, to); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// A request that came since the machine decided goes first.
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	from := t.machine.Job().Step
	// Not interrupted: a request waits for the lock above.
	return t.write(context.WithoutCancel(ctx), to, func(ctx context.Context, m *catalog.Mutation, after *job.Job) error {
		if after.StartTS == 0 {
			after.StartTS = m.StartTS
		}
		diff, err := applySchema(ctx, m, from, after)
		if err != nil || diff == nil {
			return err
		}
		current, err := m.GetSchemaVersion()
		if err != nil {
			return err
		}
		// Update takes the next version in this same transaction.
		after.SchemaVersion = current + 1
		m.SetDiff(diff)
		return nil
	})
}

// rebaseAutoID moves a table's AUTO_INCREMENT counter before the switch shows
// the new value. Doing it again, or for nothing, only leaves a gap.
func (t *task) rebaseAutoID(ctx context.Context, to job.Step) error {
	if to != job.StepSwitched {
		return nil
	}
	j := t.snapshot()
	for _, c := range j.Changes {
		if c.Type != model.ActionRebaseAutoID || c.AutoIncID <= 1 {
			continue
		}
		tbl, ok := t.d.cat.Current().TableByID(j.TableID)
		if !ok {
			return nil
		}
		if err := t.d.cat.AutoID(tbl).Rebase(ctx, uint64(c.AutoIncID-1)); err != nil {
			return err
		}
	}
	return nil
}

// takeSnapshot takes S. Garbage collection is held at it before it is recorded,
// so a recorded S is always held; a hold without a record is replaced.
func (t *task) takeSnapshot(ctx context.Context, to job.Step) error {
	ts, err := t.d.cat.Store().CurrentTS(ctx)
	if err != nil {
		return fmt.Errorf("take snapshot: %w", err)
	}
	if err := t.takeHold(ctx, ts); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.write(ctx, to, func(_ context.Context, _ *catalog.Mutation, after *job.Job) error {
		after.SnapshotTS = ts
		after.FastReorg = t.d.opts.Globals.Bool(config.EnableFastReorg)
		return nil
	})
}

// backfill builds the job's new indexes at S.
func (t *task) backfill(ctx context.Context, to job.Step) error {
	j := t.snapshot()
	return t.holding(ctx, j.SnapshotTS, func(ctx context.Context) error {
		rows, err := t.runBackfill(ctx, j)
		if err != nil {
			return err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.write(ctx, to, func(_ context.Context, _ *catalog.Mutation, after *job.Job) error {
			after.RowCount = rows
			return nil
		})
	})
}

func (t *task) runBackfill(ctx context.Context, j *job.Job) (rows int64, err error) {
	tbl, ok := t.d.cat.Current().TableByID(j.TableID)
	if !ok {
		return 0, job.Permanent(fmt.Errorf("table %d of job %d is gone", j.TableID, j.ID))
	}
	task := BackfillTask{
		JobID: j.ID, Table: tbl.Info, Expressions: tbl.Expressions, TS: j.SnapshotTS,
		Loc: locationOf(j.TimeZone), Fast: j.FastReorg, TempDir: t.d.opts.TempDir, Settings: &t.settings,
		SaveCheckpoint: func(ctx context.Context, data []byte) error { return t.d.saveCheckpoint(ctx, j.ID, data) },
	}
	for _, id := range j.Elements.AddIndexes {
		for _, idx := range tbl.Info.Indices {
			if idx.ID == id {
				task.Indexes = append(task.Indexes, idx)
			}
		}
	}
	if len(task.Indexes) == 0 {
		return 0, nil
	}
	if task.Checkpoint, err = loadCheckpoint(ctx, t.d.cat, j.ID); err != nil {
		return 0, err
	}
	return t.d.opts.Backfiller.Backfill(ctx, task)
}

// retakeSnapshot goes back to before S: the job's hold has expired while nobody
// ran the job, and garbage collection has passed S. What was imported at the old
// S is right at a new one too, or shadowed by what was written since. Unique
// indexes that were complete stay so, and are checked by every transaction;
// markers left before that are older than the new S and need no look.
func (t *task) retakeSnapshot(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.write(ctx, job.StepWriteReorg, func(_ context.Context, m *catalog.Mutation, after *job.Job) error {
		after.SnapshotTS = 0
		return m.Structure().HDel(checkpointsHash, idField(t.id))
	})
}

// finish cleans up after the job and moves its record to the history.
func (t *task) finish(ctx context.Context, to job.Step) error {
	ctx = context.WithoutCancel(ctx)
	j := t.snapshot()
	store := t.d.cat.Store()
	if j.RollingBack() {
		// Nobody can read or write them, so there is nothing to wait for.
		for _, id := range j.Elements.AddIndexes {
			if err := store.DeleteRange(ctx, table.IndexRange(j.TableID, id)); err != nil {
				return fmt.Errorf("delete entries of index %d: %w", id, err)
			}
		}
	}
	if j.AddsUnique() {
		// Markers are read by the job alone, and nobody leaves them any more.
		for _, id := range j.Elements.AddIndexes {
			if err := store.DeleteRange(ctx, table.MarkerRange(j.TableID, id)); err != nil {
				return fmt.Errorf("delete markers of index %d: %w", id, err)
			}
		}
	}
	if len(j.Elements.AddIndexes) > 0 {
		if err := t.releaseAll(ctx); err != nil {
			return err
		}
	}
	ts, err := store.CurrentTS(ctx)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.write(ctx, to, func(_ context.Context, m *catalog.Mutation, after *job.Job) error {
		after.EndTS = ts
		return putDeleteRanges(m, t.id, ts, droppedRanges(after))
	})
}

// releaseAll removes the job's files and its holds, also those of earlier terms.
func (t *task) releaseAll(ctx context.Context) error {
	if err := t.d.removeFiles(t.id); err != nil {
		return err
	}
	if err := t.dropHold(ctx); err != nil {
		return err
	}
	return t.d.releaseHolds(ctx, func(jobID, _ int64) bool { return jobID != t.id })
}

// droppedRanges is the data that a job which has ended leaves to be deleted.
func droppedRanges(j *job.Job) []job.Range {
	var out []job.Range
	add := func(r kv.KeyRange) { out = append(out, job.Range{Start: r.Start, End: r.End}) }
	if j.State == model.JobStateRollbackDone {
		// What was imported is gone. But an owner whose term has ended may not know
		// yet, and be importing at this moment what nobody will ever read.
		for _, id := range j.Elements.AddIndexes {
			add(table.IndexRange(j.TableID, id))
		}
		return out
	}
	for _, id := range j.Elements.DropIndexes {
		add(table.IndexRange(j.TableID, id))
	}
	for _, id := range droppedTables(j) {
		add(table.Range(id))
	}
	return out
}
