package idle

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the processor time of a process so far, of threads that have ended too. It fails if the process has
// ended.
func cpuTime(pid int) (time.Duration, error) {
	const ofProcess = 2 // CPUCLOCK_SCHED; as clock_getcpuclockid(3) makes it
	var ts unix.Timespec
	err := unix.ClockGettime(int32(^pid<<3|ofProcess), &ts)
	if errors.Is(err, unix.EINVAL) {
		err = os.ErrProcessDone // there is no such clock
	}
	if err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}
