package errs

import "errors"

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
