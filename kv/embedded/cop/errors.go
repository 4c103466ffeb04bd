package cop

import (
	"fmt"

	pingcaperrors "github.com/pingcap/errors"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tipb/go-tipb"
)

// storageError is a failure to read or decode what is stored; it is not the fault of an expression, so it is reported beside
// the answer (Response.OtherError) and not in it.
type storageError struct {
	err error
}

func (e *storageError) Error() string { return e.err.Error() }

func (e *storageError) Unwrap() error { return e.err }

// storageErrorf wraps an error of reading or decoding.
func storageErrorf(format string, args ...any) error {
	return &storageError{err: fmt.Errorf(format, args...)}
}

// unknownError is the number of errors that MySQL has none for; TiKV uses it too.
const unknownError = 1

// sqlError returns the error with its MySQL number and its text spelled out. The text of a TiDB error is otherwise made only
// when it is asked for, from arguments that may point into a chunk that is in use again by then.
func sqlError(err error) *mysql.SQLError {
	switch e := pingcaperrors.Cause(err).(type) {
	case *terror.Error:
		return terror.ToSQLError(e)
	case *mysql.SQLError:
		return e
	default:
		return &mysql.SQLError{Code: unknownError, Message: err.Error()}
	}
}

// errorToPB returns the error as the SQL layer reads it from a SelectResponse.
func errorToPB(err error) *tipb.Error {
	e := sqlError(err)
	return &tipb.Error{Code: int32(e.Code), Msg: e.Message}
}
