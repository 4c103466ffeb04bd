package verdict

import (
	"errors"

	"fastddl/ingest"
)

// DuplicatesError is the error of a backfill that has found rows with equal values at
// S. That is the verdict only if they have them still: values that are handed from
// row to row must not fail a job.
type DuplicatesError struct {
	error  // 1062, permanent
	Groups []*ingest.DuplicateGroup
}

// NewDuplicatesError returns err, which is of rows with equal values, with these rows.
func NewDuplicatesError(err error, groups []*ingest.DuplicateGroup) error {
	return &DuplicatesError{err, groups}
}

// Unwrap returns the error without the rows.
func (e *DuplicatesError) Unwrap() error { return e.error }

// GroupsOf returns the conflicting rows named by err.
func GroupsOf(err error) []*ingest.DuplicateGroup {
	var dup *DuplicatesError
	if errors.As(err, &dup) {
		return dup.Groups
	}
	return nil
}
