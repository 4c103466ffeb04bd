package ingest

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"sync"

	"github.com/shirou/gopsutil/v3/mem"

	"fastddl/config"
)

// Resources is the budget that all jobs of a process share: memory for
// sorting, bytes in the temp folder and, per job, the speed of writing. Limits
// come from the system variables and take effect at once. Memory and disk are
// divided evenly between the jobs that are open.
type Resources struct {
	globals *config.Globals

	mu       sync.Mutex
	jobs     map[*share]struct{}
	memory   usage
	runs     usage
	files    usage
	temp     usage         // runs and files
	released chan struct{} // closed when file bytes are released, then replaced
}

// usage is an amount in use and the greatest there was.
type usage struct{ now, peak int64 }

func (u *usage) add(n int64) {
	u.now += n
	u.peak = max(u.peak, u.now)
}

// Usage is what all jobs together occupy.
type Usage struct {
	Jobs                         int
	MemoryBytes, PeakMemoryBytes int64
	TempBytes, PeakTempBytes     int64
}

// NewResources returns a budget governed by the system variables.
func NewResources(globals *config.Globals) *Resources {
	return &Resources{globals: globals, jobs: make(map[*share]struct{}), released: make(chan struct{})}
}

// Usage returns what is in use now.
func (r *Resources) Usage() Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Usage{
		Jobs:        len(r.jobs),
		MemoryBytes: r.memory.now, PeakMemoryBytes: r.memory.peak,
		TempBytes: r.temp.now, PeakTempBytes: r.temp.peak,
	}
}

// Of the disk quota, runs and final files have a part each, so that runs can
// always be turned into files; what is left over is for what file sizes cannot
// foresee. Of the memory quota, merging needs some when the arenas are full.
const (
	runsPercent   = 50
	filesPercent  = 45
	arenasPercent = 80
)

// share is one job's part of the budget. It implements lightning.Quota for the
// final files.
type share struct {
	r     *Resources
	runs  int64
	files int64

	memory usage
	temp   usage
}

func (r *Resources) join() *share {
	s := &share{r: r}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs[s] = struct{}{}
	return s
}

// leave ends the job's share and gives back whatever it still holds.
func (s *share) leave() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.memory.add(-s.memory.now)
	s.r.runs.add(-s.runs)
	s.r.temp.add(-s.runs - s.files)
	s.memory.now, s.runs = 0, 0
	s.releaseFilesLocked(s.files)
	delete(s.r.jobs, s)
}

// memoryLimit is how many bytes the job may hold in arenas and chunks.
func (s *share) memoryLimit() int64 {
	quota := s.r.globals.Int(config.MemoryQuota)
	if quota == 0 {
		quota = int64(machineMemory() / 4)
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return quota / 100 * arenasPercent / s.r.jobsLocked()
}

// useMemory says that the job holds n more bytes.
func (s *share) useMemory(n int64) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.memory.add(n)
	s.r.memory.add(n)
}

// pool is the given part of the disk quota, for all jobs together.
func (r *Resources) pool(percent int64) int64 {
	return r.globals.Int(config.DiskQuota) / 100 * percent
}

// jobsLocked is the number of jobs that divide a limit between them.
func (r *Resources) jobsLocked() int64 { return int64(max(1, len(r.jobs))) }

// tryAcquireRuns takes n bytes for a run, if the job's share has that many.
func (s *share) tryAcquireRuns(n int64) bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	pool := s.r.pool(runsPercent)
	if s.runs+n > pool/s.r.jobsLocked() || s.r.runs.now+n > pool {
		return false
	}
	s.runs += n
	s.r.runs.add(n)
	s.temp.add(n)
	s.r.temp.add(n)
	return true
}

func (s *share) releaseRuns(n int64) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.runs -= n
	s.r.runs.add(-n)
	s.temp.add(-n)
	s.r.temp.add(-n)
}

// runsExceeded reports whether the job holds more run bytes than its share has
// become, because other jobs have joined or the quota was lowered.
func (s *share) runsExceeded() bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.runs > 0 && s.runs > s.r.pool(runsPercent)/s.r.jobsLocked()
}

// TryAcquire implements lightning.Quota.
func (s *share) TryAcquire(n int64) bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	pool := s.r.pool(filesPercent)
	// A job without files may always begin one when there is room, however small
	// its share is.
	if s.r.files.now+n > pool || (s.files > 0 && s.files+n > pool/s.r.jobsLocked()) {
		return false
	}
	s.addFilesLocked(n)
	return true
}

// Acquire implements lightning.Quota.
func (s *share) Acquire(ctx context.Context, n int64) error {
	for {
		s.r.mu.Lock()
		released := s.r.released
		s.r.mu.Unlock()
		if s.TryAcquire(n) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-released:
		}
	}
}

// Overdraw implements lightning.Quota.
func (s *share) Overdraw(n int64) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.addFilesLocked(n)
}

// Release implements lightning.Quota.
func (s *share) Release(n int64) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.temp.add(-n)
	s.r.temp.add(-n)
	s.releaseFilesLocked(n)
}

func (s *share) addFilesLocked(n int64) {
	s.files += n
	s.r.files.add(n)
	s.temp.add(n)
	s.r.temp.add(n)
}

func (s *share) releaseFilesLocked(n int64) {
	s.files -= n
	s.r.files.add(-n)
	close(s.r.released)
	s.r.released = make(chan struct{})
}

// peaks returns the most memory and temp bytes the job has held at one time.
func (s *share) peaks() (memory, temp int64) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.memory.peak, s.temp.peak
}

// machineMemory is the memory the process can have: the machine's, or that of
// the control group it runs in.
var machineMemory = sync.OnceValue(func() uint64 {
	total := uint64(4 << 30)
	if m, err := mem.VirtualMemory(); err == nil {
		total = m.Total
	}
	if b, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64); err == nil {
			total = min(total, n)
		}
	}
	return total
})
