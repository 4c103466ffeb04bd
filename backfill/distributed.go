package backfill

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/backfill/compare"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/stage"
)

// buildDistributed has the scheduler divide what cp says is left, if it does: that is
// never a build of which something is done already.
func (b *build) buildDistributed(ctx context.Context, cp *checkpoint) (shared bool, err error) {
	if b.opts.Scheduler == nil || cp.Rows > 0 || len(cp.Remaining) == 0 {
		return cp.Shared, nil
	}
	tasks := cp.tasks()
	err = b.Reporting(ctx, func(ctx context.Context) error {
		b.Progress.Begin(0, 0, 1)
		b.Enter(stage.Scan.String(), nil)
		round := 0
		if cp.Rebuilt {
			round = 1
		}
		var results []execution.SubtaskResult
		results, shared, err = b.opts.Scheduler.Build(ctx, execution.Work{
			TS: b.Task.TS, Round: round, Bytes: keyrange.TotalWeight(tasks), Progress: b.Progress.Set,
			Cut: func(n int) []execution.Subtask {
				return execution.WithSample(execution.CutSubtasks(tasks, n), keyrange.Sampled(tasks, samplePlaces))
			},
		})
		if err != nil || !shared {
			return err
		}
		var costs event.Costs
		for _, r := range results {
			costs.Add(r.Costs)
		}
		b.opts.Bus.Emit(event.Spent{Job: b.Job(), Costs: costs})
		return cp.addSubtasks(results)
	})
	if err != nil || !shared {
		return shared, err
	}
	b.Progress.Set(cp.Rows, cp.Rows, 1)
	cp.Shared = true
	cp.setTasks(nil)
	return true, b.save(ctx, cp)
}

// addSubtasks adds the results of the subtasks of a build.
func (c *checkpoint) addSubtasks(results []execution.SubtaskResult) error {
	for _, r := range results {
		if len(r.Totals) != len(c.Indexes) {
			return fmt.Errorf("backfill: a part has totals of %d indexes, not %d", len(r.Totals), len(c.Indexes))
		}
		c.Rows += r.Rows
		c.Visited += r.Visited
		for i := range c.Indexes {
			var of execution.Intervals
			if len(r.Intervals) == len(c.Indexes) {
				of = r.Intervals[i]
			}
			c.Indexes[i].Totals.Add(r.Totals[i])
			c.Indexes[i].Intervals = c.Indexes[i].Intervals.Add(of.Fit(r.Totals[i]))
		}
	}
	return nil
}

// duplicatesAcrossSubtasks looks for rows with equal values that lay in different subtasks: of
// their entries one is stored, so the index has fewer than the rows give. It returns a
// *ingest.DuplicateError, or nil if that is not what is wrong.
func (b *build) duplicatesAcrossSubtasks(ctx context.Context) error {
	if !slices.ContainsFunc(b.Task.Indexes, func(idx *model.IndexInfo) bool { return idx.Unique }) {
		return nil
	}
	opts := b.opts.Common()
	opts.Scheduler = nil // it has the subtasks of the build
	found, err := compare.Run(ctx, opts, b.Task)
	if err != nil {
		return err
	}
	var groups []*ingest.DuplicateGroup
	for _, d := range found.Differences {
		if d.Rows < 2 || len(groups) == ingest.MaxDuplicateGroups {
			continue
		}
		g := ingest.NewDuplicateGroup(d.Index, d.Key)
		for _, c := range d.Claims {
			g.Add(c.Value)
		}
		g.Rows = d.Rows
		groups = append(groups, g)
	}
	if len(groups) == 0 {
		return nil
	}
	return &ingest.DuplicateError{Groups: groups}
}

// lookForDuplicates replaces the error of a verification by duplicates that no subtask of a
// divided build could see.
func (b *build) lookForDuplicates(ctx context.Context, err error) error {
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) {
		return err
	}
	if dup := b.duplicatesAcrossSubtasks(ctx); dup != nil {
		return dup
	}
	return err
}
