package flow

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// usual is the priority of threads, 20 minus the nice value, as it is before any
// was lowered: the main thread may be among those.
var usual, errUsual = unix.Getpriority(unix.PRIO_PROCESS, os.Getpid())

// monitor is the position of the runtime's monitor (sysmon) among the threads of
// the process, which are listed as they began: runtime.main starts it before
// anything else. It wakes up thousands of times a second to see how the others
// do, and its waiting for a processor delays nothing.
const monitor = 1

// forEachThread calls fn with each thread of the process but the monitor:
// whether its priority is lower than usual, and how long it has run or waited for a processor so far. Those that
// end meanwhile are left out, and all where the kernel does not account for
// them.
func forEachThread(fn func(id int, low bool, total time.Duration)) {
	if errUsual != nil {
		return
	}
	tasks, err := os.Open("/proc/self/task")
	if err != nil {
		return
	}
	defer tasks.Close()
	names, err := tasks.Readdirnames(-1)
	if err != nil {
		return
	}
	for i, name := range names {
		id, err := strconv.Atoi(name)
		if err != nil || i == monitor {
			continue
		}
		priority, err := unix.Getpriority(unix.PRIO_PROCESS, id)
		if err != nil {
			continue
		}
		if total, ok := threadTime(name); ok {
			fn(id, priority < usual, total)
		}
	}
}

// threadTime reads what the scheduler says of a thread: nanoseconds on a
// processor, and waiting for one.
func threadTime(id string) (time.Duration, bool) {
	data, err := os.ReadFile("/proc/self/task/" + id + "/schedstat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(data)
	if len(fields) < 2 {
		return 0, false
	}
	run, err1 := strconv.ParseInt(string(fields[0]), 10, 64)
	wait, err2 := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(run + wait), err1 == nil && err2 == nil
}
