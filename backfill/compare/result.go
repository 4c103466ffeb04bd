package compare

import "fastddl/ingest"

// Result is what a comparison of a table's rows with its indexes found.
type Result struct {
	// Rows is the number of rows, Entries that of the entries of each index, in the
	// order of the task; they are not known if only changes were compared.
	Rows    int64
	Entries []int64
	// Records is how many records the store has met where the entries of each index are, as in
	// kv.Checksum; nil if it was not asked.
	Records []int64
	// Unchanged says that rows were not read, because none has changed since the build.
	Unchanged bool
	// OnlyChanges says that only what has changed since the indexes were verified was
	// compared. Changes is how many keys of rows and entries these were, if they were read.
	OnlyChanges bool
	Changes     int64
	// Differences lists keys that the rows and an index do not agree on, by index
	// and key. There are more if More says so.
	Differences []Difference
	More        bool
}

// Clean says that every index is what the rows give.
func (r *Result) Clean() bool { return len(r.Differences) == 0 && !r.More }

// Difference is a key of an index that has another value than the rows give it,
// or that more than one row claims.
type Difference struct {
	// Index is the ID of the index, Key the whole key.
	Index int64
	Key   []byte
	// Rows is the number of rows that claim the key: none, one or, of a unique index,
	// more. Claims are those with the least record keys, at most maxClaims.
	Rows   int64
	Claims []Claim
	// Actual is the value that the index has; nil if it does not have the key.
	Actual []byte
}

// Claim is a row that gives an index key a value.
type Claim struct {
	RecordKey []byte
	Value     []byte
}

// Verified is a time at which every entry of the indexes was found to be what the rows
// give, and none too many, and the rows were counted. The zero value is never.
type Verified struct {
	TS uint64
	// Rows is how many rows there were.
	Rows int64
}

// Built is what the rows gave when a build that was Deferred read them. The zero value is none.
type Built struct {
	TS uint64
	// Rows is how many rows were scanned, Given are the totals of the entries, by index.
	Rows  int64
	Given []ingest.Totals
}
