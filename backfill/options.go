package backfill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/config"
	"fastddl/event"
	"fastddl/generated"
	"fastddl/ingest"
	"fastddl/internal/background"
	"fastddl/kv"
)

// Spec says what to build.
type Spec struct {
	// JobID names the job, in events and in the temp folder.
	JobID int64
	// Table is the table as it was when the indexes reached the
	// write-reorganization state.
	Table *model.TableInfo
	// Expressions understands the expressions of the table's generated columns; it
	// may be nil if the indexes have none that are virtual.
	Expressions generated.Compiler
	// Indexes are the indexes to build, in one scan.
	Indexes []*model.IndexInfo
	// TS is the snapshot that is built from and the version of the entries. The
	// caller holds it from garbage collection.
	TS uint64
	// Checkpoint is what was last given to SaveCheckpoint, or nil.
	Checkpoint []byte
}

// Options configures a build.
type Options struct {
	// Store holds the table and takes the entries.
	Store kv.Store
	// TempDir is the folder for sorted runs and finished files.
	TempDir string
	// Globals are the system variables, which a running build follows.
	Globals *config.Globals
	// Bus receives events; nil drops them.
	Bus *event.Bus
	// SaveCheckpoint makes progress durable; nil does without.
	SaveCheckpoint func(ctx context.Context, checkpoint []byte) error
	// Resources are shared with other jobs; nil is some of its own, for
	// MaxWorkers.
	Resources *ingest.Resources
	// Settings are the job's own, which a running build follows; nil has none.
	Settings *ingest.LiveSettings

	// MaxWorkers bounds the workers of a build by ingest whatever the system
	// variable says, because more than there are cores only take memory from each
	// other; 0 is the number of cores.
	MaxWorkers int
	// TaskBytes is the size of the ranges that are handed to workers; 0 is
	// 32 MiB.
	TaskBytes uint64
	// BatchRows is the number of rows scanned at a time; 0 is 1024.
	BatchRows int
	// CheckpointInterval is how long a build scans before it imports what it has,
	// so that a crash costs no more than that and the import; 0 follows the system
	// variable.
	CheckpointInterval time.Duration
	// TargetFileBytes is the size of final files; 0 is 64 MiB.
	TargetFileBytes uint64
	// CreateRun creates the files of sorted runs; see ingest.JobOptions.
	CreateRun func(path string) (ingest.RunFile, error)
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.Globals == nil {
		o.Globals = config.NewGlobals()
	}
	if o.SaveCheckpoint == nil {
		o.SaveCheckpoint = func(context.Context, []byte) error { return nil }
	}
	if o.MaxWorkers == 0 {
		o.MaxWorkers = background.Cores()
	}
	if o.Resources == nil {
		o.Resources = ingest.NewResources(o.Globals, o.MaxWorkers)
	}
	if o.TaskBytes == 0 {
		o.TaskBytes = 32 << 20
	}
	if o.BatchRows == 0 {
		o.BatchRows = 1024
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("Store is missing"))
	}
	if o.TempDir == "" {
		errs = append(errs, errors.New("TempDir is missing"))
	}
	if o.MaxWorkers < 0 || o.BatchRows < 0 || o.CheckpointInterval < 0 {
		errs = append(errs, errors.New("MaxWorkers, BatchRows and CheckpointInterval must not be negative"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("backfill: invalid options: %w", errors.Join(errs...))
	}
	return nil
}

func (s *Spec) validate() error {
	var errs []error
	if s.Table == nil {
		errs = append(errs, errors.New("Table is missing"))
	}
	if len(s.Indexes) == 0 {
		errs = append(errs, errors.New("Indexes is empty"))
	}
	if s.TS == 0 {
		errs = append(errs, errors.New("TS is missing"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("backfill: invalid spec: %w", errors.Join(errs...))
	}
	return nil
}

// checkpointInterval is the longest that a build scans before it imports.
func (o *Options) checkpointInterval() time.Duration {
	if o.CheckpointInterval > 0 {
		return o.CheckpointInterval
	}
	return o.Globals.Duration(config.CheckpointInterval)
}
