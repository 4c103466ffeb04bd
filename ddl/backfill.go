package ddl

import (
	"context"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/generated"
	"fastddl/ingest"
)

// Backfiller builds the entries that new indexes have at a snapshot, at the
// snapshot's version, and verifies them. It must be able to start again after a
// crash, and must leave nothing running when it returns.
type Backfiller interface {
	Backfill(ctx context.Context, t BackfillTask) (rows int64, err error)
	// Held is what the build of a job has and waits for; zero if there is none.
	Held(jobID int64) ingest.Held
}

// BackfillTask is one index build.
type BackfillTask struct {
	JobID int64
	// Table is the table's definition, with the indexes in write-reorganization.
	Table   *model.TableInfo
	Indexes []*model.IndexInfo
	// Expressions understands the expressions of the table's generated columns.
	Expressions generated.Compiler
	// TS is the snapshot S; garbage collection is held at it.
	TS uint64
	// Checkpoint is what SaveCheckpoint was last given, or nil.
	Checkpoint []byte
	// Loc is the time zone in which duplicates are named.
	Loc *time.Location
	// Fast says to import sorted files; otherwise the entries are written by
	// ordinary transactions.
	Fast    bool
	TempDir string
	// Settings are the job's, which the build follows.
	Settings       *ingest.LiveSettings
	SaveCheckpoint func(ctx context.Context, checkpoint []byte) error
}
