package ingest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest/distribution"
	"fastddl/internal/invariants"
	"fastddl/internal/remove"
	"fastddl/internal/stage"
	"fastddl/kv"
	"fastddl/lightning"
)

// JobOptions configures a Job.
type JobOptions struct {
	// ID names the job, its folder and its events.
	ID int64
	// Store takes the entries.
	Store kv.Store
	// TempDir is the folder in which the job makes one of its own.
	TempDir string
	// Version is the commit timestamp of all entries.
	Version uint64
	// Indexes are the spaces of keys that are sorted.
	Indexes []KeySpace
	// IsPart says that other jobs import entries of the same indexes.
	IsPart bool
	// Share is the job's part of the resources. The job does not leave it.
	Share *Share
	// Bus receives events; nil drops them.
	Bus *event.Bus

	// Parallel returns the number of key ranges merged at one time, and is asked
	// again and again; nil is one more than there are cores, so that one may wait
	// for the disk.
	Parallel func() int
	// TargetFileBytes is the size at which final files are cut; 0 is 64 MiB.
	TargetFileBytes uint64
	// ImportBatchBytes is the size of finished files at which they are imported before the flush ends; 0 is 512 MiB.
	ImportBatchBytes uint64
	// BeforeImport is called before files are imported, one call at a time; an error of it fails the flush. Nil is not called.
	BeforeImport func(ctx context.Context) error
	// MaxRuns is the number of runs of one index at which the job wants to be
	// flushed; 0 is 128, about as many as the default disk quota holds of four workers.
	// Each merge holds a buffer for each (docs/scale.md says how many memory is enough for).
	// All runs of a job are open files: those of all indexes are bounded by its share of maxRunFiles.
	MaxRuns int
	// FS is the file system of TempDir; nil is the operating system's.
	FS vfs.FS
}

// EnsureDefaults fills in what was left zero.
func (o *JobOptions) EnsureDefaults() {
	if o.Parallel == nil {
		o.Parallel = func() int { return flow.Cores() + 1 }
	}
	if o.MaxRuns == 0 {
		o.MaxRuns = 128
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
}

// Validate lists everything that is wrong with the options.
func (o *JobOptions) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("Store is missing"))
	}
	if o.Share == nil {
		errs = append(errs, errors.New("Share is missing"))
	}
	if o.TempDir == "" {
		errs = append(errs, errors.New("TempDir is missing"))
	}
	if o.Version == 0 {
		errs = append(errs, errors.New("Version is missing"))
	}
	if len(o.Indexes) == 0 {
		errs = append(errs, errors.New("Indexes is empty"))
	}
	if o.MaxRuns < 0 {
		errs = append(errs, fmt.Errorf("MaxRuns is %d", o.MaxRuns))
	}
	if len(errs) > 0 {
		return fmt.Errorf("ingest: invalid options: %w", errors.Join(errs...))
	}
	return nil
}

// Job collects, sorts and ingests the entries of one build.
type Job struct {
	opts    JobOptions
	share   *Share
	path    string
	indexes []jobIndex
	// storeSums says that the store is a kv.Checksummer, so that totals are to be as
	// its are.
	storeSums bool

	makeDir    func() error
	runSeq     atomic.Int64
	needsFlush atomic.Bool
	// mergeable has the next flush sum up distributions that can be merged with others.
	mergeable bool
	// flushing is the size of all keys and values that Flush has to write, and
	// flushed what it has written of it.
	flushing, flushed atomic.Int64

	mu        sync.Mutex
	workers   int   // in use
	memory    int64 // of the buckets and of the runs
	runs      int
	runMemory int64 // of memory
	costs     stage.Costs
	stats     lightning.Stats
}

// jobIndex is what a job holds of one index between two flushes.
type jobIndex struct {
	spec      KeySpace
	splitters *splitters
	buckets   []bucket // by partition
	runs      []*run
	totals    Totals
	cuts      [][]byte // see Cut
	written   []Totals // by interval; what all flushes have handed to the importer
	// imported says that the store has entries of an earlier flush.
	imported bool
	// summaries are the distributions of what the last flush has written, by what the keys of a file share; nil if they are not known.
	summaries map[string]*distribution.Summary
}

// JobDir returns the folder that a job with the given ID uses under tempDir.
func JobDir(tempDir string, id int64) string {
	return filepath.Join(tempDir, "job-"+strconv.FormatInt(id, 10))
}

// RemoveJobDir removes the folder that jobs with the given ID use under tempDir. A process that has worked for the job in it may be about
// to end.
func RemoveJobDir(tempDir string, id int64) error {
	err := remove.Tree(func() error { return os.RemoveAll(JobDir(tempDir, id)) })
	if err != nil {
		return fmt.Errorf("remove files of job %d: %w", id, err)
	}
	return nil
}

// Open begins a job, or begins it again: what an earlier process left in its
// folder is removed. The caller must Close it.
func Open(opts JobOptions) (*Job, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	j := &Job{
		opts:    opts,
		share:   opts.Share,
		path:    JobDir(opts.TempDir, opts.ID),
		indexes: make([]jobIndex, len(opts.Indexes)),
	}
	_, j.storeSums = opts.Store.(kv.Checksummer)
	for i := range j.indexes {
		j.indexes[i].spec, j.indexes[i].imported = opts.Indexes[i], opts.Indexes[i].Imported
		j.indexes[i].buckets = make([]bucket, 1)
		j.indexes[i].written = make([]Totals, 1)
	}
	if err := j.opts.FS.RemoveAll(j.path); err != nil {
		return nil, fmt.Errorf("ingest: empty temp folder of job: %w", err)
	}
	blocks.open()
	j.makeDir = sync.OnceValue(func() error {
		if err := j.opts.FS.MkdirAll(j.path, 0o700); err != nil {
			return fmt.Errorf("ingest: make temp folder of job: %w", err)
		}
		return nil
	})
	return j, nil
}

const (
	maxPartitions = 128
	// minPartitions is what the key space is cut into even if memory is short: the
	// pieces that are merged in parallel are made of partitions.
	minPartitions = 16
	// blocksPerPartition is how many blocks each partition of a worker may have
	// when its memory is full.
	blocksPerPartition = 4
)

// Partition cuts the key space of the i-th index by keys, without the index
// prefix, that stand for all of them. It must be called before there are
// workers. Without it, or with keys that stand for little, the job is slower, and
// no less right.
func (j *Job) Partition(i int, samples [][]byte) {
	perWorker := j.share.memoryLimit() / int64(max(1, j.share.Workers())*len(j.indexes))
	n := min(max(minPartitions, perWorker/(blocksPerPartition*blockSize)), maxPartitions)
	idx := &j.indexes[i]
	idx.splitters = newSplitters(samples, int(n))
	idx.buckets = make([]bucket, idx.splitters.count())
}

// partitions returns the number of partitions of all indexes.
func (j *Job) partitions() (n int64) {
	for i := range j.indexes {
		n += int64(j.indexes[i].splitters.count())
	}
	return n
}

// Totals returns the totals of the i-th index: of what finished workers have
// appended.
func (j *Job) Totals(i int) Totals {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.indexes[i].totals
}

// NeedsFlush reports whether the workers should stop so that Flush can make
// room.
func (j *Job) NeedsFlush() bool { return j.needsFlush.Load() || j.share.runsExceeded() }

// Stats is what a job has done and held.
type Stats struct {
	lightning.Stats
	Costs           stage.Costs
	PeakMemoryBytes int64
	PeakTempBytes   int64
}

// Stats returns what the job has done so far.
func (j *Job) Stats() Stats {
	memory, temp := j.share.peaks()
	j.mu.Lock()
	defer j.mu.Unlock()
	return Stats{Stats: j.stats, Costs: j.costs, PeakMemoryBytes: memory, PeakTempBytes: temp}
}

// Close drops everything that was not flushed and removes the job's folder.
// Workers and flushes have ended before.
func (j *Job) Close() error {
	j.mu.Lock()
	workers := j.workers
	j.mu.Unlock()
	invariants.Check(workers == 0, "a job is closed with %d workers that hold blocks", workers)
	errs := []error{j.drop(), blocks.close()}
	if err := j.opts.FS.RemoveAll(j.path); err != nil {
		errs = append(errs, fmt.Errorf("ingest: remove temp folder of job: %w", err))
	}
	return errors.Join(errs...)
}

// dir returns the job's folder, which it makes at first use: small builds need
// it for the final file only.
func (j *Job) dir() (string, error) { return j.path, j.makeDir() }

// workerMemory returns how many bytes each worker may hold: its part of what those
// that have finished left over, and no more than an arena has room for.
func (j *Job) workerMemory() int64 {
	least := max(int64(len(j.indexes))*workerIndexMemory, j.partitions()*2*blockSize)
	limit := j.share.memoryLimit()
	j.mu.Lock()
	defer j.mu.Unlock()
	return min(max(least, (limit-j.memory)/int64(max(1, j.workers))), maxWorkerMemory)
}

// FlushProgress returns how much of the flush that is going on is done, 0 to 1.
func (j *Job) FlushProgress() float64 {
	total := j.flushing.Load()
	if total == 0 {
		return 0
	}
	return min(1, float64(j.flushed.Load())/float64(total))
}

// runMemoryPart is the part of the job's memory that its runs may take. They take hardly any
// of it, but where keys are long and alike: a few bytes are left of each in a run then, and
// the separators of its blocks are long.
const runMemoryPart = 4

func (j *Job) addRun(i int, r *run) {
	j.share.useMemory(r.memory())
	mostMemory, mostRuns := j.share.memoryLimit()/runMemoryPart, j.share.runFiles()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.indexes[i].runs = append(j.indexes[i].runs, r)
	j.runs++
	j.memory += r.memory()
	j.runMemory += r.memory()
	if len(j.indexes[i].runs) >= j.opts.MaxRuns || j.runs >= mostRuns || j.runMemory >= mostMemory {
		j.needsFlush.Store(true)
	}
}

// takeOver takes the entries and totals of a finished worker.
func (j *Job) takeOver(w *Worker) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range w.indexes {
		for p := range w.indexes[i].partitions {
			if a := &w.indexes[i].partitions[p]; a.count > 0 {
				a.seal()
				j.indexes[i].buckets[p] = append(j.indexes[i].buckets[p], a)
			}
		}
		j.indexes[i].totals.Add(w.indexes[i].totals)
	}
	j.memory += w.memory
	j.workers--
	w.indexes, w.memory = nil, 0
}

// drop releases all entries and runs.
func (j *Job) drop() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for i := range j.indexes {
		idx := &j.indexes[i]
		for _, b := range idx.buckets {
			for _, a := range b {
				a.release()
			}
		}
		clear(idx.buckets)
		for _, r := range idx.runs {
			if err := r.remove(); err != nil {
				errs = append(errs, fmt.Errorf("ingest: remove run: %w", err))
			}
			j.share.releaseRuns(r.bytes)
		}
		idx.runs = nil
	}
	j.share.useMemory(-j.memory)
	j.memory, j.runMemory, j.runs = 0, 0, 0
	j.needsFlush.Store(false)
	return errors.Join(errs...)
}

// Flush merges everything the finished workers have appended, imports it, and
// drops it. When it returns nil, all entries are durable in the store; after an
// error some may be, and the job can only be closed. It fails with a
// *DuplicateError if a unique index has equal keys, among these entries or with
// those of earlier flushes.
func (j *Job) Flush(ctx context.Context) error {
	if err := j.flush(ctx); err != nil {
		return err
	}
	return j.drop()
}
