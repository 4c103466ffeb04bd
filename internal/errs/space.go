package errs

import (
	"errors"
	"syscall"
)

// NoSpace reports whether err says that a disk, or a quota on it, is full.
func NoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
