package ctl

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/errno"
)

// ExitCode is what a command ends with.
type ExitCode int

// The exit codes.
const (
	// Done: what was asked for has happened.
	Done ExitCode = 0
	// Failed: an error, which standard error has.
	Failed ExitCode = 1
	// Usage: the command line is wrong; nothing was sent to a server.
	Usage ExitCode = 2
	// Cancelled: the build was cancelled, by this command or another client.
	Cancelled ExitCode = 3
	// Left: the build is paused, or goes on without this command.
	Left ExitCode = 4
	// Unfit: explain found that the build does not fit, or would fail.
	Unfit ExitCode = 5
)

// Error is how a command ends otherwise than with [Done].
type Error struct {
	Code ExitCode
	// Err is nil if all was said already.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap implements errors.Unwrap.
func (e *Error) Unwrap() error { return e.Err }

// UsageError makes the error of a wrong command line of err.
func UsageError(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: Usage, Err: err}
}

// CodeOf returns the exit code of a command that has ended with err.
func CodeOf(err error) ExitCode {
	var e *Error
	switch {
	case err == nil:
		return Done
	case errors.As(err, &e):
		return e.Code
	}
	return Failed
}

// refused returns the error that the server itself has answered with: what it was asked for is not done. Of a connection that is lost
// this is not known.
func refused(err error) (*mysql.MySQLError, bool) {
	var theirs *mysql.MySQLError
	ok := errors.As(err, &theirs)
	return theirs, ok && theirs.Number != errno.ErrServerShutdown
}

func isNumber(err error, number uint16) bool {
	var theirs *mysql.MySQLError
	return errors.As(err, &theirs) && theirs.Number == number
}

// denied reports whether the server refuses the user, which trying again does not change.
func denied(err error) bool {
	return isNumber(err, errno.ErrAccessDenied) || isNumber(err, errno.ErrDBaccessDenied) || isNumber(err, errno.ErrTableaccessDenied)
}

// message returns the text of an error without what the driver adds.
func message(err error) string {
	var theirs *mysql.MySQLError
	if errors.As(err, &theirs) {
		return fmt.Sprintf("ERROR %d (%s): %s", theirs.Number, strings.TrimRight(string(theirs.SQLState[:]), "\x00"), theirs.Message)
	}
	return err.Error()
}
