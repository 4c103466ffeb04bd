package dirlock

import (
	"os"

	"golang.org/x/sys/windows"
)

// errHeld is the system's error for a lock that is held elsewhere.
var errHeld = windows.ERROR_LOCK_VIOLATION

// lock locks a byte far behind the content, so that others can read that.
func lock(f *os.File) error {
	behind := &windows.Overlapped{OffsetHigh: 1}
	return windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, behind)
}
