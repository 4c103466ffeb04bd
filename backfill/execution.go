package backfill

import (
	"context"
	"fmt"
	"sync"

	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/background"
	"fastddl/internal/errs"
	"fastddl/internal/stage"
)

// execution is what builds and comparisons have in common: a task, the options it is
// carried out with, and the job's share of the resources.
type execution struct {
	opts       executionOptions
	task       Task
	projection *projection
	physicals  []int64
	share      *ingest.Share
	progress   *progress

	mu    sync.Mutex
	costs stage.Costs
}

func newExecution(opts executionOptions, task Task) (*execution, error) {
	if err := task.Validate(); err != nil {
		return nil, err
	}
	p, err := newProjection(&task)
	if err != nil {
		return nil, err
	}
	return &execution{
		opts: opts, task: task, projection: p, physicals: physicalIDs(task.Table),
		progress: newProgress(opts.Bus, task.JobID),
	}, nil
}

func (x *execution) addCosts(c *stage.Costs) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.costs.Add(c)
}

// stageCosts are those that were added.
func (x *execution) stageCosts() stage.Costs {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.costs
}

// job names the job in events.
func (x *execution) job() event.Job { return event.Job{ID: x.task.JobID} }

// enter reports a new stage. done says how much of it is done, 0 to 1; nil if
// that is to be seen from the rows.
func (x *execution) enter(name string, done func() float64) {
	x.progress.enter(name, done)
	x.opts.Bus.Emit(event.StageChanged{Job: x.job(), Stage: name})
}

// batchRows is the number of rows to scan at a time.
func (x *execution) batchRows() int {
	if x.opts.BatchRows > 0 {
		return x.opts.BatchRows
	}
	return x.share.BatchRows()
}

// execute runs fn with a share of the resources, for which it may have to wait,
// and with progress reports.
func (x *execution) execute(ctx context.Context, share ingest.ShareOptions, fn func(context.Context) error) (err error) {
	share.JobID, share.MaxWorkers = x.task.JobID, x.opts.MaxWorkers
	share.Settings, share.Bus = x.opts.Settings, x.opts.Bus
	if x.share, err = x.opts.Resources.Join(ctx, share); err != nil {
		return ended(ctx, err)
	}
	defer x.share.Leave()
	return x.reporting(ctx, fn)
}

// reporting runs fn with progress reports.
func (x *execution) reporting(ctx context.Context, fn func(context.Context) error) (err error) {
	stop := x.progress.start()
	defer func() { err = errs.Also(err, stop()) }()
	return ended(ctx, fn(ctx))
}

// startVerifying makes the calling goroutine one that verifies, until end: at low
// priority, at the pace that the job has, with its time on the job's account.
func (x *execution) startVerifying() (pacer *ingest.Pacer, end func()) {
	background.Thread()
	clock := stage.Start(stage.Verify)
	return x.share.NewPacer(clock), func() { x.addCosts(clock.Stop()) }
}

// ended returns why ctx has ended if that is what err comes from.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// planRows cuts all rows of the table into tasks, in key order.
func (x *execution) planRows(ctx context.Context) ([]task, error) {
	snap, err := x.opts.Store.Snapshot(ctx, x.task.TS)
	if err != nil {
		return nil, fmt.Errorf("backfill: plan: %w", err)
	}
	defer snap.Close()
	var tasks []task
	for _, id := range x.physicals {
		some, err := planRange(ctx, x.opts.Store, snap, recordRange(id), x.opts.TaskBytes, 1)
		if err != nil {
			return nil, fmt.Errorf("backfill: plan: %w", err)
		}
		tasks = append(tasks, some...)
	}
	return tasks, nil
}
