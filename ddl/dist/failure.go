package dist

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/parser/terror"

	"fastddl/ddl/job"
	"fastddl/ddl/verdict"
	"fastddl/ingest"
	"fastddl/kv"
)

// failure is the error of a subtask that cannot be built, as its row holds it.
type failure struct {
	Error *terror.Error `json:"error"`
	// Shown, Duplicates and Rows are those of a verdict on the rows.
	Shown      *terror.Error            `json:"shown,omitempty"`
	Duplicates []job.Duplicate          `json:"duplicates,omitempty"`
	Rows       []job.BadRow             `json:"rows,omitempty"`
	Groups     []*ingest.DuplicateGroup `json:"groups,omitempty"`
	// TooOld says that the snapshot is lost. The index can be built at another one.
	TooOld bool `json:"too_old,omitempty"`
}

// failureOf describes err, which is permanent, or says that the snapshot is lost.
func failureOf(err error) failure {
	f := failure{Error: job.ErrorOf(err), Groups: verdict.GroupsOf(err), TooOld: errors.Is(err, kv.ErrSnapshotTooOld)}
	var rows *job.RowsError
	if errors.As(err, &rows) {
		f.Duplicates, f.Rows = rows.Duplicates, rows.Rows
		if rows.Shown != nil {
			f.Shown = job.ErrorOf(rows.Shown)
		}
	}
	return f
}

// err is the error that the failure was made of, as far as others look at it.
func (f *failure) err() error {
	if f.TooOld {
		return fmt.Errorf("%w: %s", kv.ErrSnapshotTooOld, f.Error.GetMsg())
	}
	var err error = f.Error
	if f.Shown != nil || len(f.Duplicates)+len(f.Rows) > 0 {
		rows := &job.RowsError{Err: err, Duplicates: f.Duplicates, Rows: f.Rows}
		switch {
		case f.Shown != nil:
			rows.Shown = f.Shown
		case len(f.Duplicates) > 0: // a node of an earlier version has found them
			rows.Shown = job.WithoutValues(f.Error)
		}
		err = rows
	}
	if err = job.Permanent(err); len(f.Groups) > 0 {
		err = verdict.NewDuplicatesError(err, f.Groups)
	}
	return err
}

// attempts is what the row of a subtask that is not done says of the attempts at it, in the place of its result. A node of an
// earlier version leaves it out.
type attempts struct {
	Wrong bool `json:"wrong,omitempty"`
}

// wasWrong says that an attempt at a subtask was found wrong, by what its row holds in the place of its result. What cannot be
// read says so, too: then the subtask proves nothing.
func wasWrong(state State, stored []byte) bool {
	if len(stored) == 0 || state != Open && state != Held {
		return false
	}
	var a attempts
	return json.Unmarshal(stored, &a) != nil || a.Wrong
}

// subtaskError returns the error of a subtask that has failed.
func subtaskError(p storedSubtask) error {
	var f failure
	if err := json.Unmarshal(p.outcome, &f); err != nil {
		return fmt.Errorf("decode the error of part %d: %w", p.Number, err)
	}
	return f.err()
}
