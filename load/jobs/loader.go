package jobs

import (
	"context"

	"github.com/pingcap/tidb/pkg/executor/importer"
	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/backfill"
	"fastddl/load/rows"
)

// Loader writes the rows of an import and their index entries under IDs that no reader knows.
type Loader interface {
	// Load writes all rows, or fails. It is called again with the last checkpoint after a crash. When it returns it writes no more.
	Load(ctx context.Context, t Task) (Result, error)
	// Occupy takes bytes of the disk quota for temporary files of LOAD DATA, or gives them back if n is negative. Its error is the client's.
	Occupy(n int64) error
}

// Task is what is to be loaded.
type Task struct {
	// ID names the job.
	ID         int64
	Controller *importer.LoadDataController
	// Query has the rows of IMPORT INTO ... FROM SELECT; nil if they come from files.
	Query <-chan importer.QueryRow
	// Feed has the rows of LOAD DATA; nil if they come from elsewhere.
	Feed *rows.Feed
	// Table is the definition with the IDs that the rows go under.
	Table *model.TableInfo
	// AutoIDs are the values that the table has given out before, of each allocator.
	AutoIDs model.AutoIDGroup
	// Threads is the option thread; 0 leaves the number of workers to the load.
	Threads int
	// MaxErrors is how many bad rows are listed.
	MaxErrors      int
	Verify         string
	Checkpoint     []byte
	SaveCheckpoint func(ctx context.Context, checkpoint []byte) error
	// Progress receives the function that returns how far the load is.
	Progress func(now func() Progress)
}

// Progress is how far a load is.
type Progress struct {
	// Rows were read, from Read of Bytes of the files as they are stored; Bytes is 0 of a query.
	Rows, Read, Bytes int64
	// Percent of the load is done, about; 0 if that is not known.
	Percent float64
	// Verifying says that all is imported, and is being verified.
	Verifying bool
}

// Result is what was loaded.
type Result struct {
	Rows int64
	// Partitions are the rows of each physical table, by ID.
	Partitions map[int64]int64
	// AutoIDs are the largest values of each allocator in the rows.
	AutoIDs model.AutoIDGroup
	// Statistics are those of the indexes, by ID.
	Statistics map[int64]backfill.Statistics
	// Warnings are for the session.
	Warnings []error
}
