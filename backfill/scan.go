package backfill

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"fastddl/backfill/encode"
	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
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

// scanRound scans tasks, and those of the group from subtasks that join meanwhile, until there are
// none left or the ingest job has to be flushed. It returns the tasks that are left, and
// those that other groups have got.
func (b *build) scanRound(ctx context.Context, job *ingest.Job, g *group, tasks []keyrange.Weighted) (left, others []keyrange.Weighted, err error) {
	start := time.Now()
	defer func() { b.meter.scanning += time.Since(start) }()

	limit := b.Share.Workers()
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
	if b.subtasks.mayGrow() {
		q.fed = true
		workers.Go(func() (err error) {
			others, err = b.feed(ctx, q, g)
			return err
		})
	}
	spawn(limit)
	defer b.Share.OnWorkers(func() { q.setLimit(b.Share.Workers(), spawn) })()

	if err := workers.Wait(); err != nil {
		return nil, nil, err
	}
	return q.remaining(), others, nil
}

// feed gives the queue what further subtasks have in the group whenever it is empty, until there are none, or one has rows of other groups, which it returns.
func (b *build) feed(ctx context.Context, q *queue, g *group) (others []keyrange.Weighted, err error) {
	defer errs.Contain(&err)
	defer q.endFeed()
	for len(others) == 0 && b.subtasks.mayGrow() && q.awaitEmpty(ctx) {
		tasks, err := b.joinSubtask(ctx)
		if err != nil {
			q.stop()
			return nil, err
		}
		var in []keyrange.Weighted
		in, others = g.pick(tasks)
		q.feed(in)
	}
	return others, nil
}

// joinSubtask takes a further subtask, if there is one, and returns what is left of it.
func (b *build) joinSubtask(ctx context.Context) ([]keyrange.Weighted, error) {
	p, ok, err := b.subtasks.next(ctx)
	if err != nil || !ok {
		b.subtasks.next = nil
		return nil, err
	}
	cp, err := b.addSubtask(p)
	if err != nil {
		return nil, err
	}
	tasks := cp.tasks()
	if err := b.tiling.begin(tasks); err != nil {
		return nil, err
	}
	b.Progress.Extend(cp.Weight-keyrange.TotalWeight(tasks), cp.Weight)
	return tasks, nil
}

// scanner is one worker of a round.
type scanner struct {
	b     *build
	q     *queue
	clock *stage.Clock
	out   *ingest.Worker
	pacer *flow.Pacer
	enc   *encode.Encoders

	group   *group
	targets []int // of the physical table that is scanned, by index
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
	defer func() { b.AddCosts(clock.Stop()) }()

	s := &scanner{b: b, q: q, clock: clock, out: job.NewWorker(clock), pacer: b.Share.NewPacer(clock), group: g}
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
	if s.enc, err = encode.NewEncoders(s.b.Projection); err != nil {
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
		s.q.release(c, keyrange.Split(rest, 2)...)
	case decision == yield:
		s.q.release(c, rest)
	default:
		s.q.release(c)
	}
	s.b.opts.Bus.Emit(event.RangeDone{Job: s.b.Job(), Rows: rows, Elapsed: time.Since(begin)})
	return nil
}

// scanRange scans t. It returns early, with what is left of t, when the queue
// says so.
func (s *scanner) scanRange(ctx context.Context, t keyrange.Weighted, rows *int64) (rest keyrange.Weighted, decision action, err error) {
	batches, credited := 0, 0.0
	trailing := execution.TrailingCount{Count: s.count, Start: t.Start}
	physicalID := t.PhysicalID()
	s.targets = s.targets[:0]
	for k := range s.b.Task.Indexes {
		s.targets = append(s.targets, s.group.target(k, physicalID))
	}
	req := s.b.Projection.Request(t.KeyRange, s.b.Task.TS, s.b.BatchRows())
	s.clock.Enter(stage.Scan)
	left := t.KeyRange
	err = s.b.opts.Store.ScanColumns(ctx, req, func(batch *kv.RowBatch) error {
		if err := s.checkBatch(batch, left); err != nil {
			return err
		}
		left.Start = kv.NextKey(batch.LastKey)
		s.clock.Enter(stage.Encode)
		bytes, full, err := s.encode(ctx, batch, physicalID)
		if err != nil {
			return err
		}
		batches++
		*rows += int64(batch.NumRows())
		done := t.Weight * keyrange.Position(t.KeyRange, batch.LastKey)
		s.b.Progress.AddSorted(int64(batch.NumRows()), done-credited, bytes)
		credited = done
		if err := trailing.Scanned(ctx, batch); err != nil {
			return err
		}
		if full {
			s.q.stop()
		} else if err := s.pacer.Pace(ctx); err != nil {
			return err
		}
		if decision = s.q.decide(); decision == share && (batches < batchesBeforeShare || !worthSplitting(t, batch)) {
			decision = proceed
		}
		s.clock.Enter(stage.Scan)
		if decision != proceed {
			rest = keyrange.Weighted{KeyRange: kv.KeyRange{Start: kv.NextKey(batch.LastKey), End: t.End}, Weight: t.Weight - credited}
			return errInterrupted
		}
		return nil
	})
	defer s.clock.Enter(stage.Idle)
	scanned := t.KeyRange
	switch {
	case errors.Is(err, errInterrupted):
		scanned.End = left.Start
	case err != nil:
		return keyrange.Weighted{}, proceed, err
	default:
		s.b.Progress.Add(0, t.Weight-credited)
	}
	if err := s.b.tiling.scanned(scanned); err != nil {
		return keyrange.Weighted{}, proceed, err
	}
	return rest, decision, trailing.Until(ctx, scanned.End)
}

// checkBatch checks a batch of a scan of which left was left: its rows lie there, and they are as many as the store has
// visited, if it counts that.
func (s *scanner) checkBatch(batch *kv.RowBatch, left kv.KeyRange) error {
	if rows := batch.NumRows(); s.b.countsScans && batch.Visited != rows {
		return &execution.RowCountError{Table: s.b.Task.Table.Name.O, Scanned: int64(rows), Keys: int64(batch.Visited), OfBatch: true}
	}
	if !left.Contains(batch.LastKey) {
		return &execution.ScannedRangesError{Table: s.b.Task.Table.Name.O}
	}
	if s.b.countsScans {
		s.b.visited.Add(int64(batch.Visited))
	}
	return nil
}

// worthSplitting says whether behind what the store has read ahead there is more of t than that, which is
// read again if t is shared.
func worthSplitting(t keyrange.Weighted, batch *kv.RowBatch) bool {
	ahead := keyrange.Position(t.KeyRange, batch.ReadTo)
	return 1-ahead > ahead-keyrange.Position(t.KeyRange, batch.LastKey)
}

// count counts what was scanned by keys, if the build does that beside the scan.
func (s *scanner) count(ctx context.Context, r kv.KeyRange) error {
	if s.b.count == nil {
		return nil
	}
	s.clock.Enter(stage.Verify)
	return s.b.count.scanned(ctx, r)
}

// encode appends the entries of a batch to the ingest worker, and returns how many bytes they have.
func (s *scanner) encode(ctx context.Context, batch *kv.RowBatch, physicalID int64) (bytes int64, full bool, err error) {
	if err := s.enc.Bind(batch, physicalID); err != nil {
		return 0, false, err
	}
	for k, enc := range s.enc.Indexes {
		target := s.targets[k]
		err := enc.Encode(func(_ int, kv []byte, klen int) error {
			bytes += int64(len(kv))
			if err := s.out.Append(target, kv, klen); err != nil {
				return err
			}
			return s.out.MakeRoom(ctx)
		})
		if err != nil {
			return 0, false, err
		}
	}
	full, err = s.out.EndBatch(ctx)
	return bytes, full, err
}
