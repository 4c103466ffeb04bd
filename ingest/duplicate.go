package ingest

import "fmt"

// duplicate is two entries with one key, without the index prefix.
type duplicate struct {
	key    []byte
	values [2][]byte
}

func (d *duplicate) Error() string { return fmt.Sprintf("ingest: duplicate key %x", d.key) }

// DuplicateError reports two rows with the same values in a unique index.
type DuplicateError struct {
	IndexID int64
	// Key is the whole index key, Values the two entries' values, which hold the
	// rows' handles.
	Key    []byte
	Values [2][]byte
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("ingest: duplicate entry in unique index %d: key %x", e.IndexID, e.Key)
}
