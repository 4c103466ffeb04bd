package execution

import (
	"context"
	"fmt"
	"sync"

	"fastddl/backfill/encode"
	"fastddl/backfill/keyrange"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/stage"
)

// Execution is what builds and comparisons have in common: a task, the options it is
// carried out with, and the job's share of the resources.
type Execution struct {
	Opts       Options
	Task       encode.Task
	Projection *encode.Projection
	Physicals  []int64
	Share      *ingest.Share
	Progress   *Progress

	mu         sync.Mutex
	costs      stage.Costs
	storeCosts event.Costs
}

// New returns an execution of a task, whose share of the resources it takes in Execute.
func New(opts Options, task encode.Task) (*Execution, error) {
	if err := task.Validate(); err != nil {
		return nil, err
	}
	p, err := encode.NewProjection(&task)
	if err != nil {
		return nil, err
	}
	return &Execution{
		Opts: opts, Task: task, Projection: p, Physicals: encode.PhysicalIDs(task.Table),
		Progress: newProgress(opts.Bus, task.JobID),
	}, nil
}

// AddCosts adds costs of a goroutine.
func (x *Execution) AddCosts(c *stage.Costs) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.costs.Add(c)
}

// StageCosts returns the sum of the costs that were added.
func (x *Execution) StageCosts() stage.Costs {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.costs
}

// AddStoreCosts adds what stores have spent: requests and processor time, and bytes that neither Progress nor an import
// counts. Those of a subtask are in its result; others show at once.
func (x *Execution) AddStoreCosts(c event.Costs) {
	x.mu.Lock()
	x.storeCosts.Add(c)
	x.mu.Unlock()
	x.Opts.Bus.Emit(event.Spent{Job: x.Job(), Costs: c})
}

// StoreCosts returns the sum of the costs of stores that were added.
func (x *Execution) StoreCosts() event.Costs {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.storeCosts
}

// Job names the job in events.
func (x *Execution) Job() event.Job { return event.Job{ID: x.Task.JobID} }

// Enter reports a new stage. done says how much of it is done, 0 to 1; nil if
// that is to be seen from the rows.
func (x *Execution) Enter(name string, done func() float64) {
	x.Progress.enter(name, done)
	x.Opts.Bus.Emit(event.StageChanged{Job: x.Job(), Stage: name})
}

// BatchRows is the number of rows to scan at a time.
func (x *Execution) BatchRows() int {
	if x.Opts.BatchRows > 0 {
		return x.Opts.BatchRows
	}
	return x.Share.BatchRows()
}

// Execute runs fn with a share of the resources, for which it may have to wait,
// and with progress reports.
func (x *Execution) Execute(ctx context.Context, share ingest.ShareOptions, fn func(context.Context) error) (err error) {
	share.JobID, share.MaxWorkers = x.Task.JobID, x.Opts.MaxWorkers
	share.Settings, share.Bus = x.Opts.Settings, x.Opts.Bus
	if x.Share, err = x.Opts.Resources.Join(ctx, share); err != nil {
		return Ended(ctx, err)
	}
	defer x.Share.Leave()
	x.Progress.setShare(x.Share)
	defer x.Progress.setShare(nil)
	return x.Reporting(ctx, fn)
}

// Reporting runs fn with progress reports.
func (x *Execution) Reporting(ctx context.Context, fn func(context.Context) error) (err error) {
	stop := x.Progress.start()
	defer func() { err = errs.Combine(err, stop()) }()
	return Ended(ctx, fn(ctx))
}

// StartVerifying makes the calling goroutine one that verifies, until end: at low
// priority and at the job's pace. Its time is added to the job's stage costs.
func (x *Execution) StartVerifying() (pacer *flow.Pacer, end func()) {
	flow.BackgroundThread()
	clock := stage.Start(stage.Verify)
	return x.Share.NewPacer(clock), func() { x.AddCosts(clock.Stop()) }
}

// Ended returns why ctx has ended if that is what err comes from.
func Ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// PlanRows cuts all rows of the table into tasks, in key order.
func (x *Execution) PlanRows(ctx context.Context) ([]keyrange.Weighted, error) {
	snap, err := x.Opts.Store.Snapshot(ctx, x.Task.TS)
	if err != nil {
		return nil, fmt.Errorf("backfill: plan: %w", err)
	}
	defer snap.Close()
	var tasks []keyrange.Weighted
	for _, id := range x.Physicals {
		planned, err := keyrange.Plan(ctx, x.Opts.Store, snap, encode.RecordRange(id), x.Opts.TaskBytes, 1)
		if err != nil {
			return nil, fmt.Errorf("backfill: plan: %w", err)
		}
		tasks = append(tasks, planned...)
	}
	return tasks, nil
}
