package encode

import (
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/mysql"

	"fastddl/config"
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

// Validate lists everything that is wrong with the task.
func (t *Task) Validate() error {
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
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("backfill: invalid task: %w", errors.Join(errs...))
}
