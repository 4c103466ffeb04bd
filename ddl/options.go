package ddl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fastddl/catalog"
	"fastddl/config"
	"fastddl/ddl/mdl"
	"fastddl/event"
)

// Options configures the DDL component.
type Options struct {
	// Catalog is where schemas and jobs are stored.
	Catalog *catalog.Catalog
	// Locks are the metadata locks of all transactions.
	Locks *mdl.Manager
	// Globals are the system variables; nil is their defaults.
	Globals *config.Globals
	// Bus receives events; nil makes one.
	Bus *event.Bus
	// Backfiller builds indexes.
	Backfiller Backfiller
	// TempDir is the folder index builds use. What jobs that have ended left in
	// it is removed on Start.
	TempDir string
	// Owner names this node in ADMIN SHOW DDL; empty is "fastddl".
	Owner string

	// HoldTTL is how long garbage collection is held for a job whose node has
	// died; 0 is one hour.
	HoldTTL time.Duration
	// CleanInterval is how often the delete ranges are looked at while the GC
	// safe point has not passed them; 0 is 10 seconds.
	CleanInterval time.Duration
	// Hook, if set, is called before and after each action of a job. If it fails
	// the job stops as if the process had died there. For tests.
	Hook func(ctx context.Context, p HookPoint) error
}

// HookPoint is a place in the life of a job.
type HookPoint struct {
	JobID int64
	// When is "before" or "after".
	When string
	// Action is the action, and Step the step the job has when it is done; see
	// package job.
	Action, Step string
}

func (p HookPoint) String() string { return fmt.Sprintf("%s %s %s", p.When, p.Action, p.Step) }

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.Globals == nil {
		o.Globals = config.NewGlobals()
	}
	if o.Bus == nil {
		o.Bus = new(event.Bus)
	}
	if o.Owner == "" {
		o.Owner = "fastddl"
	}
	if o.HoldTTL == 0 {
		o.HoldTTL = time.Hour
	}
	if o.CleanInterval == 0 {
		o.CleanInterval = 10 * time.Second
	}
	if o.Hook == nil {
		o.Hook = func(context.Context, HookPoint) error { return nil }
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.Catalog == nil {
		errs = append(errs, errors.New("Catalog is missing"))
	}
	if o.Locks == nil {
		errs = append(errs, errors.New("Locks is missing"))
	}
	if o.Backfiller == nil {
		errs = append(errs, errors.New("Backfiller is missing"))
	}
	if o.TempDir == "" {
		errs = append(errs, errors.New("TempDir is missing"))
	}
	if o.HoldTTL < 0 || o.CleanInterval < 0 {
		errs = append(errs, errors.New("HoldTTL and CleanInterval must not be negative"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("ddl: invalid options: %w", errors.Join(errs...))
	}
	return nil
}
