package backfill

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"fastddl/config"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/internal/stage"
	"fastddl/kv"
)

// errInterrupted ends a scan before its range does.
var errInterrupted = errors.New("backfill: scan interrupted")

// batchesBeforeShare is how many batches a worker scans before it shares its
// task: beginning a scan has a price, and a range that is nearly done is not
// worth cutting.
const batchesBeforeShare = 4

// scanRound scans tasks, and those of the group that parts bring meanwhile, until there are
// none left or the ingest job has to be flushed. It returns the tasks that are left, and
// those that other groups have got.
func (b *build) scanRound(ctx context.Context, job *ingest.Job, g *group, tasks []task) (left, others []task, err error) {
	start := time.Now()
	defer func() { b.meter.scanning += time.Since(start) }()

	limit := b.share.Workers()
	b.result.Workers = limit
	q := newQueue(tasks, limit)
	interval := time.AfterFunc(b.opts.checkpointInterval(), q.stop)
	defer interval.Stop()
	follow := func() { interval.Reset(time.Until(start.Add(b.opts.checkpointInterval()))) }
	defer b.opts.Globals.OnChange(func(name, _ string) {
		if name == config.CheckpointInterval {
			follow()
		}
	})()
	follow() // it may have changed before the subscription

	workers, ctx := errgroup.WithContext(ctx)
	spawn := func(n int) {
		for range n {
			workers.Go(func() error { return b.runScanner(ctx, q, job, g) })
		}
	}
	if b.parts.mayGrow() {
		q.fed = true
		workers.Go(func() (err error) {
			others, err = b.feed(ctx, q, g)
			return err
		})
	}
	spawn(limit)
	defer b.share.OnWorkers(func() { q.setLimit(b.share.Workers(), spawn) })()

	if err := workers.Wait(); err != nil {
		return nil, nil, err
	}
	return q.remaining(), others, nil
}

// feed gives the queue what further parts have in the group whenever it has nothing to hand
// out, until there are none, or one has rows of other groups, which it returns.
func (b *build) feed(ctx context.Context, q *queue, g *group) (others []task, err error) {
	defer errs.Contain(&err)
	defer q.endFeed()
	for len(others) == 0 && b.parts.mayGrow() && q.awaitHunger(ctx) {
		tasks, err := b.joinPart(ctx)
		if err != nil {
			q.stop()
			return nil, err
		}
		var in []task
		in, others = g.pick(tasks)
		q.feed(in)
	}
	return others, nil
}

// scanner is one worker of a round.
type scanner struct {
	b     *build
	q     *queue
	clock *stage.Clock
	out   *ingest.Worker
	pacer *flow.Pacer
	enc   *encoders

	group   *group
	targets []int // of the physical table in hand, by index
}

func (b *build) runScanner(ctx context.Context, q *queue, job *ingest.Job, g *group) (err error) {
	defer func() {
		if err != nil {
			q.stop() // what it holds it does not give back
		}
	}()
	defer errs.Contain(&err)
	flow.BackgroundThread()
	clock := stage.Start(stage.Idle)
	defer func() { b.addCosts(clock.Stop()) }()

	s := &scanner{b: b, q: q, clock: clock, out: job.NewWorker(clock), pacer: b.share.NewPacer(clock), group: g}
	finished := false
	defer func() {
		if !finished { // also after a panic
			s.out.Discard()
		}
	}()
	if err := s.run(ctx); err != nil {
		return err
	}
	finished = true
	s.out.Finish()
	return nil
}

func (s *scanner) run(ctx context.Context) (err error) {
	if s.enc, err = newEncoders(s.b.projection); err != nil {
		return err
	}
	for {
		s.clock.Enter(stage.Idle)
		c, ok := s.q.take(ctx)
		if !ok {
			return ctx.Err()
		}
		if err := s.scanTask(ctx, c); err != nil {
			return err
		}
	}
}

// scanTask scans a task, or as much of it as the queue lets it.
func (s *scanner) scanTask(ctx context.Context, c *claim) error {
	begin, rows := time.Now(), int64(0)
	rest, decision, err := s.scanRange(ctx, c.task, &rows)
	switch {
	case err != nil:
		return err
	case decision == share:
		s.q.release(c, splitTask(rest, 2)...)
	case decision == yield:
		s.q.release(c, rest)
	default:
		s.q.release(c)
	}
	s.b.opts.Bus.Emit(event.RangeDone{Job: s.b.job(), Rows: rows, Elapsed: time.Since(begin)})
	return nil
}

// scanRange scans t. It returns early, with what is left of t, when the queue
// says so.
func (s *scanner) scanRange(ctx context.Context, t task, rows *int64) (rest task, decision verdict, err error) {
	batches, credited := 0, 0.0
	trailing := trailingCount{count: s.count, start: t.Start}
	physicalID := t.physicalID()
	s.targets = s.targets[:0]
	for k := range s.b.task.Indexes {
		s.targets = append(s.targets, s.group.target(k, physicalID))
	}
	req := s.b.projection.request(t.KeyRange, s.b.task.TS, s.b.batchRows())
	s.clock.Enter(stage.Scan)
	err = s.b.opts.Store.ScanColumns(ctx, req, func(batch *kv.RowBatch) error {
		s.clock.Enter(stage.Encode)
		full, err := s.encode(ctx, batch, physicalID)
		if err != nil {
			return err
		}
		batches++
		*rows += int64(batch.NumRows())
		done := t.weight * position(t.KeyRange, batch.LastKey)
		s.b.progress.add(int64(batch.NumRows()), done-credited)
		credited = done
		if err := trailing.scanned(ctx, batch); err != nil {
			return err
		}
		if full {
			s.q.stop()
		} else if err := s.pacer.Pace(ctx); err != nil {
			return err
		}
		if decision = s.q.judge(); decision == share && (batches < batchesBeforeShare || !worthSharing(t, batch)) {
			decision = proceed
		}
		s.clock.Enter(stage.Scan)
		if decision != proceed {
			rest = task{kv.KeyRange{Start: kv.NextKey(batch.LastKey), End: t.End}, t.weight - credited}
			return errInterrupted
		}
		return nil
	})
	defer s.clock.Enter(stage.Idle)
	if errors.Is(err, errInterrupted) {
		return rest, decision, trailing.until(ctx, rest.Start)
	}
	if err != nil {
		return task{}, proceed, err
	}
	s.b.progress.add(0, t.weight-credited)
	return task{}, proceed, trailing.until(ctx, t.End)
}

// worthSharing says whether behind what the store has read ahead there is more of t than that, which is
// read again if t is shared.
func worthSharing(t task, batch *kv.RowBatch) bool {
	ahead := position(t.KeyRange, batch.ReadTo)
	return 1-ahead > ahead-position(t.KeyRange, batch.LastKey)
}

// count counts what was scanned by keys, if the build does that beside the scan.
func (s *scanner) count(ctx context.Context, r kv.KeyRange) error {
	if s.b.count == nil {
		return nil
	}
	s.clock.Enter(stage.Verify)
	return s.b.count.scanned(ctx, r)
}

// encode appends the entries of a batch to the ingest worker.
func (s *scanner) encode(ctx context.Context, batch *kv.RowBatch, physicalID int64) (full bool, err error) {
	if err := s.enc.bind(batch, physicalID); err != nil {
		return false, err
	}
	for k, enc := range s.enc.indexes {
		target := s.targets[k]
		err := enc.encode(func(_ int, kv []byte, klen int) error {
			if err := s.out.Append(target, kv, klen); err != nil {
				return err
			}
			return s.out.MakeRoom(ctx)
		})
		if err != nil {
			return false, err
		}
	}
	return s.out.EndBatch(ctx)
}
