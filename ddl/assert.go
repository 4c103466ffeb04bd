package ddl

import (
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/ddl/job"
	"fastddl/internal/invariants"
)

// The assertions of this package. They are about what the steps of a job rest on, and
// say it a second time, in other words than the code that takes the steps.

// nextSteps are the steps that may follow each. From snapshot, backfilled and drained to write-reorg another
// S is taken; from drained to snapshot the build is verified.
var nextSteps = map[job.Step][]job.Step{
	job.StepQueued:         {job.StepDeleteOnly, job.StepFinished},
	job.StepDeleteOnly:     {job.StepWriteOnly, job.StepUndone},
	job.StepWriteOnly:      {job.StepWriteReorg, job.StepUndoDeleteOnly},
	job.StepWriteReorg:     {job.StepSnapshot, job.StepUndoDeleteOnly},
	job.StepSnapshot:       {job.StepBackfilled, job.StepWriteReorg, job.StepUndoDeleteOnly},
	job.StepBackfilled:     {job.StepDrained, job.StepReady, job.StepPublic, job.StepWriteReorg, job.StepUndoDeleteOnly},
	job.StepDrained:        {job.StepCompared, job.StepSnapshot, job.StepWriteReorg, job.StepUndoDeleteOnly},
	job.StepCompared:       {job.StepReady, job.StepPublic, job.StepUndoDeleteOnly},
	job.StepReady:          {job.StepCompared, job.StepPublic, job.StepUndoDeleteOnly},
	job.StepPublic:         {job.StepDropDeleteOnly, job.StepFinished},
	job.StepDropDeleteOnly: {job.StepDropReorg},
	job.StepDropReorg:      {job.StepDropped},
	job.StepDropped:        {job.StepFinished},
	job.StepUndoDeleteOnly: {job.StepUndone},
	job.StepUndone:         {job.StepFinished},
}

// assertWritten asserts what holds of every record that is written after another one
// of the same job (I1, I6, I8).
func assertWritten(before, after *job.Record, owner string) {
	if !invariants.Enabled {
		return
	}
	invariants.Check(after.Revision == before.Revision+1, "job %d: revision %d is written over %d", after.ID, after.Revision, before.Revision)
	invariants.Check(after.OwnedLike(before) && after.Owner == owner, "job %d of %q, epoch %d, is written by %q as that of %q, epoch %d",
		after.ID, before.Owner, before.Epoch, owner, after.Owner, after.Epoch)
	if before.Step == after.Step {
		return
	}
	invariants.Check(slices.Contains(nextSteps[before.Step], after.Step), "job %d goes from %q to %q", after.ID, before.Step, after.Step)
	switch after.Step {
	case job.StepUndoDeleteOnly, job.StepUndone:
		invariants.Check(before.RollingBack(), "job %d is undone, to %q, in state %s", after.ID, after.Step, before.State)
	case job.StepFinished:
	default:
		invariants.Check(!before.RollingBack(), "job %d goes on to %q although it is being undone", after.ID, after.Step)
	}
	if after.Step == job.StepPublic {
		invariants.Check(!after.Compare || before.Step == job.StepCompared && before.Compared > 0,
			"job %d is published from %q after %d comparisons", after.ID, before.Step, before.Compared)
	}
}

// stateRank orders the states of an index by what DML does: write-only and write-reorg
// are the same to it.
func stateRank(s model.SchemaState) int {
	switch s {
	case model.StateDeleteOnly, model.StateDeleteReorganization:
		return 1
	case model.StateWriteOnly, model.StateWriteReorganization:
		return 2
	case model.StatePublic:
		return 3
	}
	return 0
}

// statesOf returns the states of the table's indexes by ID, nil without assertions.
func statesOf(table *model.TableInfo) map[int64]model.SchemaState {
	if !invariants.Enabled {
		return nil
	}
	states := make(map[int64]model.SchemaState)
	for _, idx := range table.Indices {
		states[idx.ID] = idx.State
	}
	return states
}

// assertStates asserts that a version moves each of the job's indexes by at most one
// state, and takes none back that is public (I1, I5). Of other indexes, which the
// statement drops, it asserts that no server still reads what others write no more: with a
// column its index goes from write-only.
func assertStates(r *job.Record, before, after map[int64]model.SchemaState) {
	if !invariants.Enabled {
		return
	}
	for _, id := range r.IndexIDs {
		from, to := stateRank(before[id]), stateRank(after[id])
		invariants.Check(from-to <= 1 && to-from <= 1, "job %d, step %q: index %d goes from %s to %s", r.ID, r.Step, id, before[id], after[id])
		invariants.Check(from < 3 || to == 3, "job %d, step %q: index %d is public, and becomes %s", r.ID, r.Step, id, after[id])
	}
	for id, state := range before {
		to := stateRank(after[id])
		invariants.Check(stateRank(state) < 3 || to >= 2, "job %d, step %q: index %d goes from %s to %s", r.ID, r.Step, id, state, after[id])
		invariants.Check(slices.Contains(r.IndexIDs, id) || to <= stateRank(state), "job %d, step %q: index %d, which it does not build, goes from %s to %s",
			r.ID, r.Step, id, state, after[id])
	}
}

// assertHeld asserts what holds when entries are imported at the record's S: it is held,
// and the job is not being undone (I4, I7).
func (t *task) assertHeld(r *job.Record) {
	if !invariants.Enabled {
		return
	}
	invariants.Check(r.Step == job.StepSnapshot && !r.RollingBack(), "job %d imports at step %q, state %s", r.ID, r.Step, r.State)
	k := t.keeper.Load()
	invariants.Check(k != nil && r.SnapshotTS != 0 && k.hold.TS() <= r.SnapshotTS, "job %d imports at %d, which it does not hold", r.ID, r.SnapshotTS)
}

// assertNoImport asserts that no import is under way, here or on another node, when the
// states of a job are undone (I7).
func (t *task) assertNoImport(r *job.Record) {
	if !invariants.Enabled {
		return
	}
	invariants.Check(t.imports.Load() == 0, "job %d is undone during its import", r.ID)
	invariants.Check(!t.scheduler.MayBeBuilt(), "job %d is undone while other nodes may build parts of it", r.ID)
}

// assertComparable asserts what holds when rows and indexes are compared at ts: the
// import is over, and transactions from before its end have ended (I6).
func assertComparable(r *job.Record, ts uint64) {
	if !invariants.Enabled {
		return
	}
	invariants.Check(r.Step == job.StepDrained || r.Step == job.StepReady, "job %d compares at step %q", r.ID, r.Step)
	invariants.Check(ts > r.SnapshotTS, "job %d compares at %d, S is %d", r.ID, ts, r.SnapshotTS)
}
