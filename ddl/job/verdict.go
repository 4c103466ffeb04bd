package job

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/terror"
)

// RowsError is a verdict on the rows: the error of a job whose rows do not let its indexes be built. The job's record
// gets the rows.
type RowsError struct {
	// Err is for the session that has executed the statement; like MySQL's errors it shows values.
	Err error
	// Shown is Err without values, for others; nil if Err has none.
	Shown error
	// Duplicates are rows with the same values in a unique index, Rows all others that are at fault.
	Duplicates []Duplicate
	Rows       []BadRow
}

func (e *RowsError) Error() string { return e.Err.Error() }

// Unwrap implements errors.Unwrap.
func (e *RowsError) Unwrap() error { return e.Err }

// Duplicate is two or more rows with the same values in a unique index that a
// job was to add.
type Duplicate struct {
	// Index is the index's name.
	Index string `json:"index"`
	// Columns are the index's, by name.
	Columns string `json:"columns,omitempty"`
	// Entry is the value as error 1062 prints it.
	Entry string `json:"entry"`
	// Rows is the number of rows that were found to have it.
	Rows int64 `json:"rows"`
	// Handles name the first of the rows: by the values of the clustered primary
	// key, or by the hidden row ID of a table without. Under a global index the partition follows.
	Handles []string `json:"handles"`
	// Partitions are those of the rows that have handles.
	Partitions []string `json:"partitions,omitempty"`
}

// BadRow is a row whose values give an index that a job was to add no entry.
type BadRow struct {
	Index string `json:"index"`
	// Column is its name, or the expression that has no value.
	Column string `json:"column,omitempty"`
	// Partition is the row's, and Handle names it as in a Duplicate.
	Partition string `json:"partition,omitempty"`
	Handle    string `json:"handle,omitempty"`
	// Value is that of the columns that Column consists of; nil if it is NULL or not known.
	Value *string `json:"value,omitempty"`
	// Error is this row's. Shown is without values.
	Error *terror.Error `json:"error"`
	Shown *terror.Error `json:"shown"`
}

// rowsOf fills in what the record says of a verdict on the rows.
func (r *Record) rowsOf(err error) {
	r.ShownError, r.Duplicates, r.BadRows = nil, nil, nil
	var rows *RowsError
	if errors.As(err, &rows) {
		r.ShownError, r.Duplicates, r.BadRows = rows.shown(), rows.Duplicates, rows.Rows
	}
}

func (e *RowsError) shown() *terror.Error {
	if e.Shown == nil {
		return nil
	}
	return ErrorOf(e.Shown)
}

// ErrorForAll is the job's error as all may see it who do not know the rows.
func (r *Record) ErrorForAll() *terror.Error {
	if r.ShownError != nil {
		return r.ShownError
	}
	return r.Error
}

// TextForAll is the text of an error as all may see it who do not know the rows.
func TextForAll(err error) string {
	var rows *RowsError
	if errors.As(err, &rows) && rows.Shown != nil {
		return rows.Shown.Error()
	}
	return err.Error()
}

// verbs are what MySQL's messages are formatted by.
var verbs = regexp.MustCompile(`%[-+ 0-9.]*[a-zA-Z]`)

// WithoutValues returns MySQL's error with the number of e, in which ? stands for all that e may name.
func WithoutValues(e *terror.Error) *terror.Error {
	code := terror.ToSQLError(e).Code
	text := fmt.Sprintf("error %d", code)
	if message := errno.MySQLErrName[code]; message != nil && code != errno.ErrUnknown {
		text = verbs.ReplaceAllLiteralString(message.Raw, "?")
	}
	return WithText(e, text)
}

// WithText returns the error with another text.
func WithText(e *terror.Error, text string) *terror.Error {
	return FindTerror(e.FastGen("%s", text))
}
