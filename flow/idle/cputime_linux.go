package idle

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor time of a process so far, of threads that have ended too. It fails if the process has
// ended.
func cpuTime(pid int) (time.Duration, error) {
	const ofProcess = 2 // CPUCLOCK_SCHED; as clock_getcpuclockid(3) makes it
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofProcess), &ts); err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}
