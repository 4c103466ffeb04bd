package flow

import "golang.org/x/sys/unix"

// hasPriorities says that threads have priorities here.
const hasPriorities = true

// lowerPriority lowers the priority of the calling thread. If it is not allowed
// to, the work is done at the usual one.
func lowerPriority(nice int) {
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), nice)
}
