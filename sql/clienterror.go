package sql

import (
	"fastddl/ddl/job"
	"fastddl/internal/errs"
)

// clientError is an error as pkg/server wants it: it does not look below wrappings
// of the standard library for a MySQL number.
func clientError(err error) error {
	if te := job.FindTerror(err); te != nil {
		return te
	}
	return errs.OneLine(err)
}
