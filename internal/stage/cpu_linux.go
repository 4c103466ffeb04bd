package stage

import (
	"time"

	"golang.org/x/sys/unix"
)

// ThreadCPU is the CPU time of the calling thread. getrusage would do, but
// lags by up to a scheduler tick, which is longer than a batch.
func ThreadCPU() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// ProcessCPU is the CPU time of the process so far.
func ProcessCPU() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(id, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
