package backfill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fastddl/ingest"
	"fastddl/internal/stage"
)

// mergers is the number of key ranges that may be merged at one time: one more
// than workers when those take all cores, because files are waited for until
// they are on disk.
func (b *build) mergers() int {
	if n := b.share.Workers(); n < b.opts.MaxWorkers {
		return n
	}
	return b.opts.MaxWorkers + 1
}

// ingest scans, sorts and imports what cp says is left, group by group, and keeps
// cp at what is durable.
func (b *build) ingest(ctx context.Context, cp *checkpoint) (err error) {
	tasks := cp.tasks()
	b.cuts = nil
	b.progress.begin(cp.Rows, cp.Weight-totalWeight(tasks), cp.Weight)
	if err := b.countBeside(ctx); err != nil {
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

// ingestGroup does the tasks of one group, and returns those of other groups: others, and
// what parts bring meanwhile.
func (b *build) ingestGroup(ctx context.Context, cp *checkpoint, g *group, tasks, others []task) (left []task, err error) {
	before := cp.wanted()
	job, err := b.openJob(g, cp.Rows > 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		b.addJob(job)
		err = errors.Join(err, job.Close())
	}()
	b.enter(stage.Scan.String(), nil)
	if err := b.partition(ctx, job, g, tasks); err != nil {
		return nil, err
	}
	for {
		var came []task
		if tasks, came, err = b.scanRound(ctx, job, g, tasks); err != nil {
			return nil, err
		}
		others = slices.Concat(others, came)
		sortTasks(others)
		if len(tasks)+len(others) == 0 {
			if err := b.beginCount(ctx); err != nil {
				return nil, err
			}
		}
		if err := b.flush(ctx, job); err != nil {
			return nil, err
		}
		b.progress.allImported()
		cp.setTotals(before)
		for i, t := range g.targets {
			cp.Indexes[t.index].Totals.Add(job.Totals(i))
		}
		cp.Rows = b.progress.done()
		b.setLeft(cp, tasks, others)
		if err := b.saveProgress(ctx, cp, len(tasks) > 0 || len(others) == 0); err != nil {
			return nil, err
		}
		if len(tasks) == 0 {
			return others, nil
		}
		b.enter(stage.Scan.String(), nil)
	}
}

// setLeft sets what is left, in key order, as few tasks as can be.
func (b *build) setLeft(cp *checkpoint, tasks, others []task) {
	left := slices.Concat(tasks, others)
	sortTasks(left)
	if b.parts == nil { // otherwise each part has tasks of its own
		left = mergeTasks(left)
	}
	cp.setTasks(left)
}

// addJob adds what an ingest job did, while rows may be counted beside.
func (b *build) addJob(job *ingest.Job) {
	stats := job.Stats()
	b.addCosts(&stats.Costs)
	b.result.addJob(&stats)
}

// openJob opens the ingest job of a group. resumed says that the store may have
// entries of it.
func (b *build) openJob(g *group, resumed bool) (*ingest.Job, error) {
	indexes := make([]ingest.Index, len(g.targets))
	for i, t := range g.targets {
		idx := b.task.Indexes[t.index]
		indexes[i] = ingest.Index{ID: idx.ID, Prefix: t.prefix, Unique: idx.Unique, Imported: resumed}
	}
	return ingest.Open(ingest.JobOptions{
		ID: b.task.JobID, Store: b.opts.Store, TempDir: b.opts.TempDir, Version: b.task.TS,
		Indexes: indexes, IsPart: b.parts != nil, Share: b.share, Bus: b.opts.Bus,
		TargetFileBytes: b.opts.TargetFileBytes, Parallel: b.mergers, FS: b.opts.FS,
	})
}

// flush merges and imports what the round has brought.
func (b *build) flush(ctx context.Context, job *ingest.Job) error {
	start := time.Now()
	defer func() { b.meter.merging += time.Since(start) }()
	b.enter(stage.Merge.String(), job.FlushProgress)
	b.result.Flushes++
	return job.Flush(ctx)
}

func (b *build) save(ctx context.Context, cp *checkpoint) error {
	if b.parts != nil {
		return b.parts.save(ctx)
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
