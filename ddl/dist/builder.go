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
	// BackfillParts makes the entries of parts of the rows, and does not verify them.
	BackfillParts(ctx context.Context, t PartsTask) ([]execution.SubtaskResult, error)
	// ComparePart sums up a subtask of a comparison.
	ComparePart(ctx context.Context, t PartTask) (execution.SubtaskResult, error)
	// Held is what the build of a job has and waits for; zero if there is none.
	Held(jobID int64) ingest.Allocation
}

// PartsTask is the build of subtasks by one node.
type PartsTask struct {
	backfill.SubtasksSpec
	TempDir  string
	Settings *ingest.LiveSettings
	// Bus receives the events of these subtasks.
	Bus *event.Bus
}

// PartTask is the comparison of one subtask.
type PartTask struct {
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
