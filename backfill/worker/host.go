package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/backfill/encode"
	"fastddl/config"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

const (
	// MinBytes is the size of rows, by the store's estimate, from which on a build is done by a worker beside statements: the start of
	// one takes about as long as reading so much.
	MinBytes = 32 << 20
	// silence is how long a worker may send nothing. It sends its progress five times a second, but it may be stopped, or get no
	// processor.
	silence = 2 * time.Minute
	// maxLosses is how many workers of a job in a row may end without having saved anything, before the server does the work by itself.
	maxLosses = 3
	// limitsInterval is how often what the worker may use is looked at.
	limitsInterval = 100 * time.Millisecond
)

// Options configures a Host.
type Options struct {
	// Store is what builds are of.
	Store Store
	// MemTableBytes is the size of its memtables.
	MemTableBytes int64
	// Globals are the system variables.
	Globals *config.Globals
	// Foreground says whether statements run.
	Foreground func() bool
	// Start starts a process that serves the other end of the connection.
	Start func() (Process, net.Conn, error)
	// Logger receives what no event says; nil drops it.
	Logger *zap.Logger
	// Silence is how long a worker may send nothing before it is ended; 0 is two minutes.
	Silence time.Duration
}

// Store is an embedded store. A Snapshot of it waits for all transactions that can commit at or below its timestamp.
type Store interface {
	kv.Store
	// CheckpointOf is that of pebblekv.Store.
	CheckpointOf(ctx context.Context, opts pebblekv.CheckpointOptions) (*pebblekv.Checkpoint, error)
	// Unit is that of pebblekv.Store.
	Unit(f pebblekv.UnitFile) (kv.ImportUnit, error)
}

// Process is a worker's process.
type Process interface {
	// Kill ends it at once, if it has not ended. It may be called more than once.
	Kill()
	// Wait waits for the end, which must come, and returns how it ended.
	Wait() Exit
	// YieldsBy says by what the kernel keeps it behind others, for the log.
	YieldsBy() string
	// Share returns the part of the time, above 0, up to 1, that so many threads of it may run: in a container with a quota of processor
	// time the kernel would else stop the server with it. It is called ten times a second, one call at a time.
	Share(workers int) float64
}

// Exit is how a process has ended.
type Exit struct {
	// Err is nil if it has ended by itself, without an error.
	Err error
	// OutOfMemory says that it was ended for lack of memory.
	OutOfMemory bool
	// Output is the first line of what it has written to standard error.
	Output string
}

// Host does parts of builds in worker processes. It implements backfill.Ingester.
type Host struct {
	opts Options

	mu sync.Mutex
	// starved are the jobs whose workers have died of memory, with how often, and losses those whose workers have ended before they saved
	// anything, with how often in a row.
	starved, losses map[int64]int
}

// NewHost returns a host of workers.
func NewHost(opts Options) *Host {
	if opts.Logger == nil {
		opts.Logger = zap.NewNop()
	}
	if opts.Silence == 0 {
		opts.Silence = silence
	}
	return &Host{opts: opts, starved: make(map[int64]int), losses: make(map[int64]int)}
}

// LostError says that a worker has ended before its work. What it has saved is where the next attempt begins.
type LostError struct {
	JobID int64
	Exit  Exit
	// Err is what was met on the connection.
	Err error
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("worker: the process that built entries for job %d has ended: %v", e.JobID, e.Err)
	if e.Exit.Err != nil {
		text += ": " + e.Exit.Err.Error()
	}
	if e.Exit.Output != "" {
		text += ": " + e.Exit.Output
	}
	return text
}

// Unwrap returns what was met on the connection.
func (e *LostError) Unwrap() error { return e.Err }

// MemoryError says that the workers of a job have died of lack of memory twice, the second time with half of what they had.
type MemoryError struct {
	JobID int64
	// Quota is the memory for sorting that the last one had, in bytes.
	Quota int64
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("worker: the process that built entries for job %d was ended for lack of memory twice, the second time with %d MiB for sorting: "+
		"give the machine more, or lower %s or memory-limit", e.JobID, e.Quota>>20, config.MemoryQuota)
}

// Takes implements backfill.Ingester. By fastddl_ddl_worker AUTO, a worker does builds of at least MinBytes beside statements: on a
// quiet server another process only costs.
func (h *Host) Takes(w backfill.IngestWork) bool {
	if w.Options.FS != nil {
		return false // it is in this process only
	}
	switch h.opts.Globals.Get(config.Worker) {
	case config.WorkerOn:
		return true
	case config.WorkerOff:
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.losses[w.JobID] < maxLosses && w.Bytes >= MinBytes && h.opts.Foreground()
}

// Ingest implements backfill.Ingester.
func (h *Host) Ingest(ctx context.Context, w backfill.IngestWork) (checkpoint []byte, done backfill.IngestCosts, err error) {
	defer errs.Contain(&err)
	tempDir := w.Options.TempDir
	defer func() { err = errs.Combine(err, ingest.RemoveJobDir(tempDir, w.JobID)) }()
	// The worker of a server that has died may not have noticed that yet: the files of each have names of their own.
	w.Options.TempDir = filepath.Join(ingest.JobDir(tempDir, w.JobID), rand.Text())
	c, err := h.checkpoint(ctx, w)
	switch {
	case err == nil:
	case ctx.Err() != nil, errors.Is(err, kv.ErrSnapshotTooOld):
		return nil, done, err
	default:
		return nil, done, h.notStarted(w.JobID, fmt.Errorf("make a checkpoint of the table: %w", err))
	}
	defer func() { err = errs.Combine(err, c.Discard()) }()
	elsewhere := w.Share.BeginElsewhere()
	defer elsewhere.End()
	first, err := newStart(w, c.Dir, h.opts.MemTableBytes, h.limits(w))
	if err != nil {
		return nil, done, err
	}
	process, conn, err := h.opts.Start()
	if err != nil {
		return nil, done, h.notStarted(w.JobID, fmt.Errorf("start the process: %w", err))
	}
	s := &session{host: h, work: w, elsewhere: elsewhere, stream: newStream(conn), process: process, dir: ingest.JobDir(w.Options.TempDir, w.JobID)}
	d, err := s.run(ctx, first)
	switch lost := (*LostError)(nil); {
	case err == nil:
	case errors.As(err, &lost) && !s.begun && !lost.Exit.OutOfMemory:
		return nil, done, h.notStarted(w.JobID, err)
	default:
		return nil, done, h.lost(w.JobID, first.Limits, err)
	}
	h.forget(w.JobID)
	return d.Checkpoint, d.Costs, d.Err.err(w.Table)
}

// notStarted has the build go on in the server.
func (h *Host) notStarted(jobID int64, err error) error {
	h.opts.Logger.Warn("an index build goes on in the server, because it could not be begun in a process of its own", zap.Int64("job", jobID), zap.Error(err))
	return fmt.Errorf("%w: %w", backfill.ErrNotStarted, err)
}

// checkpoint makes a checkpoint of the table, which has all commits at or below the snapshot.
func (h *Host) checkpoint(ctx context.Context, w backfill.IngestWork) (*pebblekv.Checkpoint, error) {
	snap, err := h.opts.Store.Snapshot(ctx, w.TS) // waits for them
	if err != nil {
		return nil, err
	}
	var spans []kv.KeyRange
	for _, id := range append(encode.PhysicalIDs(w.Table), w.Table.ID) { // which has global indexes
		spans = append(spans, encode.TableRange(id))
	}
	// The worker of a server that has died may not have noticed that yet: each checkpoint has a folder of its own.
	name := fmt.Sprintf("job-%d-%s", w.JobID, rand.Text())
	c, err := h.opts.Store.CheckpointOf(ctx, pebblekv.CheckpointOptions{Name: name, Spans: spans, LinksOnly: true})
	if closed := snap.Close(); closed != nil && err == nil {
		return nil, errs.Combine(closed, c.Discard())
	}
	return c, err
}

// limits are what a build may use now. One whose worker has died of memory has half.
func (h *Host) limits(w backfill.IngestWork) limits {
	l := limits{Parts: w.Share.Parts(), CheckpointInterval: h.opts.Globals.Duration(config.CheckpointInterval)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.starved[w.JobID] > 0 {
		l.Parts.MemoryQuota /= 2
	}
	return l
}

// lost is the error of a build whose worker has ended before its work.
func (h *Host) lost(jobID int64, had limits, err error) error {
	var lost *LostError
	if !errors.As(err, &lost) {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.losses[jobID]++
	if !lost.Exit.OutOfMemory {
		return err
	}
	if h.starved[jobID]++; h.starved[jobID] > 1 {
		delete(h.starved, jobID)
		return &MemoryError{JobID: jobID, Quota: had.Parts.MemoryQuota}
	}
	return err
}

// saved says that a worker of a job has saved a checkpoint.
func (h *Host) saved(jobID int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.losses, jobID)
}

// forget forgets how often workers of a job have ended early.
func (h *Host) forget(jobID int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.starved, jobID)
	delete(h.losses, jobID)
}
