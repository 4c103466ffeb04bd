package ddl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"fastddl/catalog"
	"fastddl/ddl/job"
	"fastddl/ingest"
	"fastddl/kv"
)

// ErrClosed is returned for statements that a shutdown has interrupted. Their
// jobs go on after the next start. It is a kv.ErrClosed, so that clients get the
// same number for both.
var ErrClosed = fmt.Errorf("ddl: server is shutting down: %w", kv.ErrClosed)

// DDL executes DDL statements. All methods may be called concurrently.
type DDL struct {
	opts  Options
	cat   *catalog.Catalog
	clean *cleaner

	// term is that of the ownership; Start sets it.
	term int64

	// ctx ends with Close, or when another process has become the owner.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	workers sync.WaitGroup

	unsubscribe func()
	// views holds the *view of each job in the queue, by ID. It has no lock in
	// common with the jobs, because events arrive while those are held.
	views sync.Map

	// submitMu makes jobs enter the queue in the order of their IDs. It is taken
	// before mu.
	submitMu sync.Mutex
	// usedID is the ID of the last job of which it was not known whether it was
	// queued: to the store it may be free. It is guarded by submitMu.
	usedID int64
	// mu guards the fields below. It is taken before a task's.
	mu sync.Mutex
	// queue holds the jobs that have not ended, in order of ID.
	queue   []*task
	started bool
	closed  bool
}

// New returns a DDL component that is not started.
func New(opts Options) (*DDL, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	d := &DDL{opts: opts, cat: opts.Catalog}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	d.clean = newCleaner(d)
	return d, nil
}

// Start makes this component the one that runs the store's jobs, loads the
// queue, clears away what an earlier process left behind, and goes on with the
// jobs.
func (d *DDL) Start(ctx context.Context) error {
	if err := d.takeOwnership(ctx); err != nil {
		return err
	}
	jobs, err := loadQueue(ctx, d.cat)
	if err != nil {
		return fmt.Errorf("load DDL jobs: %w", err)
	}
	live := make(map[int64]bool, len(jobs))
	for _, j := range jobs {
		live[j.ID] = true
	}
	if err := d.removeLeftovers(ctx, live); err != nil {
		return err
	}
	d.unsubscribe = d.opts.Bus.Subscribe(d.onEvent)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range jobs {
		d.queue = append(d.queue, newTask(d, j))
	}
	d.started = true
	d.workers.Go(func() { d.clean.run(d.ctx) })
	d.scheduleLocked()
	return nil
}

// Close stops all jobs where they are and waits for that. They go on after the
// next Start on the same store.
func (d *DDL) Close() error {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.cancel(ErrClosed)
	d.workers.Wait()
	if d.unsubscribe != nil {
		d.unsubscribe()
	}
	return nil
}

// Owner describes the node that runs the jobs, for ADMIN SHOW DDL.
type Owner struct {
	ID, Address   string
	SchemaVersion int64
	// RunningJobs are the IDs of the jobs that run now.
	RunningJobs []int64
}

// Owner returns the node that runs the jobs.
func (d *DDL) Owner() Owner {
	o := Owner{ID: d.opts.Owner, Address: d.opts.Owner, SchemaVersion: d.cat.Current().Version()}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.queue {
		if t.running {
			o.RunningJobs = append(o.RunningJobs, t.id)
		}
	}
	return o
}

// scheduleLocked starts a worker for every job that may run and does not.
func (d *DDL) scheduleLocked() {
	if d.closed || !d.started {
		return
	}
	jobs := make([]*job.Job, len(d.queue))
	byID := make(map[int64]*task, len(d.queue))
	for i, t := range d.queue {
		jobs[i] = t.snapshot()
		byID[t.id] = t
	}
	for _, j := range job.Runnable(jobs) {
		t := byID[j.ID]
		if t.running {
			continue
		}
		t.running = true
		d.workers.Go(func() { t.run(d.ctx) })
	}
}

// ended takes a job that has ended, or whose worker has stopped for good, off
// the queue.
func (d *DDL) ended(t *task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = slices.DeleteFunc(d.queue, func(x *task) bool { return x == t })
	d.views.Delete(t.id)
	d.scheduleLocked()
}

// find returns the job with the given ID if it has not ended.
func (d *DDL) find(id int64) *task {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.queue {
		if t.id == id {
			return t
		}
	}
	return nil
}

// tasks returns the jobs that have not ended, in order of ID.
func (d *DDL) tasks() []*task {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.queue)
}

// removeLeftovers removes the files and the GC holds of jobs that are not in the
// queue: those of a job whose end was recorded before everything of it was gone.
func (d *DDL) removeLeftovers(ctx context.Context, live map[int64]bool) error {
	entries, err := os.ReadDir(d.opts.TempDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read temp folder: %w", err)
	}
	for _, e := range entries {
		id, ok := jobOfDir(e.Name())
		if !ok || live[id] {
			continue
		}
		if err := d.removeFiles(id); err != nil {
			return err
		}
	}
	return d.releaseHolds(ctx, func(jobID, _ int64) bool { return live[jobID] })
}

// jobOfDir returns the job that a folder in the temp folder belongs to.
func jobOfDir(name string) (int64, bool) {
	id, ok := parseID(name[strings.LastIndexByte(name, '-')+1:])
	return id, ok && filepath.Base(ingest.JobDir("", id)) == name
}

func parseID(digits string) (int64, bool) {
	id, err := strconv.ParseInt(digits, 10, 64)
	return id, err == nil
}
