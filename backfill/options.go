package backfill

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/indexstats"
	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
)

// Spec says what to build.
type Spec struct {
	// Task names the entries; its TS is the version they get, too.
	encode.Task
	// Checkpoint is what was last given to SaveCheckpoint, or nil.
	Checkpoint []byte
	// Compared says that compare.Since will compare rows and entries before the indexes are
	// used. Where it cannot but read everything anew and count the rows by their keys, the
	// build need not. Where the store sums up itself, the comparison's sums stand for those of
	// the build, too; see Result.Deferred.
	Compared bool
	// Differed says that a comparison has found a difference after a build that was Deferred:
	// its entries are to be verified.
	Differed bool
	// Leftovers says that the indexes may have entries of a build at an older snapshot that
	// no row has any more. If the build is Compared it accepts them: the comparison names them.
	Leftovers bool
	// Verify is config.VerifyAuto or config.VerifyFull; empty is full. By auto, entries and rows are not read a second time
	// where the store counts what its scans visit: see docs/correctness.md.
	Verify string
	// Since is a timestamp at which the indexes had no entries, so that those from between it and TS can be found; 0 if it
	// is not known.
	Since uint64
	// Statistics shape the statistics of what one merge writes; zero is TiDB's defaults.
	Statistics indexstats.Settings
}

// Options configures a build, and comparisons of what it has built.
type Options struct {
	// Store holds the table and takes the entries.
	Store kv.Store
	// TempDir is the folder for sorted runs and finished files. A comparison needs
	// none.
	TempDir string
	// Globals are the system variables, which a running build follows.
	Globals *config.Globals
	// Bus receives events; nil drops them.
	Bus *event.Bus
	// SaveCheckpoint makes progress durable; nil does without.
	SaveCheckpoint func(ctx context.Context, checkpoint []byte) error
	// Scheduler divides the build among several nodes; nil builds alone.
	Scheduler execution.Scheduler
	// Ingester does a part of the build in another process, where it takes it; nil does all here.
	Ingester Ingester
	// Resources are shared with other jobs; nil is some of its own, for
	// MaxWorkers.
	Resources *ingest.Resources
	// Settings are the job's own, which a running build follows; nil has none.
	Settings *ingest.LiveSettings

	// MaxWorkers bounds the workers, also where the system variable asks for more: workers
	// beyond the number of cores only take memory from each other; 0 is the number of
	// cores.
	MaxWorkers int
	// TaskBytes is the size of the ranges that are handed to workers; 0 is
	// 32 MiB.
	TaskBytes uint64
	// BatchRows is the number of rows scanned at a time; 0 follows the system
	// variable and the settings.
	BatchRows int
	// CheckpointInterval is how long a build scans before it imports what it has,
	// so that a crash costs no more than that and the import; 0 follows the system
	// variable.
	CheckpointInterval time.Duration
	// TargetFileBytes is the size of final files; 0 is 64 MiB.
	TargetFileBytes uint64
	// FS is the file system of the sorted runs in TempDir; nil is the operating
	// system's.
	FS vfs.FS
}

// Common returns the options that comparisons have too.
func (o Options) Common() execution.Options {
	return execution.Options{
		Store: o.Store, Globals: o.Globals, Bus: o.Bus, Scheduler: o.Scheduler, Resources: o.Resources, Settings: o.Settings,
		MaxWorkers: o.MaxWorkers, TaskBytes: o.TaskBytes, BatchRows: o.BatchRows,
	}
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	common := o.Common()
	common.EnsureDefaults()
	o.Globals, o.MaxWorkers, o.Resources, o.TaskBytes = common.Globals, common.MaxWorkers, common.Resources, common.TaskBytes
	if o.SaveCheckpoint == nil {
		o.SaveCheckpoint = func(context.Context, []byte) error { return nil }
	}
}

// Validate lists everything that is wrong with the options of a build.
func (o *Options) Validate() error {
	common := o.Common()
	errs := common.Problems()
	if o.CheckpointInterval < 0 {
		errs = append(errs, errors.New("CheckpointInterval must not be negative"))
	}
	if o.TempDir == "" {
		errs = append(errs, errors.New("TempDir is missing"))
	}
	return execution.InvalidOptions(errs)
}

// checkpointInterval is the longest that a build scans before it imports.
func (o *Options) checkpointInterval() time.Duration {
	if o.CheckpointInterval > 0 {
		return o.CheckpointInterval
	}
	return o.Globals.Duration(config.CheckpointInterval)
}
