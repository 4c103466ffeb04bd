package lightning

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"fastddl/event"
	"fastddl/internal/errs"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

// Stats is what an importer has done.
type Stats struct {
	// Files, Pairs and Bytes count what was imported; Bytes are on disk.
	Files int
	Pairs int64
	Bytes uint64
	// Imports is the number of calls that linked files into the store, and
	// ImportTime the time they took.
	Imports    int
	ImportTime time.Duration
}

// Importer collects finished files and imports them. All methods may be called
// concurrently.
type Importer struct {
	opts Options

	// importing serialises imports: the store takes one at a time anyway, and a
	// writer that waits for quota needs to know that all earlier files are gone.
	importing sync.Mutex

	mu           sync.Mutex
	pending      []kv.ImportUnit
	pendingBytes uint64
	waiting      int // writers that wait for quota
	stats        Stats
}

// NewImporter returns an importer; the caller must Close it.
func NewImporter(opts Options) (*Importer, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return &Importer{opts: opts}, nil
}

// Stats returns what has been imported so far.
func (im *Importer) Stats() Stats {
	im.mu.Lock()
	defer im.mu.Unlock()
	return im.stats
}

// add takes over a finished unit whose size has been acquired from the quota,
// and imports when the batch is large enough or a writer waits for the quota that
// finished units hold.
func (im *Importer) add(ctx context.Context, unit kv.ImportUnit) error {
	im.mu.Lock()
	im.pending = append(im.pending, unit)
	im.pendingBytes += unit.Size()
	full := im.pendingBytes >= im.opts.ImportBatchBytes || im.waiting > 0
	im.mu.Unlock()
	if full {
		return im.Flush(ctx)
	}
	return nil
}

// acquire acquires n bytes of quota. When there are none, finished files make
// room: those there are now, and by add those that come while it waits.
func (im *Importer) acquire(ctx context.Context, n int64) error {
	if im.opts.Quota.TryAcquire(n) {
		return nil
	}
	im.wait(1)
	defer im.wait(-1)
	if err := im.Flush(ctx); err != nil {
		return err
	}
	if err := im.opts.Quota.Acquire(ctx, n); err != nil {
		return fmt.Errorf("lightning: wait for disk quota: %w", err)
	}
	return nil
}

func (im *Importer) wait(n int) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.waiting += n
}

// Flush imports all finished files. When it returns nil, every pair of every
// writer closed before the call is durable in the store.
func (im *Importer) Flush(ctx context.Context) error {
	im.importing.Lock()
	defer im.importing.Unlock()

	im.mu.Lock()
	units := im.pending
	im.pending, im.pendingBytes = nil, 0
	im.mu.Unlock()
	if len(units) == 0 {
		return nil
	}

	start := time.Now()
	err := im.opts.BeforeImport(ctx)
	if err == nil {
		err = im.importWithRetry(ctx, units)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("lightning: import %d files: %w", len(units), err), im.discard(units))
	}
	elapsed := time.Since(start)

	var bytes uint64
	var pairs int64
	for _, u := range units {
		bytes += u.Size()
		pairs += int64(u.Count())
	}
	im.opts.Quota.Release(int64(bytes))

	im.mu.Lock()
	im.stats.Files += len(units)
	im.stats.Pairs += pairs
	im.stats.Bytes += bytes
	im.stats.Imports++
	im.stats.ImportTime += elapsed
	im.mu.Unlock()
	im.opts.Bus.Emit(event.Ingested{Job: event.Job{ID: im.opts.JobID}, Files: len(units), Bytes: bytes, Elapsed: elapsed})
	return nil
}

// An import that has found no room is tried again after minRoomPause, then after twice as long
// each time, up to maxRoomPause: what a cluster was sent before it said so may stay there.
const minRoomPause, maxRoomPause = time.Second, time.Minute

// importWithRetry imports, and waits for room in the store as long as it takes: what was sorted
// need not be read anew then.
func (im *Importer) importWithRetry(ctx context.Context, units []kv.ImportUnit) error {
	attempt, roomPause := 1, minRoomPause
	defer im.opts.NoRoom(nil)
	for {
		if err := errors.Join(ctx.Err(), kv.CheckPermit(ctx)); err != nil {
			return err
		}
		err := im.importOnce(ctx, units)
		full := errors.Is(err, kv.ErrDiskFull)
		if err == nil || !full && (!Retryable(err) || attempt >= im.opts.MaxAttempts) {
			return err
		}
		im.opts.Bus.Emit(event.Retry{Job: event.Job{ID: im.opts.JobID}, Op: "import", Attempt: attempt, Err: err})
		pause := im.opts.Backoff(attempt)
		if full {
			im.opts.NoRoom(err)
			pause, roomPause = roomPause, min(2*roomPause, maxRoomPause)
		} else {
			attempt++
		}
		if !sleep.For(ctx, pause) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

// importOnce imports on a goroutine of its own: the caller may be on a thread of
// low priority, and while the store imports it delays all commits.
func (im *Importer) importOnce(ctx context.Context, units []kv.ImportUnit) error {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer errs.Contain(&err)
		err = im.opts.Store.Import(ctx, units)
	}()
	return <-done
}

// discard removes the files of units and gives their bytes back.
func (im *Importer) discard(units []kv.ImportUnit) error {
	var errs []error
	for _, u := range units {
		im.opts.Quota.Release(int64(u.Size()))
		if err := u.Discard(); err != nil {
			errs = append(errs, fmt.Errorf("discard %s: %w", u.Range(), err))
		}
	}
	return errors.Join(errs...)
}

// Close removes all files that were not imported. It does not wait for
// writers: they are closed before.
func (im *Importer) Close() error {
	im.importing.Lock()
	defer im.importing.Unlock()
	im.mu.Lock()
	units := im.pending
	im.pending, im.pendingBytes = nil, 0
	im.mu.Unlock()
	if err := im.discard(units); err != nil {
		return fmt.Errorf("lightning: close: %w", err)
	}
	return nil
}

// Retryable reports whether an import that failed with err may succeed when it
// is simply tried again. A full disk has to be made room on, a missing or damaged file never comes back, a closed store does
// not open again, a caller that gave up does not want it, and after a panic the state is
// unknown.
func Retryable(err error) bool {
	var panicked *errs.PanicError
	var damaged *kv.DamagedUnitError
	if errors.As(err, &panicked) || errors.As(err, &damaged) {
		return false
	}
	for _, final := range []error{
		context.Canceled, context.DeadlineExceeded,
		kv.ErrDiskFull, kv.ErrClosed, kv.ErrSnapshotTooOld,
		os.ErrNotExist, os.ErrPermission,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return err != nil
}
