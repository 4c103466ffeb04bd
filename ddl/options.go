package ddl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/domain"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/config"
	"fastddl/ddl/member"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/kv"
)

// Options configures index builds.
type Options struct {
	// Storage and Domain are TiDB's, over the store that Builds is the other face
	// of.
	Storage tidbkv.Storage
	Domain  *domain.Domain
	Builds  kv.Store
	// Globals are the system variables; nil is their defaults.
	Globals *config.Globals
	// Bus receives events; nil makes one.
	Bus *event.Bus
	// Resources are what all builds of the process share; nil makes some.
	Resources *ingest.Resources
	// Foreground measures the statements of clients; nil measures none.
	Foreground *flow.StatementMeter
	// Logger receives what no event says; nil drops it.
	Logger *zap.Logger
	// TempDir is the folder that builds sort in. What jobs have left in it is removed on
	// Start.
	TempDir string
	// Cluster are the other nodes that build indexes in the store; nil if there are none.
	Cluster member.Cluster
	// Scope returns the tidb_service_scope of this node; nil is TiDB's variable.
	Scope func() string
	// Backfiller makes the entries; nil is package backfill over Builds.
	Backfiller Backfiller
	// Ingester does parts of builds in another process; nil does all in this one.
	Ingester backfill.Ingester

	// QueuedImports says that each IMPORT INTO stands in TiDB's queue (package load/jobs), so that none runs beside a build of its table.
	QueuedImports bool

	// HoldTTL is how long garbage collection is held for a job whose process has
	// died; 0 is one hour.
	HoldTTL time.Duration
	// StatisticsPatience is how long the statistics of an index may take to be written before they are left to ANALYZE; 0 is ten seconds.
	StatisticsPatience time.Duration
	// Now is the clock by which windows open and close; nil is the system's.
	Now func() time.Time
	// Hook, if set, is called before and after each action of a job. If it fails
	// the job stops as if the process had died there.
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
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.HoldTTL == 0 {
		o.HoldTTL = time.Hour
	}
	if o.StatisticsPatience == 0 {
		o.StatisticsPatience = statisticsPatience
	}
	if o.Hook == nil {
		o.Hook = func(context.Context, HookPoint) error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Scope == nil {
		o.Scope = variable.ServiceScope.Load
	}
	if o.Backfiller == nil && o.Builds != nil {
		o.Backfiller = NewBackfiller(backfill.Options{Store: o.Builds, Globals: o.Globals, Bus: o.Bus, Resources: o.Resources, Ingester: o.Ingester})
	}
}

// Validate lists everything that is wrong with the options.
func (o *Options) Validate() error {
	var errs []error
	for _, missing := range []struct {
		name string
		is   bool
	}{
		{"Storage", o.Storage == nil}, {"Domain", o.Domain == nil}, {"Builds", o.Builds == nil}, {"TempDir", o.TempDir == ""},
	} {
		if missing.is {
			errs = append(errs, errors.New(missing.name+" is missing"))
		}
	}
	if o.HoldTTL < 0 {
		errs = append(errs, errors.New("HoldTTL must not be negative"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("ddl: invalid options: %w", errors.Join(errs...))
	}
	return nil
}
