package backfill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/config"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/kv"
)

// Task says which entries are meant: those that some indexes of a table have at
// a timestamp.
type Task struct {
	// JobID names the job, in events and in the temp folder.
	JobID int64
	// Table is the table as it was when the indexes reached the
	// write-reorganization state. A partitioned table is built as a whole.
	Table *model.TableInfo
	// Indexes are the indexes that are meant, in ascending order of ID. They may
	// have any schema state.
	Indexes []*model.IndexInfo
	// TS is the snapshot that rows are read at. The caller holds it from garbage
	// collection.
	TS uint64
	// SQLMode and Location are those of the statement. Virtual generated columns
	// are evaluated under them, as TiDB's own backfill does; a nil Location is UTC.
	SQLMode  mysql.SQLMode
	Location *time.Location
	// Functions are those of the statement, too; nil is TiDB's defaults.
	Functions *config.FunctionSettings
}

// Spec says what to build.
type Spec struct {
	// Task names the entries; its TS is the version they get, too.
	Task
	// Checkpoint is what was last given to SaveCheckpoint, or nil.
	Checkpoint []byte
	// Compared says that CompareSince will compare rows and entries before anybody uses the
	// indexes. Where it cannot but read everything anew and count the rows by their keys, the
	// build need not. Where the store sums up itself, the comparison's sums stand for those of
	// the build, too; see Result.Deferred.
	Compared bool
	// Differed says that a comparison has found a difference after a build that was Deferred:
	// its entries are to be verified.
	Differed bool
	// Leftovers says that the indexes may have entries of a build at an older snapshot that
	// no row has any more. If the build is Compared it accepts them: Compare names them.
	Leftovers bool
}

// Options configures a build or a comparison.
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
	// Crew divides the build among several nodes; nil builds alone.
	Crew Crew
	// Resources are shared with other jobs; nil is some of its own, for
	// MaxWorkers.
	Resources *ingest.Resources
	// Settings are the job's own, which a running build follows; nil has none.
	Settings *ingest.LiveSettings

	// MaxWorkers bounds the workers whatever the system variable says, because more
	// than there are cores only take memory from each other; 0 is the number of
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

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.Globals == nil {
		o.Globals = config.NewGlobals()
	}
	if o.SaveCheckpoint == nil {
		o.SaveCheckpoint = func(context.Context, []byte) error { return nil }
	}
	if o.MaxWorkers == 0 {
		o.MaxWorkers = flow.Cores()
	}
	if o.Resources == nil {
		o.Resources = ingest.NewResources(o.Globals, o.MaxWorkers)
	}
	if o.TaskBytes == 0 {
		o.TaskBytes = 32 << 20
	}
}

// problems lists everything that is wrong with the options, whatever they are
// used for.
func (o *Options) problems() (errs []error) {
	if o.Store == nil {
		errs = append(errs, errors.New("Store is missing"))
	}
	if o.MaxWorkers < 0 || o.BatchRows < 0 || o.CheckpointInterval < 0 {
		errs = append(errs, errors.New("MaxWorkers, BatchRows and CheckpointInterval must not be negative"))
	}
	return errs
}

// Validate lists everything that is wrong with the options of a build.
func (o *Options) Validate() error {
	errs := o.problems()
	if o.TempDir == "" {
		errs = append(errs, errors.New("TempDir is missing"))
	}
	return invalid("options", errs)
}

func invalid(what string, errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("backfill: invalid %s: %w", what, errors.Join(errs...))
}

func (t *Task) validate() error {
	var errs []error
	if t.Table == nil {
		errs = append(errs, errors.New("Table is missing"))
	}
	if len(t.Indexes) == 0 {
		errs = append(errs, errors.New("Indexes is empty"))
	}
	if t.TS == 0 {
		errs = append(errs, errors.New("TS is missing"))
	}
	return invalid("task", errs)
}

// checkpointInterval is the longest that a build scans before it imports.
func (o *Options) checkpointInterval() time.Duration {
	if o.CheckpointInterval > 0 {
		return o.CheckpointInterval
	}
	return o.Globals.Duration(config.CheckpointInterval)
}
