package execution

import (
	"errors"
	"fmt"

	"fastddl/config"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/kv"
)

// Options are what builds and comparisons have in common.
type Options struct {
	// Store holds the table and takes the entries.
	Store kv.Store
	// Globals are the system variables, which a running build follows.
	Globals *config.Globals
	// Bus receives events; nil drops them.
	Bus *event.Bus
	// Scheduler divides the work among several nodes; nil works alone.
	Scheduler Scheduler
	// Resources are shared with other jobs; nil makes resources of its own, for
	// MaxWorkers.
	Resources *ingest.Resources
	// Settings are the job's own, which a running build follows; nil has none.
	Settings *ingest.LiveSettings

	// MaxWorkers bounds the workers, also where the system variable asks for more: workers
	// beyond the number of cores only take memory from each other; 0 is the number of
	// cores.
	MaxWorkers int
	// TaskBytes is the size of the ranges that are handed to workers; 0 is
	// 32 MiB.
	TaskBytes uint64
	// BatchRows is the number of rows scanned at a time; 0 follows the system
	// variable and the settings.
	BatchRows int
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.Globals == nil {
		o.Globals = config.NewGlobals()
	}
	if o.MaxWorkers == 0 {
		o.MaxWorkers = flow.Cores()
	}
	if o.Resources == nil {
		o.Resources = ingest.NewResources(o.Globals, o.MaxWorkers)
	}
	if o.TaskBytes == 0 {
		o.TaskBytes = 32 << 20
	}
}

// Problems lists everything that is wrong with the options.
func (o *Options) Problems() (errs []error) {
	if o.Store == nil {
		errs = append(errs, errors.New("Store is missing"))
	}
	if o.MaxWorkers < 0 || o.BatchRows < 0 {
		errs = append(errs, errors.New("MaxWorkers and BatchRows must not be negative"))
	}
	return errs
}

// Validate returns everything that is wrong with the options as one error.
func (o *Options) Validate() error { return InvalidOptions(o.Problems()) }

// InvalidOptions makes one error of what is wrong with options; nil if nothing is.
func InvalidOptions(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("backfill: invalid options: %w", errors.Join(errs...))
}
