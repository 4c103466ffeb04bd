package job

import "github.com/pingcap/tidb/pkg/meta/model"

// Step is how far a job has come. Steps are durable.
type Step string

// The steps, in the order a job takes them. See the package documentation.
const (
	// StepStart: nothing of the job is in the schema.
	StepStart Step = ""
	// StepDeleteOnly, StepWriteOnly, StepWriteReorg: what the job adds is in
	// this schema state.
	StepDeleteOnly Step = "delete-only"
	StepWriteOnly  Step = "write-only"
	StepWriteReorg Step = "write-reorg"
	// StepSnapshot: S is taken, and garbage collection holds it.
	StepSnapshot Step = "snapshot"
	// StepBackfilled: the new indexes are complete and verified.
	StepBackfilled Step = "backfilled"
	// StepComplete: transactions know that the new unique indexes are complete,
	// and leave no markers any more.
	StepComplete Step = "complete"
	// StepUnique: the markers left before have been looked at.
	StepUnique Step = "unique"
	// StepSwitched: what the job adds is public, what it drops is write-only.
	StepSwitched Step = "switched"
	// StepDropDeleteOnly: what the job drops is delete-only.
	StepDropDeleteOnly Step = "drop-delete-only"
	// StepDropped: what the job drops is out of the schema.
	StepDropped Step = "dropped"
	// StepUndoDeleteOnly: what the job had added is delete-only again.
	StepUndoDeleteOnly Step = "undo-delete-only"
	// StepUndone: nothing of the job is in the schema any more.
	StepUndone Step = "undone"
	// StepFinished: the job is history.
	StepFinished Step = "finished"
)

// shape is which steps a job needs.
type shape struct {
	addsIndexes, addsUnique, addsColumns, drops bool
	// isDrop: the job only takes things away, in one schema version.
	isDrop bool
	// isCreate: the job touches nothing that exists.
	isCreate bool
}

func (j *Job) shape() shape {
	switch j.Type {
	case model.ActionCreateSchema, model.ActionCreateTable:
		return shape{isCreate: true}
	case model.ActionDropSchema, model.ActionDropTable, model.ActionTruncateTable:
		return shape{isDrop: true}
	}
	var s shape
	for _, c := range j.Changes {
		switch c.Type {
		case model.ActionAddIndex, model.ActionAddPrimaryKey:
			s.addsIndexes = true
			s.addsUnique = s.addsUnique || c.Index.Unique
		case model.ActionAddColumn:
			s.addsColumns = true
		case model.ActionDropIndex, model.ActionDropPrimaryKey, model.ActionDropColumn:
			s.drops = true
		}
	}
	return s
}

// AddsUnique says that the job adds unique indexes.
func (j *Job) AddsUnique() bool { return j.shape().addsUnique }

// forward returns the step after step.
func (s shape) forward(step Step) Step {
	switch step {
	case StepStart:
		switch {
		case s.isDrop:
			return StepDropped
		case s.addsIndexes:
			return StepDeleteOnly
		case s.addsColumns:
			return StepWriteOnly
		}
		return StepSwitched
	case StepDeleteOnly:
		return StepWriteOnly
	case StepWriteOnly:
		if s.addsIndexes {
			return StepWriteReorg
		}
		return StepSwitched
	case StepWriteReorg:
		return StepSnapshot
	case StepSnapshot:
		return StepBackfilled
	case StepBackfilled:
		if s.addsUnique {
			return StepComplete
		}
		return StepSwitched
	case StepComplete:
		return StepUnique
	case StepUnique:
		return StepSwitched
	case StepSwitched:
		if s.drops {
			return StepDropDeleteOnly
		}
		return StepFinished
	case StepDropDeleteOnly:
		return StepDropped
	}
	return StepFinished
}

// backward returns the step towards nothing of the job being left.
func (s shape) backward(step Step) Step {
	switch step {
	case StepWriteOnly, StepWriteReorg, StepSnapshot, StepBackfilled, StepComplete, StepUnique:
		if s.addsIndexes {
			return StepUndoDeleteOnly
		}
		return StepUndone
	case StepDeleteOnly, StepUndoDeleteOnly:
		return StepUndone
	}
	return StepFinished
}

// revertible says that a job at this step can still be undone.
func (step Step) revertible() bool {
	switch step {
	case StepStart, StepDeleteOnly, StepWriteOnly, StepWriteReorg, StepSnapshot, StepBackfilled, StepComplete, StepUnique:
		return true
	}
	return false
}

// waits says that going on from step needs the certainty that nobody writes
// under a version before the one reached at step.
func (s shape) waits(step, to Step) bool {
	switch {
	case step == StepStart && (s.isCreate || to == StepFinished):
		return false
	case step == StepSwitched && to == StepFinished:
		return false
	case step == StepSnapshot && to == StepBackfilled:
		return false
	}
	return true
}

// SchemaState is the schema state that the step shows.
func (j *Job) SchemaState() model.SchemaState {
	s := j.shape()
	switch j.Step {
	case StepDeleteOnly, StepDropDeleteOnly, StepUndoDeleteOnly:
		return model.StateDeleteOnly
	case StepWriteOnly:
		return model.StateWriteOnly
	case StepWriteReorg, StepSnapshot, StepBackfilled, StepComplete, StepUnique:
		return model.StateWriteReorganization
	case StepSwitched:
		if s.drops && !s.addsIndexes && !s.addsColumns {
			return model.StateWriteOnly
		}
		return model.StatePublic
	case StepFinished:
		added := s.addsIndexes || s.addsColumns || !s.drops && !s.isDrop
		if j.State == model.JobStateSynced && added {
			return model.StatePublic
		}
	}
	return model.StateNone
}
