package foreground

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep keeps the calling thread.
func sleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // a signal may end it early
}
