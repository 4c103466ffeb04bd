package errs

import (
	"errors"
	"syscall"
)

// NoSpace says whether err is that a disk, or somebody's part of it, is full.
func NoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
