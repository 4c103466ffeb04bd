package backfill

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"fastddl/backfill/execution"
	"fastddl/backfill/indexstats"
	"fastddl/backfill/keyrange"
	"fastddl/kv"
)

// HeldSubtask is a subtask that a node holds, and how far it is.
type HeldSubtask struct {
	Subtask execution.Subtask
	// Checkpoint is what was last kept of the subtask; nil if nothing was.
	Checkpoint []byte
	// Wrong says that it was built before, and that IsWrong is true of the error.
	Wrong bool
}

// subtasks are those that one build has. The checkpoint of the first is that of the build: its
// rows and totals are all that were built now, and its tasks what is left of all subtasks. The
// others' have what was done of them before.
type subtasks struct {
	next func(ctx context.Context) (p HeldSubtask, ok bool, err error)
	keep func(ctx context.Context, checkpoints [][]byte) error
	// sample are those of the first.
	sample []keyrange.StoredIndexed
	all    []subtaskBuild
	// wrong says that one of them was found wrong before.
	wrong bool
}

type subtaskBuild struct {
	span kv.KeyRange // from its first row to its last
	cp   *checkpoint
}

// mayGrow says that there may be a further subtask.
func (p *subtasks) mayGrow() bool { return p != nil && p.next != nil }

// sampled returns ranges of a group at whose beginning rows are to be sampled; none if the
// build's own tasks say where.
func (p *subtasks) sampled(g *group) (ranges []kv.KeyRange) {
	if p == nil {
		return nil
	}
	for _, r := range p.sample {
		t := keyrange.Weighted{KeyRange: kv.KeyRange{Start: r.Start, End: r.End}}
		if slices.Contains(g.physicals, t.PhysicalID()) {
			ranges = append(ranges, t.KeyRange)
		}
	}
	return ranges
}

// save keeps a checkpoint of each subtask.
func (p *subtasks) save(ctx context.Context) error {
	if p.keep == nil {
		return nil
	}
	left := p.all[0].cp.tasks()
	checkpoints := make([][]byte, len(p.all))
	for i, part := range p.all {
		cp := *part.cp
		cp.Remaining = nil
		cp.setTasks(keyrange.Merge(part.own(left)))
		data, err := cp.encode(indexstats.MaxSubtaskBytes)
		if err != nil {
			return err
		}
		checkpoints[i] = data
	}
	if err := p.keep(ctx, checkpoints); err != nil {
		return fmt.Errorf("backfill: save checkpoints: %w", err)
	}
	return nil
}

// own returns the tasks that lie in the subtask.
func (p *subtaskBuild) own(tasks []keyrange.Weighted) (own []keyrange.Weighted) {
	for _, t := range tasks {
		if bytes.Compare(t.Start, p.span.Start) >= 0 && (p.span.End == nil || bytes.Compare(t.Start, p.span.End) < 0) {
			own = append(own, t)
		}
	}
	return own
}
