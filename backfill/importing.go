package backfill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fastddl/backfill/keyrange"
	"fastddl/ingest"
	"fastddl/internal/stage"
)

// mergers is the number of key ranges that may be merged at one time: one more
// than workers when those take all cores, because files are waited for until
// they are on disk.
func (b *build) mergers() int {
	if n := b.Share.Workers(); n < b.opts.MaxWorkers {
		return n
	}
	return b.opts.MaxWorkers + 1
}

// ingest scans, sorts and imports what cp says is left, group by group, and keeps
// cp at what is durable.
func (b *build) ingest(ctx context.Context, cp *checkpoint) (err error) {
	tasks := cp.tasks()
	b.cuts = nil
	b.Progress.Begin(cp.Rows, cp.Weight-keyrange.TotalWeight(tasks), cp.Weight)
	b.visited.Store(cp.Visited)
	b.tiling = &tiling{table: b.Task.Table.Name.O}
	if err := b.tiling.begin(tasks); err != nil {
		return err
	}
	if err := b.countBeside(ctx, cp); err != nil {
		return err
	}
	for len(tasks) > 0 {
		g := b.groupOf(tasks[0])
		in, others := g.pick(tasks)
		if tasks, err = b.ingestGroup(ctx, cp, g, in, others); err != nil {
			return err
		}
	}
	return nil
}

// groupOf returns the group that the rows of a task are in. Groups do not depend on what is
// left to do.
func (b *build) groupOf(t keyrange.Weighted) *group {
	i := slices.Index(b.Physicals, t.PhysicalID())
	return groupFrom(b.Task.Table, b.Task.Indexes, b.Physicals, i-i%groupSize(b.Task.Indexes))
}

// ingestGroup does the tasks of one group, and returns those of other groups: others, and
// those of subtasks that join meanwhile.
func (b *build) ingestGroup(ctx context.Context, cp *checkpoint, g *group, tasks, others []keyrange.Weighted) (left []keyrange.Weighted, err error) {
	before := slices.Clone(cp.Indexes)
	job, err := b.openJob(g, cp.Rows > 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		b.addJob(job)
		err = errors.Join(err, job.Close())
	}()
	b.Enter(stage.Scan.String(), nil)
	if err := b.partition(ctx, job, g, tasks, cp); err != nil {
		return nil, err
	}
	for {
		var came []keyrange.Weighted
		if tasks, came, err = b.scanRound(ctx, job, g, tasks); err != nil {
			return nil, err
		}
		others = slices.Concat(others, came)
		keyrange.Sort(others)
		if err := b.tiling.check(inOrder(tasks, others)); err != nil {
			return nil, err
		}
		if len(tasks)+len(others) == 0 {
			if err := b.beginCount(ctx, cp); err != nil {
				return nil, err
			}
		}
		left := remains{group: len(tasks) > 0 || b.subtasks != nil, others: len(others) > 0}
		job.Mergeable(b.mergesStatistics(cp, g, left))
		if err := b.flush(ctx, job, g); err != nil {
			return nil, err
		}
		b.Progress.AllImported()
		b.addStatistics(cp, g, job, left)
		cp.addWritten(before, g, job)
		cp.Rows, cp.Visited = b.Progress.Done(), b.visited.Load()
		b.setLeft(cp, tasks, others)
		if err := b.saveProgress(ctx, cp, len(tasks) > 0 || len(others) == 0); err != nil {
			return nil, err
		}
		if len(tasks) == 0 {
			return others, nil
		}
		b.Enter(stage.Scan.String(), nil)
	}
}

// setLeft sets what is left, in key order, as few tasks as can be.
func (b *build) setLeft(cp *checkpoint, tasks, others []keyrange.Weighted) {
	left := inOrder(tasks, others)
	if b.subtasks == nil { // otherwise each subtask has tasks of its own
		left = keyrange.Merge(left)
	}
	cp.setTasks(left)
}

// inOrder returns tasks of two lists in key order.
func inOrder(tasks, others []keyrange.Weighted) []keyrange.Weighted {
	all := slices.Concat(tasks, others)
	keyrange.Sort(all)
	return all
}

// addJob adds what an ingest job did, while rows may be counted beside.
func (b *build) addJob(job *ingest.Job) {
	stats := job.Stats()
	b.AddCosts(&stats.Costs)
	b.result.addJob(&stats)
}

// openJob opens the ingest job of a group. resumed says that the store may have
// entries of it.
func (b *build) openJob(g *group, resumed bool) (*ingest.Job, error) {
	indexes := make([]ingest.KeySpace, len(g.targets))
	for i, t := range g.targets {
		idx := b.Task.Indexes[t.index]
		indexes[i] = ingest.KeySpace{
			ID: idx.ID, Prefix: t.prefix, Unique: idx.Unique, Imported: resumed, Columns: len(idx.Columns), Sampled: b.local(g, t),
		}
	}
	return ingest.Open(ingest.JobOptions{
		ID: b.Task.JobID, Store: b.opts.Store, TempDir: b.opts.TempDir, Version: b.Task.TS,
		Indexes: indexes, IsPart: b.subtasks != nil, Share: b.Share, Bus: b.opts.Bus,
		TargetFileBytes: b.opts.TargetFileBytes, Parallel: b.mergers, FS: b.opts.FS,
	})
}

// flush merges and imports what the round has brought. It fails with a MismatchError if what was written is not what was
// appended.
func (b *build) flush(ctx context.Context, job *ingest.Job, g *group) error {
	start := time.Now()
	defer func() { b.meter.merging += time.Since(start) }()
	b.Enter(stage.Merge.String(), job.FlushProgress)
	b.result.Flushes++
	err := job.Flush(ctx)
	var written *ingest.WrittenError
	if errors.As(err, &written) {
		index := b.Task.Indexes[g.targets[written.Index].index].Name.O
		return errors.Join(&MismatchError{Index: index, Want: written.Appended, Got: written.Written, Where: "sorted and written"}, err)
	}
	return err
}

func (b *build) save(ctx context.Context, cp *checkpoint) error {
	if b.subtasks != nil {
		return b.subtasks.save(ctx)
	}
	data, err := cp.encodeWithin(maxCheckpointBytes)
	if err != nil {
		return err
	}
	if err := b.opts.SaveCheckpoint(ctx, data); err != nil {
		return fmt.Errorf("backfill: save checkpoint: %w", err)
	}
	return nil
}

// groupCheckpointInterval is the least time between two checkpoints that are due
// only because some partitions are done.
const groupCheckpointInterval = time.Second

// saveProgress saves cp, which it may put off a little if it is not due.
func (b *build) saveProgress(ctx context.Context, cp *checkpoint, due bool) error {
	if !due && time.Since(b.saved) < min(groupCheckpointInterval, b.opts.checkpointInterval()) {
		return nil
	}
	b.saved = time.Now()
	return b.save(ctx, cp)
}
