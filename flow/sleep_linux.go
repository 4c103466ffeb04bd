package flow

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleepThread keeps the calling thread.
func sleepThread(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // a signal may end it early
}
