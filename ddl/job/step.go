package job

import "github.com/pingcap/tidb/pkg/meta/model"

// Step is how far a job has come. Steps are durable.
type Step string

// The steps, in the order a job takes them. See the package documentation.
const (
	// StepQueued: nothing of the job is in the schema.
	StepQueued Step = ""
	// StepDeleteOnly, StepWriteOnly: the indexes are in this schema state.
	StepDeleteOnly Step = "delete-only"
	StepWriteOnly  Step = "write-only"
	// StepWriteReorg: the indexes are in this schema state, and S is not taken yet, or is to
	// be taken again.
	StepWriteReorg Step = "write-reorg"
	// StepSnapshot: S is taken, and garbage collection is held at it.
	StepSnapshot Step = "snapshot"
	// StepBackfilled: the entries at S are imported and verified, and no import is
	// under way any more.
	StepBackfilled Step = "backfilled"
	// StepDrained: a version without a change is published after the last import.
	StepDrained Step = "drained"
	// StepCompared: a comparison of unique indexes with the rows was clean.
	StepCompared Step = "compared"
	// StepReady: as before, and the indexes wait until they may become public. Garbage
	// collection is not held for them.
	StepReady Step = "ready"
	// StepPublic: the indexes are public, and what else the statement does is done but
	// for what it drops, which is write-only.
	StepPublic Step = "public"
	// StepDropDeleteOnly, StepDropReorg: what the statement drops is in this schema
	// state. StepDropped: it is gone, and its entries are given to garbage collection.
	StepDropDeleteOnly Step = "drop-delete-only"
	StepDropReorg      Step = "drop-delete-reorg"
	StepDropped        Step = "dropped"
	// StepUndoDeleteOnly: the indexes are delete-only again.
	StepUndoDeleteOnly Step = "undo-delete-only"
	// StepUndone: nothing of the job is in the schema any more, and its entries are
	// given to garbage collection.
	StepUndone Step = "undone"
	// StepFinished: the job is history.
	StepFinished Step = "finished"

	// stepQuiet was the step after StepSnapshot in versions that could take S in write-only.
	stepQuiet Step = "quiet"
)

// stepOrder are the steps in the order in which a job takes them, those of undoing last.
var stepOrder = []Step{
	StepQueued, StepDeleteOnly, StepWriteOnly, StepWriteReorg, StepSnapshot, StepBackfilled, StepDrained, StepCompared, StepReady, StepPublic,
	StepDropDeleteOnly, StepDropReorg, StepDropped, StepUndoDeleteOnly, StepUndone, StepFinished,
}

// forward returns the step after the record's.
func (r *Record) forward() Step {
	switch r.Step {
	case StepQueued:
		return StepDeleteOnly
	case StepDeleteOnly:
		return StepWriteOnly
	case StepWriteOnly:
		return StepWriteReorg
	case StepWriteReorg:
		return StepSnapshot
	case StepSnapshot:
		return StepBackfilled
	case StepBackfilled:
		if r.Compare {
			return StepDrained
		}
		return StepPublic
	case StepDrained:
		return StepCompared
	case StepCompared:
		return StepPublic
	case StepReady:
		if r.Compare { // again: it may have been long ago
			return StepCompared
		}
		return StepPublic
	case StepPublic:
		if r.drops() {
			return StepDropDeleteOnly
		}
	case StepDropDeleteOnly:
		return StepDropReorg
	case StepDropReorg:
		return StepDropped
	}
	return StepFinished
}

// backward returns the step towards nothing of the job being left.
func (r *Record) backward() Step {
	switch r.Step {
	case StepQueued, StepUndone:
		return StepFinished
	case StepDeleteOnly, StepUndoDeleteOnly:
		return StepUndone
	}
	return StepUndoDeleteOnly
}

// Revertible says that a job at this step can still be undone.
func (s Step) Revertible() bool {
	switch s {
	case StepPublic, StepUndoDeleteOnly, StepUndone, StepFinished:
		return false
	case StepDropDeleteOnly, StepDropReorg, StepDropped:
		return false
	}
	return true
}

// waits says that going on from the record's step needs the certainty that no server
// uses a version before the one reached at it.
func (r *Record) waits() bool {
	if r.SchemaVersion == 0 {
		return false
	}
	switch r.Step {
	case StepSnapshot, StepBackfilled, StepCompared, StepReady:
		return false // it has been waited for before this step
	}
	if r.RollingBack() {
		return r.Step == StepUndoDeleteOnly || r.Step == StepUndone
	}
	return true
}

// SchemaState is the schema state that the step shows.
func (r *Record) SchemaState() model.SchemaState {
	switch r.Step {
	case StepDeleteOnly, StepUndoDeleteOnly:
		return model.StateDeleteOnly
	case StepWriteOnly:
		return model.StateWriteOnly
	case StepWriteReorg, StepSnapshot, StepBackfilled, StepDrained, StepCompared, StepReady:
		return model.StateWriteReorganization
	case StepPublic, StepDropDeleteOnly, StepDropReorg, StepDropped:
		return model.StatePublic
	case StepFinished:
		if r.State == model.JobStateSynced {
			return model.StatePublic
		}
	}
	return model.StateNone
}
