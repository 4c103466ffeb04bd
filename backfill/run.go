package backfill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/stage"
)

// build is one run of a backfill.
type build struct {
	opts       Options
	spec       Spec
	projection *projection
	share      *ingest.Share
	progress   *progress
	result     Result

	// transactionalInterval is the least time between two checkpoints of a
	// transactional build.
	transactionalInterval time.Duration

	mu    sync.Mutex // guards meter.costs
	meter *meter
}

func newBuild(opts Options, spec Spec) (*build, error) {
	opts.EnsureDefaults()
	if err := errors.Join(opts.Validate(), spec.validate()); err != nil {
		return nil, err
	}
	p, err := newProjection(spec.Table, spec.Indexes, spec.Expressions)
	if err != nil {
		return nil, err
	}
	return &build{
		opts: opts, spec: spec, projection: p,
		progress: newProgress(opts.Bus, spec.JobID),
		meter:    newMeter(),

		transactionalInterval: transactionalCheckpointInterval,
	}, nil
}

func (b *build) addCosts(c *stage.Costs) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.meter.costs.Add(c)
}

// Run builds the indexes of spec by ingest, starting from the checkpoint if
// there is one. On success their entries at spec.TS are durable and verified.
// On error, or when ctx ends, which it obeys within a second, what was imported
// stays: either Run is called again, or the caller deletes the index ranges.
func Run(ctx context.Context, opts Options, spec Spec) (Result, error) {
	return execute(ctx, opts, spec, false, (*build).run)
}

// execute runs a build with its share of the resources, its progress reports and
// its bill.
func execute(ctx context.Context, opts Options, spec Spec, transactional bool, run func(*build, context.Context) error) (Result, error) {
	b, err := newBuild(opts, spec)
	if err != nil {
		return Result{}, err
	}
	if err := b.join(ctx, transactional); err != nil {
		return Result{}, err
	}
	defer b.share.Leave()
	stop := b.progress.start()
	err = run(b, ctx)
	stop()
	b.meter.fill(&b.result)
	b.result.Rows = b.progress.done()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return b.result, err
}

// join takes the build's share of the resources, for which it may have to wait.
func (b *build) join(ctx context.Context, transactional bool) (err error) {
	opts := ingest.ShareOptions{
		JobID: b.spec.JobID, Indexes: len(b.spec.Indexes), Transactional: transactional,
		Settings: b.opts.Settings, Bus: b.opts.Bus,
	}
	if !transactional {
		opts.MaxWorkers = b.opts.MaxWorkers
	}
	if b.share, err = b.opts.Resources.Join(ctx, opts); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// mergers is the number of key ranges that may be merged at one time: one more
// than workers when those take all cores, because files are waited for until
// they are on disk.
func (b *build) mergers() int {
	if n := b.share.Workers(); n < b.opts.MaxWorkers {
		return n
	}
	return b.opts.MaxWorkers + 1
}

func (b *build) run(ctx context.Context) error {
	cp, err := decodeCheckpoint(b.spec.Checkpoint, &b.spec)
	if err != nil {
		return err
	}
	if cp == nil {
		if cp, err = b.firstCheckpoint(ctx); err != nil {
			return err
		}
	}
	if !cp.Rebuilt {
		err := b.buildAndVerify(ctx, cp)
		var mismatch *MismatchError
		if !errors.As(err, &mismatch) {
			return err
		}
		b.opts.Bus.Emit(event.Retry{Job: b.job(), Op: "build", Attempt: 1, Err: err})
		if cp, err = b.beginAgain(ctx); err != nil {
			return err
		}
	}
	b.result.Rebuilt = true
	if err := b.buildAndVerify(ctx, cp); err != nil {
		return fmt.Errorf("after rebuilding once: %w", err)
	}
	return nil
}

// beginAgain records that everything is built a second time. Importing the same
// entries at the same version again repairs whatever is missing or damaged;
// entries too many are beyond repair.
func (b *build) beginAgain(ctx context.Context) (*checkpoint, error) {
	cp, err := b.firstCheckpoint(ctx)
	if err != nil {
		return nil, err
	}
	cp.Rebuilt = true
	return cp, b.save(ctx, cp)
}

// buildAndVerify builds and reads back what cp says is left.
func (b *build) buildAndVerify(ctx context.Context, cp *checkpoint) error {
	if err := b.ingest(ctx, cp); err != nil {
		return err
	}
	b.result.Entries = 0
	for _, t := range cp.wanted() {
		b.result.Entries += t.Entries
	}
	return b.verify(ctx, cp)
}

// firstCheckpoint plans the whole table.
func (b *build) firstCheckpoint(ctx context.Context) (*checkpoint, error) {
	snap, err := b.opts.Store.Snapshot(ctx, b.spec.TS)
	if err != nil {
		return nil, fmt.Errorf("backfill: plan: %w", err)
	}
	defer snap.Close()
	tasks, err := planRange(ctx, b.opts.Store, snap, recordRange(b.spec.Table), b.opts.TaskBytes, 1)
	if err != nil {
		return nil, fmt.Errorf("backfill: plan: %w", err)
	}
	cp := &checkpoint{TS: b.spec.TS, Weight: totalWeight(tasks)}
	for _, idx := range b.spec.Indexes {
		cp.Indexes = append(cp.Indexes, checkpointIndex{ID: idx.ID})
	}
	cp.setTasks(tasks)
	return cp, nil
}

// ingest scans, sorts and imports what cp says is left, and keeps cp at what is
// durable.
func (b *build) ingest(ctx context.Context, cp *checkpoint) (err error) {
	tasks := cp.tasks()
	b.progress.begin(cp.Rows, cp.Weight-totalWeight(tasks), cp.Weight)
	if len(tasks) == 0 {
		return nil
	}
	job, err := b.openJob(cp)
	if err != nil {
		return err
	}
	defer func() {
		b.result.addJob(b.meter, job.Stats())
		err = errors.Join(err, job.Close())
	}()
	b.enter(stage.Scan.String(), nil)
	if err := b.partition(ctx, job, tasks); err != nil {
		return err
	}
	for {
		if tasks, err = b.scanRound(ctx, job, tasks); err != nil {
			return err
		}
		if err := b.flush(ctx, job); err != nil {
			return err
		}
		b.progress.allImported()
		for i := range cp.Indexes {
			cp.Indexes[i].Totals = job.Totals(i)
		}
		cp.Rows = b.progress.done()
		cp.setTasks(mergeTasks(tasks))
		if err := b.save(ctx, cp); err != nil {
			return err
		}
		if len(tasks) == 0 {
			return nil
		}
		b.enter(stage.Scan.String(), nil)
	}
}

func (b *build) openJob(cp *checkpoint) (*ingest.Job, error) {
	indexes := make([]ingest.Index, len(b.spec.Indexes))
	for i, idx := range b.spec.Indexes {
		indexes[i] = ingest.Index{ID: idx.ID, Prefix: indexPrefix(b.spec.Table.ID, idx.ID), Unique: idx.Unique}
	}
	job, err := ingest.Open(ingest.JobOptions{
		ID: b.spec.JobID, Store: b.opts.Store, TempDir: b.opts.TempDir, Version: b.spec.TS,
		Indexes: indexes, Share: b.share, Bus: b.opts.Bus,
		TargetFileBytes: b.opts.TargetFileBytes, Parallel: b.mergers,
		CreateRun: b.opts.CreateRun,
	})
	if err != nil {
		return nil, err
	}
	for i := range cp.Indexes {
		job.Resume(i, cp.Indexes[i].Totals)
	}
	return job, nil
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
	data, err := cp.encode()
	if err != nil {
		return err
	}
	if err := b.opts.SaveCheckpoint(ctx, data); err != nil {
		return fmt.Errorf("backfill: save checkpoint: %w", err)
	}
	return nil
}
