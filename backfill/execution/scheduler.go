package execution

import "context"

// Scheduler divides a build or a comparison among several nodes, which run its subtasks by
// backfill.RunSubtasks and compare.RunSubtask.
type Scheduler interface {
	// Build cuts the work into subtasks, and returns the results when the last one is
	// done. It may find subtasks of the same snapshot and round that were cut earlier, and
	// then goes on with those; a comparison is always cut anew. shared is false if the work
	// is not to be divided; then it has done nothing. When it returns an error subtasks may
	// still run: the caller that made the scheduler stops them.
	Build(ctx context.Context, w Work) (results []SubtaskResult, shared bool, err error)
	// SumsInStore says that all nodes know subtasks of which the store sums the entries up.
	SumsInStore() bool
}

// Work is the ranges that several nodes build or compare.
type Work struct {
	// TS is the snapshot that is built or, if Compare says so, compared.
	TS      uint64
	Compare bool
	// Round counts how often the table is built at one snapshot.
	Round int
	// Bytes is about the size of the rows, as far as the store knows it.
	Bytes float64
	// Cut cuts the table into at most n subtasks of about equal size, in key order. Of a
	// comparison it may be called again: the last ones count.
	Cut func(n int) []Subtask
	// Progress takes how many rows the subtasks have read, of how many the entries are
	// in the store, and how much of everything is read, 0 to 1.
	Progress func(rows, imported int64, read float64)
}
