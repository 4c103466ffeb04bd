package errs

import (
	"errors"
	"strings"
)

// Also returns err together with what went wrong besides, in closing or
// clean-up. Unlike errors.Join it returns err itself where nothing did, so that
// callers which look at the error's own type (TiDB's terror does) find it.
func Also(err error, besides ...error) error {
	more := errors.Join(besides...)
	if more == nil {
		return err
	}
	if err == nil {
		return more
	}
	return errors.Join(err, more)
}

// OneLine returns err itself, or, if it is made of several, one that says the same in one line.
func OneLine(err error) error {
	if err == nil || !strings.Contains(err.Error(), "\n") {
		return err
	}
	return oneLine{err}
}

type oneLine struct{ error }

func (e oneLine) Error() string {
	var parts []string
	for line := range strings.Lines(e.error.Error()) {
		if part := strings.TrimSpace(line); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}

// Unwrap implements errors.Unwrap.
func (e oneLine) Unwrap() error { return e.error }
