package lightning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fastddl/event"
	"fastddl/internal/backoff"
	"fastddl/kv"
)

// Quota bounds the bytes that the files of all imports occupy on disk.
type Quota interface {
	// TryAcquire takes n bytes and reports whether there were that many.
	TryAcquire(n int64) bool
	// Acquire takes n bytes and waits until they are there.
	Acquire(ctx context.Context, n int64) error
	// Overdraw takes n bytes even if there are not that many: for bytes that are
	// on disk already.
	Overdraw(n int64)
	// Release gives n bytes back.
	Release(n int64)
}

// Limiter bounds the speed of writing.
type Limiter interface {
	// Wait blocks until n more bytes may be written.
	Wait(ctx context.Context, n int) error
}

// Options configures an Importer.
type Options struct {
	// Store takes the files.
	Store kv.Store
	// Dir is an existing folder for files until the store has taken them.
	Dir string
	// Version is the commit timestamp of every pair.
	Version uint64
	// Overlaps says that the store may have imported pairs between these.
	Overlaps bool
	// JobID names the job in events.
	JobID int64
	// Bus receives events; nil drops them.
	Bus *event.Bus

	// TargetFileBytes is the size at which a file is cut; 0 is 64 MiB.
	TargetFileBytes uint64
	// ImportBatchBytes is the size of finished files at which they are imported
	// without waiting for Flush; 0 is 512 MiB.
	ImportBatchBytes uint64
	// Quota is asked for every byte on disk; nil is no limit.
	Quota Quota
	// Limiter is asked for every byte of keys and values; nil is no limit.
	Limiter Limiter
	// BeforeImport is called before files are imported, one call at a time; an error of it fails the import. Nil is not called.
	BeforeImport func(ctx context.Context) error
	// NoRoom is called with the error of a store that has no room for the files, after each
	// attempt, and with nil when that is over; nil is not called.
	NoRoom func(why error)
	// MaxAttempts is how often an import is tried; 0 is 6. Attempts that have found no room
	// are not counted: that is waited for.
	MaxAttempts int
	// Backoff is the pause after the given failed attempt, counted from 1; nil
	// doubles from 50 ms to 2 s.
	Backoff func(attempt int) time.Duration
}

const (
	defaultTargetFileBytes  = 64 << 20
	defaultImportBatchBytes = 512 << 20
	defaultMaxAttempts      = 6
)

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.TargetFileBytes == 0 {
		o.TargetFileBytes = defaultTargetFileBytes
	}
	if o.ImportBatchBytes == 0 {
		o.ImportBatchBytes = defaultImportBatchBytes
	}
	if o.Quota == nil {
		o.Quota = unlimited{}
	}
	if o.Limiter == nil {
		o.Limiter = unlimited{}
	}
	if o.BeforeImport == nil {
		o.BeforeImport = func(context.Context) error { return nil }
	}
	if o.NoRoom == nil {
		o.NoRoom = func(error) {}
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = defaultMaxAttempts
	}
	if o.Backoff == nil {
		o.Backoff = exponentialBackoff
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.Store == nil {
		errs = append(errs, errors.New("Store is missing"))
	}
	if o.Dir == "" {
		errs = append(errs, errors.New("Dir is missing"))
	}
	if o.Version == 0 {
		errs = append(errs, errors.New("Version is missing"))
	}
	if o.MaxAttempts < 0 {
		errs = append(errs, fmt.Errorf("MaxAttempts is %d", o.MaxAttempts))
	}
	if len(errs) > 0 {
		return fmt.Errorf("lightning: invalid options: %w", errors.Join(errs...))
	}
	return nil
}

func exponentialBackoff(attempt int) time.Duration {
	return backoff.Exponential(attempt, 50*time.Millisecond, 2*time.Second)
}

// unlimited is the quota and limiter of an importer without limits.
type unlimited struct{}

func (unlimited) TryAcquire(int64) bool                { return true }
func (unlimited) Acquire(context.Context, int64) error { return nil }
func (unlimited) Overdraw(int64)                       {}
func (unlimited) Release(int64)                        {}
func (unlimited) Wait(context.Context, int) error      { return nil }
