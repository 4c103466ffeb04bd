//go:build unix

package dirlock

import (
	"os"

	"golang.org/x/sys/unix"
)

// errHeld is the system's error for a lock that is held elsewhere.
var errHeld = unix.EWOULDBLOCK

// lock takes the lock that belongs to the open file, so that a second one in this
// process is refused as well.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
