package ingest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/config"
	"fastddl/flow"
	"fastddl/internal/invariants"
	"fastddl/internal/memory"
)

// Resources is what all jobs of a process share: workers, memory for sorting,
// bytes in the temp folder and the speed of writing. Limits come from the
// system variables and the jobs' own settings, and take effect at once.
//
// Each is divided by weight between the jobs that are open, again and again as
// they come and go. A job has at least one worker and the memory that makes
// sense; if there is not enough memory for one more, it waits.
type Resources struct {
	globals *config.Globals
	cores   int64
	sorting int64 // the memory quota, if the variable says none
	writes  *flow.WriteQueue

	governor *flow.Governor

	// notifying is held while jobs are notified of their parts, and taken before mu,
	// so that the last notification says what a job has.
	notifying sync.Mutex
	threads   int    // that processors are reserved for
	reserved  func() // gives them back

	mu sync.Mutex
	// shares are those of the open jobs, in the order in which they came. Some
	// may wait to begin.
	shares   []*Share
	memory   usage
	runs     usage
	files    usage
	temp     usage // runs and files
	occupied int64 // of the disk quota, by others than jobs
	room     room
	released chan struct{} // closed when file bytes are released, then replaced
}

// usage is an amount in use and the greatest there was.
type usage struct{ now, peak int64 }

func (u *usage) add(n int64) {
	u.now += n
	invariants.Check(u.now >= 0, "%d bytes are given back that no job holds", -u.now)
	u.peak = max(u.peak, u.now)
}

// Usage is what all jobs together occupy.
type Usage struct {
	Jobs                         int
	MemoryBytes, PeakMemoryBytes int64
	TempBytes, PeakTempBytes     int64
}

// NewResources returns resources governed by the system variables, with workers
// for a number of cores; 0 are those of the machine. It follows the variables
// as long as those live. Without a memory quota in those, jobs have the part for
// sorting of memory.Divide(0).
func NewResources(globals *config.Globals, cores int) *Resources {
	if cores == 0 {
		cores = flow.Cores()
	}
	r := &Resources{
		globals: globals, cores: int64(cores), sorting: memory.Divide(0).Sorting,
		reserved: func() {}, released: make(chan struct{}), room: room{measured: math.MaxInt64},
	}
	r.writes = flow.NewWriteQueue(func() int64 { return globals.Int(config.ReorgMaxWriteSpeed) })
	r.governor = flow.NewGovernor(func() bool { return globals.Bool(config.Governor) })
	r.governor.Target(func() time.Duration { return globals.Duration(config.TargetLatency) })
	globals.OnChange(func(name, _ string) {
		switch name {
		case config.ReorgWorkerCount, config.MemoryQuota, config.DiskQuota:
			r.rebalance()
		}
	})
	return r
}

// LimitMemory sets the memory quota in bytes for when the variable says none. It must
// be called before there are jobs.
func (r *Resources) LimitMemory(quota int64) { r.sorting = quota }

// Govern lets builds yield to the foreground that s observes, and to each of the
// statements, unless fastddl_ddl_governor is OFF. It must be called before there are
// jobs.
func (r *Resources) Govern(s flow.Sampler, statements *flow.StatementMeter) {
	r.governor.Observe(s, statements)
}

// Governor returns what builds may do now.
func (r *Resources) Governor() flow.Decision { return r.governor.Decision() }

// Usage returns what is in use now.
func (r *Resources) Usage() Usage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Usage{
		Jobs:        len(r.shares),
		MemoryBytes: r.memory.now, PeakMemoryBytes: r.memory.peak,
		TempBytes: r.temp.now, PeakTempBytes: r.temp.peak,
	}
}

const (
	// runsPercent and filesPercent are the parts of the disk quota for runs and
	// for final files. Each has its own, so that runs can always be turned into
	// files; what is left over is for what file sizes cannot foresee.
	runsPercent  = 50
	filesPercent = 45
	// arenasPercent is the part of the memory quota that jobs divide. On top of
	// it, up to admitPercent, newcomers get their least memory while others still
	// hold theirs. The rest is for merging and for the batch in hand.
	arenasPercent = 70
	admitPercent  = 85
	// sparePercent is a part of the rest, for what a job decides with.
	sparePercent = 5
	// newcomersPercent of the part for final files is for jobs that have none, so
	// that one which is slow to write its files cannot keep others from theirs.
	newcomersPercent = 25

	// indexMemory is the least memory that a job has for each of its indexes, if
	// the quota has that much. With less, sorting makes runs and files that are too
	// small to be of use.
	indexMemory = 4 << 20
	// workerIndexMemory is the least memory that a worker has for each index.
	workerIndexMemory = 1 << 20

	// maxRunFiles is how many runs, which are open files, there are at one time, over all
	// jobs. A job goes beyond by one for each worker and index, and while others have joined.
	maxRunFiles = 1024
)

func (r *Resources) memoryQuota() int64 {
	if quota := r.globals.Int(config.MemoryQuota); quota != 0 {
		return quota
	}
	return r.sorting
}

// SpareMemory returns how many bytes a job may take beside its share, for what no arena holds.
func (r *Resources) SpareMemory() int64 { return r.memoryQuota() / 100 * sparePercent }

// runsPool and filesPool are the parts of the disk quota, or of the room there is, for all jobs
// together. The caller holds mu.
func (r *Resources) runsPool() int64 { return r.pool(runsPercent, runsRoomPercent) }

func (r *Resources) filesPool() int64 { return r.pool(filesPercent, filesRoomPercent) }

func (r *Resources) pool(quotaPercent, roomPercent int64) int64 {
	return min(max(r.globals.Int(config.DiskQuota)-r.occupied, 0)/100*quotaPercent, r.room.bytes()/100*roomPercent)
}

// Occupied is the outcome of Resources.Occupy.
type Occupied int

const (
	// Granted bytes were taken, or given back.
	Granted Occupied = iota
	// OverQuota says that less than half of the disk quota would be left.
	OverQuota
	// OverRoom says that less than half of the room on the disk would be left.
	OverRoom
)

// Occupy takes bytes of the disk quota from jobs, for files that no job accounts for, or gives them back if n is negative. disk is how full
// the disk of these files is now; nil if that is not known. Unless it returns Granted it takes none.
func (r *Resources) Occupy(n int64, disk *vfs.DiskUsage) Occupied {
	r.mu.Lock()
	outcome := Granted
	switch {
	case n <= 0:
	case r.occupied+n > r.globals.Int(config.DiskQuota)/2:
		outcome = OverQuota
	case disk != nil && r.occupied+n > (roomOn(*disk)+r.occupied)/2:
		outcome = OverRoom
	}
	if outcome == Granted {
		r.occupied += n
		invariants.Check(r.occupied >= 0, "%d bytes of the disk quota are given back that were not taken", -r.occupied)
	}
	r.mu.Unlock()
	if outcome == Granted {
		r.rebalance()
	}
	return outcome
}

// diskLimitLocked says what bounds the files of jobs: the disk quota, or the room on the disk if that is less.
func (r *Resources) diskLimitLocked() string {
	if room := r.room.bytes(); room/100*filesRoomPercent < r.globals.Int(config.DiskQuota)/100*filesPercent {
		return fmt.Sprintf("the temp folder's disk has room for %d MiB of index builds", room>>20)
	}
	return config.DiskQuota
}

// Join gives a job its share, which it must leave. It waits until there is
// memory for it.
func (r *Resources) Join(ctx context.Context, opts ShareOptions) (*Share, error) {
	opts.Indexes = max(1, opts.Indexes)
	s := &Share{r: r, opts: opts, admitted: make(chan struct{})}
	s.throttle = s.newThrottle()
	s.flow = r.governor.NewJob(flow.JobOptions{Yielded: s.yielded, SampleFailed: s.sampleFailed})
	r.mu.Lock()
	r.shares = append(r.shares, s)
	r.mu.Unlock()
	opts.Settings.follow(r.rebalance)
	r.rebalance()
	select {
	case <-s.admitted:
		s.flow.Begin()
		return s, nil
	case <-ctx.Done():
		s.Leave()
		return nil, ctx.Err()
	}
}

// rebalance divides everything anew and notifies the jobs.
func (r *Resources) rebalance() {
	r.notifying.Lock()
	defer r.notifying.Unlock()
	r.mu.Lock()
	r.admitLocked()
	changed := r.divideLocked()
	r.wakeLocked()
	threads := 0
	for _, s := range r.shares {
		if s.begun && s.elsewhere == nil {
			threads += s.workers + 1 // one more merges while files are waited for
		}
	}
	r.mu.Unlock()
	r.reserve(threads)
	for _, fn := range changed {
		fn()
	}
}

// reserve adds processors for so many threads of background work.
func (r *Resources) reserve(threads int) {
	if threads == r.threads {
		return
	}
	release := r.reserved
	r.threads, r.reserved = threads, func() {}
	if threads > 0 {
		r.reserved = flow.Reserve(threads)
	}
	release()
}

// admitLocked lets those begin that there is memory for, the weightiest first.
// A job that is alone always may.
func (r *Resources) admitLocked() {
	waiting := slices.DeleteFunc(slices.Clone(r.shares), func(s *Share) bool { return s.begun })
	slices.SortStableFunc(waiting, func(a, b *Share) int { return int(b.weight() - a.weight()) })
	for _, s := range waiting {
		held := r.claimedLocked(s)
		if s.opts.ReadOnly || held == 0 || held+s.leastMemory() <= r.memoryQuota()/100*admitPercent {
			s.begun = true
			close(s.admitted)
		}
	}
}

// claimedLocked returns the memory that the jobs but one hold or must be able to.
func (r *Resources) claimedLocked(but *Share) int64 {
	var n int64
	for _, s := range r.shares {
		if s != but && s.begun {
			n += max(s.memory.now, s.leastMemory())
		}
	}
	return n
}

// divideLocked gives every job its parts, and returns how to tell those whose
// workers have become others in number.
func (r *Resources) divideLocked() (changed []func()) {
	begun := slices.DeleteFunc(slices.Clone(r.shares), func(s *Share) bool { return !s.begun })
	sorting := slices.DeleteFunc(slices.Clone(begun), func(s *Share) bool { return s.opts.ReadOnly })
	parts := func(total int64, shares []*Share, bounds func(*Share) (least, most int64)) []int64 {
		claims := make([]claim, len(shares))
		for i, s := range shares {
			claims[i].weight = s.weight()
			claims[i].least, claims[i].most = bounds(s)
		}
		return divide(total, claims)
	}
	memory := parts(r.memoryQuota()/100*arenasPercent, sorting, func(s *Share) (int64, int64) { return s.leastMemory(), math.MaxInt64 })
	runs := parts(r.runsPool(), sorting, func(*Share) (int64, int64) { return 0, math.MaxInt64 })
	files := parts(r.filesPool(), sorting, func(*Share) (int64, int64) { return 0, math.MaxInt64 })
	runFiles := parts(maxRunFiles, sorting, func(*Share) (int64, int64) { return 1, maxRunFiles })
	for i, s := range sorting {
		s.memoryPart, s.runsPart, s.filesPart, s.runFilesPart = memory[i], runs[i], files[i], runFiles[i]
	}
	set := func(s *Share, workers int64) {
		if s.workers != int(workers) && s.onWorkers != nil {
			changed = append(changed, s.onWorkers)
		}
		s.workers = int(workers)
	}
	// A job that is throttled has hardly any work, so its cores are for others.
	busy := slices.DeleteFunc(slices.Clone(begun), func(s *Share) bool { return s.throttled })
	for _, s := range begun {
		if s.throttled {
			set(s, 1)
		}
	}
	for i, n := range parts(r.cores, busy, func(s *Share) (int64, int64) { return 1, s.workersWithMemory() }) {
		set(busy[i], n)
	}
	return changed
}

// wakeLocked makes those who wait for file bytes look again.
func (r *Resources) wakeLocked() {
	close(r.released)
	r.released = make(chan struct{})
}

// checkLocked asserts that every byte belongs to an open job.
func (r *Resources) checkLocked() {
	if !invariants.Enabled {
		return
	}
	var memory, runs, files int64
	for _, s := range r.shares {
		memory, runs, files = memory+s.memory.now, runs+s.runs, files+s.files
	}
	invariants.Check(r.memory.now == memory, "jobs hold %d bytes of memory, the sum says %d", memory, r.memory.now)
	invariants.Check(r.runs.now == runs && r.files.now == files, "jobs hold %d and %d bytes of runs and files, the sums say %d and %d",
		runs, files, r.runs.now, r.files.now)
	invariants.Check(r.temp.now == runs+files, "jobs hold %d bytes in the temp folder, the sum says %d", runs+files, r.temp.now)
}

// find returns the share of a job that is open.
func (r *Resources) find(jobID int64) *Share {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.shares {
		if s.opts.JobID == jobID {
			return s
		}
	}
	return nil
}
