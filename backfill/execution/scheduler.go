package execution

import "context"

// Scheduler has the parts of a build or a comparison done by several nodes, by RunSubtasks and
// RunSubtask.
type Scheduler interface {
	// Build has all rows of a table built in parts, and returns the results when the
	// last part is done. It may find parts of the same snapshot and round that were cut
	// earlier, and then goes on with those; a comparison is always cut anew. shared is false if the table is not to be
	// divided; then it has done nothing. When it returns an error parts may still be
	// under way: who has made the crew stops them.
	Build(ctx context.Context, w Work) (results []SubtaskResult, shared bool, err error)
	// SumsInStore says that whoever takes parts of a comparison knows those of which the store sums the
	// entries up.
	SumsInStore() bool
}

// Work is what there is to do for a crew.
type Work struct {
	// TS is the snapshot that is built or, if Compare says so, compared.
	TS      uint64
	Compare bool
	// Round counts how often the table is built at one snapshot.
	Round int
	// Bytes is about the size of the rows, as far as the store knows it.
	Bytes float64
	// Cut cuts the table into at most n parts of about equal size, in key order. Of a
	// comparison it may be called again: the last ones count.
	Cut func(n int) []Subtask
	// Progress is told how many rows the parts have read, of how many the entries are
	// in the store, and how much of everything is read, 0 to 1.
	Progress func(rows, imported int64, read float64)
}
