package job

import "errors"

// Duplicate is two or more rows with the same values in a unique index that a
// job was to add.
type Duplicate struct {
	// Index is the index's name.
	Index string `json:"index"`
	// Entry is the value as error 1062 prints it. Like Handles it may hold bytes
	// that are no UTF-8.
	Entry []byte `json:"entry"`
	// Rows is the number of rows that were found to have it.
	Rows int64 `json:"rows"`
	// Handles name the first of the rows: by the values of the clustered primary
	// key, or by the hidden row ID of a table without.
	Handles [][]byte `json:"handles"`
}

// DuplicateError is the error of a job that has found duplicates: it makes Err,
// a 1062, the job's error and puts the list into the job's record.
type DuplicateError struct {
	Err        error
	Duplicates []Duplicate
}

func (e *DuplicateError) Error() string { return e.Err.Error() }

// Unwrap implements errors.Unwrap.
func (e *DuplicateError) Unwrap() error { return e.Err }

// duplicatesOf returns the duplicates that err tells of.
func duplicatesOf(err error) []Duplicate {
	var dup *DuplicateError
	if errors.As(err, &dup) {
		return dup.Duplicates
	}
	return nil
}
