package ddl

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/terror"

	"fastddl/backfill"
	"fastddl/backfill/compare"
	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/worker"
	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/verdict"
	"fastddl/ingest"
	"fastddl/internal/invariants"
	"fastddl/kv"
)

// Backfiller makes the entries of new indexes and compares indexes with rows. It
// must be able to start again after a crash, and must leave nothing running when
// it returns.
type Backfiller interface {
	// Supported says why the indexes cannot be built; nil if they can.
	Supported(table *model.TableInfo, indexes []*model.IndexInfo) error
	// Backfill makes the entries that the indexes have at a snapshot, at the
	// snapshot's version, and verifies them.
	Backfill(ctx context.Context, t BackfillTask) (backfill.Result, error)
	// BackfillSubtasks makes the entries of subtasks, and does not verify them.
	BackfillSubtasks(ctx context.Context, t dist.SubtasksTask) ([]execution.SubtaskResult, error)
	// Compare returns where the indexes differ from the rows at a snapshot.
	Compare(ctx context.Context, t CompareTask) (compare.Result, error)
	// ChangesAgree says whether rows and indexes have changed alike since a snapshot.
	ChangesAgree(ctx context.Context, t ChangesTask) (bool, error)
	// CompareSubtask sums up a subtask of a comparison.
	CompareSubtask(ctx context.Context, t dist.SubtaskTask) (execution.SubtaskResult, error)
	// Allocation returns what the build of a job has of the resources and waits for; zero without a build.
	Allocation(jobID int64) ingest.Allocation
	// Outlook returns what a build would have of the resources if it began now.
	Outlook(opts ingest.ShareOptions, disk *vfs.DiskUsage) ingest.Outlook
}

// BackfillTask is one build.
type BackfillTask struct {
	backfill.Spec
	TempDir string
	// Settings are the job's, which the build follows.
	Settings       *ingest.LiveSettings
	SaveCheckpoint func(ctx context.Context, checkpoint []byte) error
	// Scheduler divides the build among nodes; nil does not.
	Scheduler execution.Scheduler
}

// CompareTask is one comparison.
type CompareTask struct {
	encode.Task
	// Verified is when the indexes were found to be equal to the rows, which were counted.
	Verified compare.Verified
	// Built is what the rows gave when the indexes were built without being verified.
	Built    compare.Built
	TempDir  string
	Settings *ingest.LiveSettings
	// Scheduler divides the comparison among nodes; nil does not.
	Scheduler execution.Scheduler
}

// ChangesTask is a comparison of what has changed.
type ChangesTask struct {
	encode.Task
	// Since is when rows and indexes were equal.
	Since uint64
	// Limit is how many keys may have changed; 0 for any number.
	Limit    int64
	TempDir  string
	Settings *ingest.LiveSettings
}

// IndexBackfiller is the Backfiller over package backfill. All jobs share one
// budget of memory, disk and write speed.
type IndexBackfiller struct {
	opts backfill.Options
}

// NewBackfiller returns a backfiller of the tables in opts.Store. The options'
// TempDir, SaveCheckpoint and Settings are those of each task.
func NewBackfiller(opts backfill.Options) *IndexBackfiller {
	opts.EnsureDefaults()
	return &IndexBackfiller{opts: opts}
}

// Supported implements Backfiller.
func (b *IndexBackfiller) Supported(table *model.TableInfo, indexes []*model.IndexInfo) error {
	return encode.Supported(table, indexes)
}

// Allocation implements Backfiller.
func (b *IndexBackfiller) Allocation(jobID int64) ingest.Allocation {
	return b.opts.Resources.Allocation(jobID)
}

// Outlook implements Backfiller.
func (b *IndexBackfiller) Outlook(opts ingest.ShareOptions, disk *vfs.DiskUsage) ingest.Outlook {
	opts.MaxWorkers = b.opts.MaxWorkers
	return b.opts.Resources.Outlook(opts, disk)
}

// Backfill implements Backfiller.
func (b *IndexBackfiller) Backfill(ctx context.Context, t BackfillTask) (backfill.Result, error) {
	opts := b.opts
	opts.TempDir, opts.SaveCheckpoint, opts.Settings, opts.Scheduler = t.TempDir, t.SaveCheckpoint, t.Settings, t.Scheduler
	result, err := backfill.Run(ctx, opts, t.Spec)
	return result, b.buildError(ctx, t.Task, err)
}

// BackfillSubtasks implements Backfiller.
func (b *IndexBackfiller) BackfillSubtasks(ctx context.Context, t dist.SubtasksTask) ([]execution.SubtaskResult, error) {
	opts := b.opts
	opts.TempDir, opts.Settings, opts.Bus = t.TempDir, t.Settings, t.Bus
	results, err := backfill.RunSubtasks(ctx, opts, t.SubtasksSpec)
	if backfill.IsWrong(err) && !t.First.Wrong {
		return nil, hideRows(err) // what is wrong is built once more
	}
	return results, b.buildError(ctx, t.Task, err)
}

// CompareSubtask implements Backfiller.
func (b *IndexBackfiller) CompareSubtask(ctx context.Context, t dist.SubtaskTask) (execution.SubtaskResult, error) {
	opts := b.opts.Common()
	opts.Settings, opts.Bus = t.Settings, t.Bus
	result, err := compare.RunSubtask(ctx, opts, t.SubtaskSpec)
	return result, b.buildError(ctx, t.Task, err)
}

// Compare implements Backfiller.
func (b *IndexBackfiller) Compare(ctx context.Context, t CompareTask) (compare.Result, error) {
	opts := b.opts.Common()
	opts.Settings, opts.Scheduler = t.Settings, t.Scheduler
	result, err := compare.Since(ctx, opts, t.Task, t.Verified, t.Built)
	if invariants.Enabled && err == nil && (result.OnlyChanges || result.Unchanged) {
		all, err := compare.Run(ctx, opts, t.Task)
		invariants.Check(err != nil || all.Clean(), "job %d: what has changed of indexes and rows agrees, but they differ: %+v", t.JobID, all.Differences)
	}
	if err == nil && result.Clean() {
		result.Differences, result.More, err = compare.Shadowed(ctx, opts, t.Task, result)
	}
	return result, b.buildError(ctx, t.Task, err)
}

// ChangesAgree implements Backfiller.
func (b *IndexBackfiller) ChangesAgree(ctx context.Context, t ChangesTask) (bool, error) {
	opts := b.opts.Common()
	opts.Settings = t.Settings
	agree, _, err := compare.ChangesAgree(ctx, opts, t.Task, t.Since, t.Limit)
	return agree, err
}

// buildError marks what no further attempt can cure: what is wrong with the rows.
func (b *IndexBackfiller) buildError(ctx context.Context, t encode.Task, err error) error {
	if err == nil {
		return nil
	}
	var mismatch *backfill.MismatchError
	var damaged *kv.DamagedUnitError
	if v, ok := verdict.Of(ctx, b.opts.Store, t, err); ok {
		return v
	}
	switch {
	case errors.As(err, &mismatch):
		return job.Permanent(explainMismatch(t, mismatch, err))
	case backfill.IsWrong(err), errors.As(err, &damaged), errors.Is(err, encode.ErrUnsupported): // it has been rebuilt once already
		return job.Permanent(hideRows(err))
	case errors.As(err, new(*worker.MemoryError)):
		return job.Permanent(err)
	case isDataError(err):
		if errors.As(err, new(*job.RowsError)) { // of a subtask, with its rows
			return job.Permanent(err)
		}
		return job.Permanent(&job.RowsError{Err: err, Shown: job.WithoutValues(job.ErrorOf(err))})
	}
	return err
}

// hideRows returns an error that is wrong in rows or entries which it names with another text for all, and other errors as
// they are.
func hideRows(err error) error {
	var entry *compare.EntryError
	var scanned *kv.ScanCountError
	var imported *kv.ImportAccountError
	var damaged *kv.DamagedUnitError
	switch {
	case errors.As(err, &entry):
		return &job.RowsError{Err: err, Shown: fmt.Errorf("backfill: index %s differs from its table", entry.Index)}
	case errors.As(err, &scanned):
		return &job.RowsError{Err: err, Shown: fmt.Errorf("backfill: the store has read %d records, but returned %d rows", scanned.Visited, scanned.Rows)}
	case errors.As(err, &imported):
		return &job.RowsError{Err: err, Shown: errors.New("backfill: the store has not taken the entries as they were sent")}
	case errors.As(err, &damaged) && damaged.Imported:
		return &job.RowsError{Err: err, Shown: errors.New("backfill: the store has not taken the files of the import as they were")}
	case errors.As(err, &damaged):
		return &job.RowsError{Err: err, Shown: errors.New("backfill: a file of the import was damaged")}
	}
	return err
}

// explainMismatch explains a mismatch that is most likely not the store's: TiDB evaluates a generated
// column that is not stored by the settings of the session that writes the row. If they give it different values, one
// row has two entries, also if TiDB builds the index.
func explainMismatch(t encode.Task, mismatch *backfill.MismatchError, err error) error {
	for _, idx := range t.Indexes {
		if idx.Name.O == mismatch.Index && encode.OnVirtual(t.Table, idx) && mismatch.Got.Entries > mismatch.Want.Entries {
			return fmt.Errorf("%w%s", err, otherSettings)
		}
	}
	return err
}

// otherSettings explains differences of an index on a generated column that is not stored.
const otherSettings = "; rows were written by sessions whose time_zone or sql_mode gives its generated column another value than this statement's"

// hasVirtual says that an index of a task is on such a column.
func hasVirtual(t encode.Task) bool {
	return slices.ContainsFunc(t.Indexes, func(idx *model.IndexInfo) bool { return encode.OnVirtual(t.Table, idx) })
}

// isDataError says that err is TiDB's error of evaluating a row's values: one of a
// class whose errors are about values, not about the store or the network.
func isDataError(err error) bool {
	te := job.FindTerror(err)
	if te == nil {
		return false
	}
	for _, class := range []terror.ErrClass{terror.ClassTypes, terror.ClassExpression, terror.ClassTable, terror.ClassJSON, terror.ClassDDL} {
		if class.EqualClass(te) {
			return true
		}
	}
	return false
}
