package ingest

import (
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/config"
	"fastddl/flow"
)

// Outlook is what a job would have of the resources if it began now, and all those that are open went on.
type Outlook struct {
	// Jobs is how many others are open, Waiting how many of them wait for memory.
	Jobs, Waiting int
	// Workers is the job's part of the workers, Mergers how many pieces are merged at a time.
	Workers, Mergers int
	// MemoryPart is what the job may hold of MemoryQuota, and LeastMemory what it must be able to hold.
	MemoryPart, MemoryQuota, LeastMemory int64
	// RunsPart and FilesPart are what it may have in the temp folder, RunFiles how many runs.
	RunsPart, FilesPart int64
	RunFiles            int
	// WriteSpeed is what it may write in bytes per second; 0 is no limit. WriteLimit names the limit.
	WriteSpeed int64
	WriteLimit string
	// Flow is the governor's decision.
	Flow flow.Decision
}

// Outlook returns what a job would have. The temp folder is on a disk of the given usage; nil is not known. It changes
// nothing that jobs have.
func (r *Resources) Outlook(opts ShareOptions, disk *vfs.DiskUsage) Outlook {
	opts.Indexes = max(1, opts.Indexes)
	s := &Share{r: r, opts: opts}
	decision := r.governor.Outlook()
	r.mu.Lock()
	defer r.mu.Unlock()
	speed, limit := s.speedBesideLocked()
	o := Outlook{
		Jobs: len(r.shares), Mergers: int(r.cores) + 1, MemoryQuota: r.memoryQuota(), LeastMemory: s.leastMemory(),
		WriteSpeed: speed, Flow: decision,
	}
	if speed > 0 {
		o.WriteLimit = limit
	}
	for _, other := range r.shares {
		if !other.begun {
			o.Waiting++
		}
	}
	all := append(slices.Clone(r.shares), s)
	sorting := slices.DeleteFunc(slices.Clone(all), func(x *Share) bool { return x.opts.ReadOnly })
	part := func(total int64, shares []*Share, bounds func(*Share) (least, most int64)) int64 {
		claims := make([]claim, len(shares))
		for i, x := range shares {
			claims[i].weight = x.weight()
			claims[i].least, claims[i].most = bounds(x)
		}
		return divide(total, claims)[len(claims)-1] // s is the last
	}
	free := func(*Share) (int64, int64) { return 0, math.MaxInt64 }
	runs, files := r.runsPool(), r.filesPool()
	if disk != nil {
		now := room{measured: roomOn(*disk) + r.temp.now, refused: r.room.refused, until: r.room.until}
		bytes := now.bytes()
		runs, files = min(runs, bytes/100*runsRoomPercent), min(files, bytes/100*filesRoomPercent)
	}
	s.memoryPart = part(r.memoryQuota()/100*arenasPercent, sorting, func(x *Share) (int64, int64) { return x.leastMemory(), math.MaxInt64 })
	o.MemoryPart = max(o.LeastMemory, s.memoryPart)
	o.RunsPart, o.FilesPart = part(runs, sorting, free), part(files, sorting, free)
	o.RunFiles = int(part(maxRunFiles, sorting, func(*Share) (int64, int64) { return 1, maxRunFiles }))
	busy := slices.DeleteFunc(all, func(x *Share) bool { return x.throttled })
	o.Workers = int(part(r.cores, busy, func(x *Share) (int64, int64) {
		if x != s && !x.begun {
			return 1, max(1, x.maxWorkers())
		}
		return 1, x.workersWithMemory()
	}))
	return o
}

// speedBesideLocked is writeSpeed for a job that is not open yet.
func (s *Share) speedBesideLocked() (speed int64, limit string) {
	own, node := s.opts.Settings.Get().WriteSpeed, s.r.writes.Limit()
	if node == 0 {
		return own, ownSpeed
	}
	weight, now := s.weight(), time.Now()
	for _, other := range s.r.shares {
		if other.throttle.Active(now) {
			weight += other.weight()
		}
	}
	part := max(1, node/max(1, weight)*s.weight())
	if own > 0 && own < part {
		return own, ownSpeed
	}
	return part, config.ReorgMaxWriteSpeed
}

// Volume is how much one index has to sort.
type Volume struct {
	// Entries is their number, Bytes the length of their keys and values, RunBytes what they have in sorted runs, and
	// FileBytes in final files.
	Entries, Bytes, RunBytes, FileBytes int64
	// Targets is under how many prefixes of keys they lie: one for each partition of the table; 0 is 1.
	Targets int64
}

// part returns one of n equal parts of the volume.
func (v Volume) part(n int64) Volume {
	return Volume{Entries: v.Entries / n, Bytes: v.Bytes / n, RunBytes: v.RunBytes / n, FileBytes: v.FileBytes / n, Targets: (v.targets() + n - 1) / n}
}

func (v *Volume) targets() int64 { return max(1, v.Targets) }

// Forecast is what a job is going to hold.
type Forecast struct {
	// MemoryBytes and TempBytes are peaks. SpilledBytes is written to runs, over all rounds.
	MemoryBytes, TempBytes, SpilledBytes int64
	// Rounds is how often the job scans a part, sorts and imports it.
	Rounds int
	// Short says that there is not enough memory for the least that the job must hold.
	Short bool
}

const (
	// importBatch is how many bytes of final files wait before they are imported (lightning's default), and openFile how large
	// one of those is that are being written.
	importBatch, openFile = 512 << 20, 64 << 20
	// arenaLengths is what an arena holds of the lengths of an entry.
	arenaLengths = 2
	// fileUnit is the unit in which files that are being written acquire room, acquiredPercent what of it they do not need as a rule.
	fileUnit, acquiredPercent = 1 << 20, 80
	// sampledKeys is by how many keys an index is cut into partitions; of several targets each has at least
	// leastSampledKeys, of which distinctPercent cut.
	sampledKeys, leastSampledKeys, distinctPercent = 1600, 50, 70
	mostRuns                                       = 128 // of an index, JobOptions.MaxRuns
)

// reserved is what the arenas of an index hold. Each partition of each worker has a block that is half full; in a table of several
// partitions a target is the work of one worker.
func (v *Volume) reserved(workers, partitions int64) int64 {
	targets := v.targets()
	arenas := workers * partitions
	if targets > 1 {
		arenas = targets * min(partitions, max(leastSampledKeys, sampledKeys/targets)*distinctPercent/100)
	}
	arenas = max(1, min(arenas, v.Entries/64))
	if v.Entries == 0 {
		return 0
	}
	return max(v.Bytes+arenaLengths*v.Entries+arenas*blockSize/2, arenas*blockSize)
}

// Forecast returns what a job with such indexes will hold that sorts one of so many groups of partitions after the other.
func (o *Outlook) Forecast(indexes []Volume, groups int) Forecast {
	n := int64(max(1, groups))
	inGroup := make([]Volume, len(indexes))
	for i, v := range indexes {
		inGroup[i] = v.part(n)
	}
	f := o.forecast(inGroup)
	f.SpilledBytes *= n
	return f
}

// forecast is Forecast of one group.
func (o *Outlook) forecast(indexes []Volume) Forecast {
	workers := int64(max(1, o.Workers))
	var held, runBytes, files, sorting, targets int64
	for _, v := range indexes {
		targets += v.targets()
	}
	partitions := min(max(minPartitions, o.MemoryPart/workers/max(1, targets)/(blocksPerPartition*blockSize)), maxPartitions)
	for _, v := range indexes {
		held += v.reserved(workers, partitions)
		sorting = max(sorting, min(v.Entries, v.Entries/partitions*int64(max(1, o.Mergers)))*2*entrySize)
		runBytes += v.RunBytes
		files += v.FileBytes
	}
	f := Forecast{Rounds: 1, Short: o.LeastMemory > o.MemoryQuota/100*arenasPercent}
	mergers := int64(max(1, o.Mergers))
	pendingFiles := func(n int64) int64 {
		if n == 0 {
			return 0
		}
		acquired := min(mergers, n/fileUnit+1) * fileUnit / 100 * acquiredPercent
		return min(n+acquired, importBatch+mergers*openFile, max(o.FilesPart, openFile))
	}
	limit := max(o.LeastMemory, min(o.MemoryPart, workers*maxWorkerMemory))
	if held+sorting <= limit {
		f.MemoryBytes, f.TempBytes = held+sorting, pendingFiles(files)
		return f
	}
	f.MemoryBytes = limit
	// What is in memory when the scan ends is not spilled: about half of what it holds.
	part := 1 - float64(limit)/2/float64(held+sorting)
	f.SpilledBytes = int64(part * float64(runBytes))
	rounds := math.Ceil(float64(f.SpilledBytes) / float64(max(1, o.RunsPart)))
	perRun := float64(limit) / float64(workers)
	runs := math.Ceil(float64(held) / max(1, perRun)) // of each index
	rounds = max(rounds, math.Ceil(runs/mostRuns), math.Ceil(runs*float64(len(indexes))/float64(max(1, o.RunFiles))), 1)
	f.Rounds = int(min(rounds, math.MaxInt32))
	inRound := int64(float64(f.SpilledBytes) / rounds)
	f.TempBytes = min(inRound, max(o.RunsPart, 0)) + pendingFiles(int64(float64(files)/rounds))
	return f
}
