package errs

import (
	"errors"
	"strings"
)

// Combine returns err joined with secondary errors, of closing or clean-up.
// Unlike errors.Join it returns err itself if there are none, so that callers
// which look at the error's own type (TiDB's terror does) find it.
func Combine(err error, secondary ...error) error {
	more := errors.Join(secondary...)
	if more == nil {
		return err
	}
	if err == nil {
		return more
	}
	return errors.Join(err, more)
}

// OneLine returns err itself, or, if its text has several lines, an error with that text in one line.
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
