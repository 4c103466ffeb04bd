package backfill

import (
	"context"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/event"
)

// SubtasksSpec says which subtasks one node builds together: what it imports of them does not
// overlap then, and there is one sample and one import for all.
type SubtasksSpec struct {
	// Task names the entries of the whole table.
	encode.Task
	// First is the subtask that the build begins with.
	First HeldSubtask
	// Next returns a further subtask, if there is one. It is called while rows of the subtasks
	// before it are still being read, until it has none or fails, which ends the build. Nil
	// has none.
	Next func(ctx context.Context) (p HeldSubtask, ok bool, err error)
	// Save keeps the checkpoints of all subtasks so far, in the order in which they joined, as of
	// one moment. Nil keeps none.
	Save func(ctx context.Context, checkpoints [][]byte) error
}

// RunSubtasks makes the entries that the rows of subtasks have at spec.TS durable at that
// version, starting from their checkpoints, and returns a result for each subtask: what was
// built now is in that of the first. They prove nothing if one of the subtasks was wrong before, so that
// all is read back. It does not verify them: the build that was divided does
// that for all of them. It fails and obeys ctx as Run does; two builds that have rows with
// equal values in a unique index do not notice.
func RunSubtasks(ctx context.Context, opts Options, spec SubtasksSpec) ([]execution.SubtaskResult, error) {
	b, err := newBuild(opts, Spec{Task: spec.Task})
	if err != nil {
		return nil, err
	}
	b.subtasks = &subtasks{next: spec.Next, keep: spec.Save, sample: spec.First.Subtask.Sample}
	cp, err := b.addSubtask(spec.First)
	if err != nil {
		return nil, err
	}
	if err := b.Execute(ctx, b.shareOptions(), func(ctx context.Context) error { return b.ingest(ctx, cp) }); err != nil {
		return nil, err
	}
	results := make([]execution.SubtaskResult, len(b.subtasks.all))
	for i, p := range b.subtasks.all {
		results[i] = execution.SubtaskResult{Rows: p.cp.Rows, Visited: p.cp.Visited, Totals: p.cp.wanted(), Intervals: p.cp.intervals()}
		if b.subtasks.wrong {
			results[i].Visited, results[i].Intervals = execution.Unproven, nil
		}
	}
	results[0].Costs = b.costs(results)
	return results, nil
}

// costs are those of the subtasks that the build has built now.
func (b *build) costs(results []execution.SubtaskResult) event.Costs {
	costs := b.StoreCosts()
	costs.ReadBytes += b.Progress.BytesRead()
	costs.WrittenBytes += int64(b.result.IngestedBytes)
	for _, r := range results {
		for _, t := range r.Totals {
			costs.SortedBytes += t.Bytes
		}
	}
	return costs
}
