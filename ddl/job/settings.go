package job

import (
	"time"

	"fastddl/config"
)

// Settings are what a job may have where running jobs divide something, and when it may work. What is
// zero follows the system variables.
type Settings struct {
	// Priority is a value of tidb_ddl_reorg_priority; empty is the lowest.
	Priority string `json:"priority,omitempty"`
	// Threads is the largest number of workers, 1 to 256.
	Threads int `json:"threads,omitempty"`
	// BatchSize is the number of rows of a backfill transaction, 32 to 10240.
	BatchSize int `json:"batch_size,omitempty"`
	// MaxWriteSpeed is a ceiling in bytes per second, beside that of the node; 0 is
	// none.
	MaxWriteSpeed int64 `json:"max_write_speed,omitempty"`

	// Window is the text of the Window in which the job works.
	Window string `json:"window,omitempty"`
	// MaxHold is how long garbage collection is held for the job while it is parked, in nanoseconds: HoldAtMost.
	MaxHold time.Duration `json:"max_hold,omitempty"`
	// Publish is a value of fastddl_ddl_publish or config.PublishNow; empty is config.PublishAuto.
	Publish string `json:"publish,omitempty"`
}

// ScheduleProtocol is the first Protocol whose nodes follow the window of a job and do not publish what is not to be published yet.
const ScheduleProtocol = 4

// HoldAtMost returns how long garbage collection is held for the job while it is parked, if atMost is the longest for all jobs: its own
// setting may be shorter, not longer.
func (s Settings) HoldAtMost(atMost time.Duration) time.Duration {
	if s.MaxHold != 0 {
		return min(s.MaxHold, atMost)
	}
	return atMost
}

// Weight is the job's part among those that run: each priority counts four times
// as much as the one below.
func (s Settings) Weight() int64 {
	switch s.Priority {
	case config.PriorityHigh:
		return 16
	case config.PriorityNormal:
		return 4
	}
	return 1
}
