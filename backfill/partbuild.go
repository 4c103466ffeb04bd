package backfill

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"fastddl/kv"
)

// HeldPart is a part that a node holds, and how far it is.
type HeldPart struct {
	Part Part
	// Checkpoint is what was last kept of the part; nil if nothing was.
	Checkpoint []byte
}

// PartsSpec says which parts one node builds together: what it imports of them does not
// overlap then, and there is one sample and one import for all.
type PartsSpec struct {
	// Task names the entries of the whole table.
	Task
	// First is the part that the build begins with.
	First HeldPart
	// Next returns a further part, if there is one. It is called while rows of the parts
	// before it are still being read, until it has none or fails, which ends the build. Nil
	// has none.
	Next func(ctx context.Context) (p HeldPart, ok bool, err error)
	// Save keeps the checkpoints of all parts so far, in the order in which they came, as of
	// one moment. Nil keeps none.
	Save func(ctx context.Context, checkpoints [][]byte) error
}

// RunParts makes the entries that the rows of parts have at spec.TS durable at that
// version, starting from their checkpoints, and returns a result for each part: what was
// built now is in that of the first. It does not verify them: who has cut the parts does
// that for all of them. It fails and obeys ctx as Run does; two builds that have rows with
// equal values in a unique index do not notice.
func RunParts(ctx context.Context, opts Options, spec PartsSpec) ([]PartResult, error) {
	b, err := newBuild(opts, Spec{Task: spec.Task})
	if err != nil {
		return nil, err
	}
	b.parts = &parts{next: spec.Next, keep: spec.Save, sample: spec.First.Part.Sample}
	cp, err := b.addPart(spec.First)
	if err != nil {
		return nil, err
	}
	if err := b.execute(ctx, b.shareOptions(), func(ctx context.Context) error { return b.ingest(ctx, cp) }); err != nil {
		return nil, err
	}
	results := make([]PartResult, len(b.parts.all))
	for i, p := range b.parts.all {
		results[i] = PartResult{Rows: p.cp.Rows, Totals: p.cp.wanted()}
	}
	return results, nil
}

// parts are those that one build has. The checkpoint of the first is that of the build: its
// rows and totals are all that were built now, and its tasks what is left of all parts. The
// others' have what was done of them before.
type parts struct {
	next func(ctx context.Context) (p HeldPart, ok bool, err error)
	keep func(ctx context.Context, checkpoints [][]byte) error
	// sample are those of the first.
	sample []checkpointRange
	all    []buildPart
}

type buildPart struct {
	span kv.KeyRange // from its first row to its last
	cp   *checkpoint
}

// mayGrow says that there may be a further part.
func (p *parts) mayGrow() bool { return p != nil && p.next != nil }

// addPart makes a part one of those that are built, and returns its checkpoint.
func (b *build) addPart(p HeldPart) (*checkpoint, error) {
	tasks := decodeTasks(p.Part.Tasks)
	if len(tasks) == 0 || !tasksIn(b.task.Table, tasks) {
		return nil, fmt.Errorf("backfill: a part of job %d is not of table %s", b.task.JobID, b.task.Table.Name.O)
	}
	cp := b.resume(p.Checkpoint)
	if cp == nil {
		cp = b.newCheckpoint(tasks)
	}
	b.parts.all = append(b.parts.all, buildPart{kv.KeyRange{Start: tasks[0].Start, End: tasks[len(tasks)-1].End}, cp})
	return cp, nil
}

// joinPart takes a further part, if there is one, and returns what is left of it.
func (b *build) joinPart(ctx context.Context) ([]task, error) {
	p, ok, err := b.parts.next(ctx)
	if err != nil || !ok {
		b.parts.next = nil
		return nil, err
	}
	cp, err := b.addPart(p)
	if err != nil {
		return nil, err
	}
	tasks := cp.tasks()
	b.progress.extend(cp.Weight-totalWeight(tasks), cp.Weight)
	return tasks, nil
}

// sampled returns ranges of a group at whose beginning rows are to be sampled; none if the
// tasks in hand tell where.
func (p *parts) sampled(g *group) (ranges []kv.KeyRange) {
	if p == nil {
		return nil
	}
	for _, r := range p.sample {
		t := task{KeyRange: kv.KeyRange{Start: r.Start, End: r.End}}
		if slices.Contains(g.physicals, t.physicalID()) {
			ranges = append(ranges, t.KeyRange)
		}
	}
	return ranges
}

// save keeps a checkpoint of each part.
func (p *parts) save(ctx context.Context) error {
	if p.keep == nil {
		return nil
	}
	left := p.all[0].cp.tasks()
	checkpoints := make([][]byte, len(p.all))
	for i, part := range p.all {
		cp := *part.cp
		cp.Remaining = nil
		cp.setTasks(mergeTasks(part.own(left)))
		data, err := cp.encode()
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

// own returns the tasks that lie in the part.
func (p *buildPart) own(tasks []task) (own []task) {
	for _, t := range tasks {
		if bytes.Compare(t.Start, p.span.Start) >= 0 && (p.span.End == nil || bytes.Compare(t.Start, p.span.End) < 0) {
			own = append(own, t)
		}
	}
	return own
}
