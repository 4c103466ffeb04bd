package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/backfill/execution"
	"fastddl/backfill/indexstats"
	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
	"fastddl/load/rows"
)

// Spec says what to load.
type Spec struct {
	// JobID names the job, in events and in the temp folder.
	JobID int64
	// Source has the rows, encoded for Table.
	Source *rows.Source
	// Table is the definition with the IDs, of the table and of its partitions, that the rows go under. No statement knows
	// them, and the store has no keys of them but those of an earlier run.
	Table *model.TableInfo
	// Checkpoint is what was last given to SaveCheckpoint, or nil.
	Checkpoint []byte
	// IDs say which row IDs and generated keys were used before the first row.
	IDs rows.State
	// MaxErrors is how many bad rows, or keys of duplicate rows, are listed; 0 is 1. The load fails with the first, and goes on
	// only to list more.
	MaxErrors int
	// Verify is config.VerifyAuto or config.VerifyFull; empty is full. By auto a sample is read back, not all.
	Verify string
	// Statistics shape the statistics of the indexes; zero is TiDB's defaults.
	Statistics indexstats.Settings
}

// Options configures a load.
type Options struct {
	// Store takes the rows.
	Store kv.Store
	// TempDir is the folder for sorted runs and finished files.
	TempDir string
	// Globals are the system variables, which a running load follows.
	Globals *config.Globals
	// Bus receives events; nil drops them.
	Bus *event.Bus
	// SaveCheckpoint makes progress durable; nil does without. A load that has imported something may be run again only with the
	// last checkpoint.
	SaveCheckpoint func(ctx context.Context, checkpoint []byte) error
	// Resources are shared with other jobs; nil is some of its own, for MaxWorkers.
	Resources *ingest.Resources
	// Settings are the job's own, which a running load follows; nil has none.
	Settings *ingest.LiveSettings
	// Progress shows what the load has done, while it runs; nil shows it to none.
	Progress *Progress

	// MaxWorkers bounds the workers, also where the system variable asks for more; 0 is the number of cores.
	MaxWorkers int
	// BatchRows is after how many rows a worker looks whether to go on; 0 follows the system variable and the settings.
	BatchRows int
	// CheckpointInterval is how long a load reads before it imports what it has; 0 follows the system variable.
	CheckpointInterval time.Duration
	// TargetFileBytes is the size of final files; 0 is 64 MiB.
	TargetFileBytes uint64
	// FS is the file system of the sorted runs in TempDir; nil is the operating system's.
	FS vfs.FS
}

func (o *Options) common() execution.Options {
	return execution.Options{
		Store: o.Store, Globals: o.Globals, Bus: o.Bus, Resources: o.Resources, Settings: o.Settings,
		MaxWorkers: o.MaxWorkers, BatchRows: o.BatchRows,
	}
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	common := o.common()
	common.EnsureDefaults()
	o.Globals, o.MaxWorkers, o.Resources = common.Globals, common.MaxWorkers, common.Resources
	if o.SaveCheckpoint == nil {
		o.SaveCheckpoint = func(context.Context, []byte) error { return nil }
	}
	if o.Progress == nil {
		o.Progress = new(Progress)
	}
}

// validate returns everything that is wrong with the options and the spec.
func validate(o *Options, s *Spec) error {
	common := o.common()
	errs := common.Problems()
	if o.TempDir == "" {
		errs = append(errs, errors.New("TempDir is missing"))
	}
	if o.CheckpointInterval < 0 {
		errs = append(errs, errors.New("CheckpointInterval must not be negative"))
	}
	if s.Source == nil {
		errs = append(errs, errors.New("Source is missing"))
	}
	if s.Table == nil {
		errs = append(errs, errors.New("Table is missing"))
	}
	if s.MaxErrors < 0 {
		errs = append(errs, fmt.Errorf("MaxErrors is %d", s.MaxErrors))
	}
	if len(errs) > 0 {
		return fmt.Errorf("load: invalid options: %w", errors.Join(errs...))
	}
	return nil
}

// checkpointInterval is the longest that a load reads before it imports.
func (o *Options) checkpointInterval() time.Duration {
	if o.CheckpointInterval > 0 {
		return o.CheckpointInterval
	}
	return o.Globals.Duration(config.CheckpointInterval)
}
