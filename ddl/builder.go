package ddl

import (
	"context"

	"fastddl/backfill"
	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/ingest"
)

// builder builds and compares subtasks.
type builder interface {
	// BackfillParts makes the entries of parts of the rows, and does not verify them.
	BackfillParts(ctx context.Context, t PartsTask) ([]backfill.PartResult, error)
	// ComparePart sums up a part of a comparison.
	ComparePart(ctx context.Context, t PartTask) (backfill.PartResult, error)
	// Held is what the build of a job has and waits for; zero if there is none.
	Held(jobID int64) ingest.Held
}

// PartsTask is the build of parts by one node.
type PartsTask struct {
	backfill.PartsSpec
	TempDir  string
	Settings *ingest.LiveSettings
	// Bus receives the events of these parts.
	Bus *event.Bus
}

// PartTask is the comparison of one part.
type PartTask struct {
	backfill.PartSpec
	TempDir  string
	Settings *ingest.LiveSettings
	// Bus receives the events of this part.
	Bus *event.Bus
}

// liveSettings are a job's settings as its build takes them.
func liveSettings(s job.Settings) ingest.Settings {
	return ingest.Settings{Weight: s.Weight(), Workers: s.Threads, BatchRows: s.BatchSize, WriteSpeed: s.MaxWriteSpeed}
}
