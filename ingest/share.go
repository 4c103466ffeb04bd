package ingest

import (
	"context"
	"slices"
	"time"

	"fastddl/config"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/internal/stage"
)

// ShareOptions describes the job that a share is for.
type ShareOptions struct {
	JobID int64
	// Indexes is the number of indexes the job builds.
	Indexes int
	// ReadOnly says that the job sorts nothing: it needs no memory and no disk.
	ReadOnly bool
	// MaxWorkers bounds the workers above all settings; 0 does not.
	MaxWorkers int
	// Settings are the job's own, which the share follows; nil has none.
	Settings *LiveSettings
	// Bus receives events; nil drops them.
	Bus *event.Bus
}

// Share is one job's part of the resources. It implements lightning.Quota for
// the final files and lightning.Limiter. All methods may be called concurrently.
type Share struct {
	r        *Resources
	opts     ShareOptions
	admitted chan struct{} // closed when the job may begin
	throttle *flow.Throttle
	flow     *flow.Job

	// The following is guarded by the mutex of the resources.

	begun        bool
	workers      int
	onWorkers    func()
	memoryPart   int64
	runsPart     int64
	filesPart    int64
	runFilesPart int64
	throttled    bool // for so long that its cores are for others

	memory   usage
	temp     usage
	runs     int64
	files    int64
	diskWait int   // calls that wait for disk
	noRoom   error // why the store takes no files; nil if it does
	// elsewhere is what the job holds in another process that works for it; nil if none does.
	elsewhere *Elsewhere
}

// Allocation is what a job holds of the resources, and what is pending.
type Allocation struct {
	Workers int
	// MemoryBytes and TempBytes are in use, of MemoryPart and TempPart that the job
	// may use while the others have theirs.
	MemoryBytes, MemoryPart int64
	TempBytes, TempPart     int64
	// WriteSpeed is what the job may write now in bytes per second; 0 is no limit.
	WriteSpeed int64
	// Wait names what the job waits for; empty if for nothing.
	Wait string
}

// Allocation returns what a job holds and waits for; zero if it is not open.
func (r *Resources) Allocation(jobID int64) Allocation {
	s := r.find(jobID)
	if s == nil {
		return Allocation{}
	}
	speed, limit := s.WriteSpeed()
	throttled := s.throttle.Active(time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	a := Allocation{
		Workers: s.workers, MemoryBytes: s.memory.now, MemoryPart: s.memoryPart,
		TempBytes: s.temp.now, TempPart: s.runsPart + s.filesPart, WriteSpeed: speed,
	}
	switch {
	case !s.begun:
		a.Wait = "waiting for memory: " + config.MemoryQuota
	case s.elsewhere != nil:
		a.Wait = s.elsewhere.use.Wait
	case s.noRoom != nil:
		a.Wait = "disk space: " + s.noRoom.Error()
	case s.diskWait > 0:
		a.Wait = "waiting for disk: " + r.diskLimitLocked()
	case throttled:
		a.Wait = "throttled: " + limit
	default:
		if reason := s.flow.YieldsTo(s.workers); reason != "" {
			a.Wait = "yielding to foreground: " + string(reason)
		}
	}
	return a
}

// Leave ends the share and gives back all that the job still holds.
func (s *Share) Leave() {
	s.opts.Settings.follow(nil)
	s.throttle.Stop()
	s.flow.End()
	s.r.mu.Lock()
	s.r.memory.add(-s.memory.now)
	s.r.runs.add(-s.runs)
	s.r.temp.add(-s.runs - s.files)
	s.memory.now, s.runs = 0, 0
	s.releaseFilesLocked(s.files)
	s.r.shares = slices.DeleteFunc(s.r.shares, func(x *Share) bool { return x == s })
	s.r.checkLocked()
	s.r.mu.Unlock()
	s.r.rebalance()
}

// NewPacer returns the pacer of a worker of the job, as flow.Job.NewPacer does.
func (s *Share) NewPacer(clock *stage.Clock) *flow.Pacer { return s.flow.NewPacer(clock) }

// yielded reports for how long the job's workers have yielded to the foreground.
func (s *Share) yielded(reason flow.Reason, waited time.Duration) {
	s.opts.Bus.Emit(event.Throttled{Job: event.Job{ID: s.opts.JobID}, Reason: "foreground: " + string(reason), For: waited, Yields: true})
}

// sampleFailed reports that the foreground could not be observed.
func (s *Share) sampleFailed(err error) {
	s.opts.Bus.Emit(event.Retry{Op: "observe the foreground", Attempt: 1, Err: err})
}

func (s *Share) weight() int64 { return s.opts.Settings.Get().Weight }

// leastMemory returns what the job must be able to hold.
func (s *Share) leastMemory() int64 {
	if s.opts.ReadOnly {
		return 0
	}
	n := int64(s.opts.Indexes)
	return max(n*workerIndexMemory, min(n*indexMemory, s.r.memoryQuota()/100*arenasPercent))
}

// maxWorkers returns how many workers the job would take.
func (s *Share) maxWorkers() int64 {
	n := int64(s.opts.Settings.Get().Workers)
	if n == 0 {
		n = s.r.globals.Int(config.ReorgWorkerCount)
	}
	if s.opts.MaxWorkers > 0 {
		n = min(n, int64(s.opts.MaxWorkers))
	}
	return max(1, n)
}

// workersWithMemory returns maxWorkers, or less if the job's memory is not enough for
// so many.
func (s *Share) workersWithMemory() int64 {
	if s.opts.ReadOnly {
		return s.maxWorkers()
	}
	enough := s.memoryPart / (int64(s.opts.Indexes) * workerIndexMemory)
	return max(1, min(s.maxWorkers(), enough))
}

// Workers returns the number of workers that the job may have now.
func (s *Share) Workers() int {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.workers
}

// OnWorkers calls fn at once and after each change of Workers, one call at a
// time, until cancel is called, which waits for a call that is under way.
func (s *Share) OnWorkers(fn func()) (cancel func()) {
	set := func(fn func()) {
		s.r.mu.Lock()
		defer s.r.mu.Unlock()
		s.onWorkers = fn
	}
	s.r.notifying.Lock()
	defer s.r.notifying.Unlock()
	set(fn)
	fn()
	return func() {
		s.r.notifying.Lock()
		defer s.r.notifying.Unlock()
		set(nil)
	}
}

// batchesAtATime is how many batches of tidb_ddl_reorg_batch_size a worker reads
// before it looks whether to go on: that is the size of TiDB's transactions, which
// reads without locks need not keep to, and every look has a price.
const batchesAtATime = 4

// BatchRows returns the number of rows that a worker reads at a time.
func (s *Share) BatchRows() int {
	n := s.opts.Settings.Get().BatchRows
	if n == 0 {
		n = int(s.r.globals.Int(config.ReorgBatchSize))
	}
	return n * batchesAtATime
}

// memoryLimit returns how many bytes the job may hold in arenas and chunks: its part,
// or less while others hold more than theirs.
func (s *Share) memoryLimit() int64 {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	free := s.r.memoryQuota()/100*arenasPercent - s.r.claimedLocked(s)
	return max(s.leastMemory(), min(s.memoryPart, free))
}

// useMemory says that the job holds n more bytes.
func (s *Share) useMemory(n int64) {
	s.r.mu.Lock()
	s.memory.add(n)
	s.r.memory.add(n)
	admit := n < 0 && s.r.anyWaitingLocked()
	s.r.mu.Unlock()
	if admit {
		s.r.rebalance()
	}
}

func (r *Resources) anyWaitingLocked() bool {
	return slices.ContainsFunc(r.shares, func(s *Share) bool { return !s.begun })
}

// tryAcquireRuns takes n bytes for a run, if the job's share has that many.
func (s *Share) tryAcquireRuns(n int64) bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.runs+n > s.runsPart || s.r.runs.now+n > s.r.runsPool() {
		return false
	}
	s.addRunsLocked(n)
	return true
}

func (s *Share) releaseRuns(n int64) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.addRunsLocked(-n)
}

func (s *Share) addRunsLocked(n int64) {
	s.runs += n
	s.r.runs.add(n)
	s.temp.add(n)
	s.r.temp.add(n)
}

// runFiles returns how many runs the job may have.
func (s *Share) runFiles() int {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return int(s.runFilesPart)
}

// runsExceeded reports whether the job holds more run bytes than its share has
// become, because other jobs have joined or the quota was lowered.
func (s *Share) runsExceeded() bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.runs > 0 && s.runs > s.runsPart
}

// TryAcquire implements lightning.Quota. A job without files may always begin
// one when there is room, however small its share is.
func (s *Share) TryAcquire(n int64) bool {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	pool, part := s.r.filesPool(), s.filesPart
	if s.files > 0 {
		pool = pool / 100 * (100 - newcomersPercent)
	} else {
		part = pool
	}
	if s.r.files.now+n > pool || s.files+n > part {
		return false
	}
	s.addFilesLocked(n)
	return true
}

// Acquire implements lightning.Quota.
func (s *Share) Acquire(ctx context.Context, n int64) error {
	s.waitForDisk(1)
	defer s.waitForDisk(-1)
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

func (s *Share) waitForDisk(n int) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.diskWait += n
}

// setNoRoom says why the store takes no files, or by nil that it does.
func (s *Share) setNoRoom(why error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.noRoom = why
}

// Overdraw implements lightning.Quota.
func (s *Share) Overdraw(n int64) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.addFilesLocked(n)
}

// Release implements lightning.Quota.
func (s *Share) Release(n int64) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.temp.add(-n)
	s.r.temp.add(-n)
	s.releaseFilesLocked(n)
}

func (s *Share) addFilesLocked(n int64) {
	s.files += n
	s.r.files.add(n)
	s.temp.add(n)
	s.r.temp.add(n)
}

func (s *Share) releaseFilesLocked(n int64) {
	s.files -= n
	s.r.files.add(-n)
	s.r.wakeLocked()
}

// peaks returns the most memory and temp bytes the job has held at one time.
func (s *Share) peaks() (memory, temp int64) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	return s.memory.peak, s.temp.peak
}
