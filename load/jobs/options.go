package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/domain"
	"go.uber.org/zap"

	"fastddl/event"
)

// Options configures imports.
type Options struct {
	// Domain is TiDB's.
	Domain *domain.Domain
	Loader Loader
	// TempDir is the folder that imports sort in.
	TempDir string
	// Bus receives events; nil drops them.
	Bus *event.Bus
	// Logger receives what no caller does; nil drops it.
	Logger *zap.Logger
	// Hook, if set, is called before each step and after each action of an import. If it fails the import stops as if the process had
	// died there.
	Hook func(ctx context.Context, p HookPoint) error
}

// HookPoint is a place in the life of an import.
type HookPoint struct {
	// RowID is the import's in TiDB's queue.
	RowID int64
	// When is "before" an action, or "within" it just before its transaction commits, or "after" it, or "settling": in the transaction
	// that decides after an action has failed. If the hook fails there only the transaction does.
	When string
	// Step is the step that the action begins at.
	Step Step
}

// EnsureDefaults fills in what was left zero.
func (o *Options) EnsureDefaults() {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Hook == nil {
		o.Hook = func(context.Context, HookPoint) error { return nil }
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	for _, missing := range []struct {
		name string
		is   bool
	}{{"Domain", o.Domain == nil}, {"Loader", o.Loader == nil}, {"TempDir", o.TempDir == ""}} {
		if missing.is {
			errs = append(errs, errors.New(missing.name+" is missing"))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("imports: invalid options: %w", errors.Join(errs...))
	}
	return nil
}
