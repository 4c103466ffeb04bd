package dist

import (
	"context"

	"fastddl/backfill"
	"fastddl/backfill/compare"
	"fastddl/backfill/execution"
	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/ingest"
)

// Builder builds and compares subtasks.
type Builder interface {
	// BackfillSubtasks makes the entries of subtasks, and does not verify them.
	BackfillSubtasks(ctx context.Context, t SubtasksTask) ([]execution.SubtaskResult, error)
	// CompareSubtask sums up a subtask of a comparison.
	CompareSubtask(ctx context.Context, t SubtaskTask) (execution.SubtaskResult, error)
	// Allocation returns what the build of a job has of the resources and waits for; zero without a build.
	Allocation(jobID int64) ingest.Allocation
}

// SubtasksTask is the build of subtasks by one node.
type SubtasksTask struct {
	backfill.SubtasksSpec
	TempDir  string
	Settings *ingest.LiveSettings
	// Bus receives the events of these subtasks.
	Bus *event.Bus
}

// SubtaskTask is the comparison of one subtask.
type SubtaskTask struct {
	compare.SubtaskSpec
	TempDir  string
	Settings *ingest.LiveSettings
	// Bus receives the events of this subtask.
	Bus *event.Bus
}

// LiveSettings are a job's settings as its build takes them.
func LiveSettings(s job.Settings) ingest.Settings {
	return ingest.Settings{Weight: s.Weight(), Workers: s.Threads, BatchRows: s.BatchSize, WriteSpeed: s.MaxWriteSpeed}
}
