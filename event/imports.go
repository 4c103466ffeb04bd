package event

import (
	"fmt"
	"time"
)

// ImportBegan: an IMPORT INTO was queued, or goes on after a restart of the server.
type ImportBegan struct {
	Job
	// ImportID is the import's in SHOW IMPORT JOBS; 0 of one from a query.
	ImportID      int64
	Schema, Table string
	// Step is the one that a resumed import is at; empty of a new one.
	Step string
	// SourceBytes is the size of its files, as they are stored; 0 of a query.
	SourceBytes int64
}

func (e ImportBegan) String() string {
	s := fmt.Sprintf("job %d imports into %s.%s", e.ID, e.Schema, e.Table)
	if e.ImportID != 0 {
		s += fmt.Sprintf(", as import job %d", e.ImportID)
	}
	if e.Step != "" {
		s += ", and goes on at " + e.Step
	}
	return s
}

// ImportEnded: an IMPORT INTO has ended. Its rows are visible, or Err is why none is.
type ImportEnded struct {
	Job
	ImportID      int64
	Schema, Table string
	// Rows and SourceBytes were imported.
	Rows, SourceBytes int64
	// Took is how long it was under way in this process.
	Took time.Duration
	// Cancelled says that a user has ended it; then Err says so too.
	Cancelled bool
	Err       error
}

func (e ImportEnded) String() string {
	into := fmt.Sprintf("job %d into %s.%s", e.ID, e.Schema, e.Table)
	took := e.Took.Round(time.Millisecond)
	if e.Err != nil {
		return fmt.Sprintf("%s has ended without a row after %s: %v", into, took, e.Err)
	}
	return fmt.Sprintf("%s has imported %d rows in %s", into, e.Rows, took)
}
