package ddl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/ddl/crew"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/background"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// tempPause is how long this node avoids parts that have found no room in the temp folder.
const tempPause = time.Second

// errHalted ends the build of a part that is not wanted at the moment.
var errHalted = errors.New("ddl: the part is not wanted at the moment")

// executor builds or compares parts of one job for this node, as long as there are any.
type executor struct {
	n     *node
	in    *lease
	jobID int64
	last  int64 // part that it has claimed, -1 if none
}

// holding are the parts of a job that this node holds at one time: those that it builds
// together, or one that it compares.
type holding struct {
	snapshotTS uint64
	record     *job.Record
	live       ingest.LiveSettings
	shown      partView

	mu    sync.Mutex
	parts []*heldPart // in the order in which they were claimed
}

// heldPart is one of them, with what it needs to be built.
type heldPart struct {
	crew.Part
	spec       backfill.Part
	checkpoint []byte
}

// all returns the parts that are held now.
func (h *holding) all() []*heldPart {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.parts)
}

func (h *holding) add(p *heldPart) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parts = append(h.parts, p)
}

func (h *holding) has(number int64) bool {
	return slices.ContainsFunc(h.all(), func(p *heldPart) bool { return p.Number == number })
}

// startExecutors has this node build parts that are open, of any job, and look after those that
// are its own since a claim whose answer was lost.
func (n *node) startExecutors(in *lease) error {
	rows, err := n.opts.sessions.Query(in.ctx, `SELECT DISTINCT job_id FROM mysql.fastddl_build_parts WHERE wanted AND state = %? OR state = %? AND holder = %?`,
		string(crew.Open), string(crew.Held), in.name())
	if err != nil {
		return err
	}
	for _, row := range rows {
		n.startExecutor(in, row.GetInt64(0))
	}
	return nil
}

// startExecutor begins to build parts of a job, unless this node does already, or has enough to
// do: each part takes one worker or more.
func (n *node) startExecutor(in *lease, jobID int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if in.ctx.Err() != nil || in != n.lease || n.executing[jobID] || len(n.executing) >= background.Cores() {
		return
	}
	n.executing[jobID] = true
	in.executors.Go(func() {
		defer func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.executing, jobID)
		}()
		h := &executor{n: n, in: in, jobID: jobID, last: -1}
		if err := n.opts.contain("the build of parts", h.run); err != nil && in.ctx.Err() == nil {
			n.opts.logger.Warn("cannot help with an index build", zap.Int64("job", jobID), zap.Error(err))
		}
	})
}

// run builds parts until there is none for this node.
func (h *executor) run() error {
	for h.in.ctx.Err() == nil {
		held := new(holding)
		p, err := h.claim(held)
		if err != nil || p == nil {
			return err
		}
		if err := h.build(held); err != nil {
			return err
		}
	}
	return nil
}

// claim takes a part of the job, the first or one more to what is held, and returns nil if
// there is none for this node. It locks the job's record, so that no two nodes claim at the
// same time, and none after the job has changed.
func (h *executor) claim(held *holding) (claimed *heldPart, err error) {
	var record *job.Record
	var settings job.Settings
	var snapshotTS uint64
	first, released := len(held.all()) == 0, false
	err = h.n.opts.sessions.InTxn(h.in.ctx, func(x *session.Txn) error {
		claimed = nil
		r, s, err := records.Lock(x, h.jobID)
		if err != nil || r == nil {
			return err
		}
		parts, err := partsOf(x, h.jobID)
		if err != nil {
			return err
		}
		eligible := h.eligible(r)
		if released, err = h.release(x, crew.Forgotten(rules(parts), h.in.name(), held.has, eligible)); err != nil || released {
			return err
		}
		if !eligible || len(parts) == 0 || !wantsParts(r, parts[0].snapshotTS) || !first && parts[0].snapshotTS != held.snapshotTS {
			return err
		}
		c := crew.Claimant{
			Member: h.in.name(), MaxNodes: r.Nodes.Max, Last: h.last,
			Avoid: func(number int64) bool { return h.n.avoids(h.jobID, number) },
		}
		if !first {
			c.Holds = held.has
		}
		p, ok := crew.Choose(rules(parts), c)
		if !ok {
			return nil
		}
		claimed = &heldPart{Part: p.Claimed(h.in.name())}
		record, settings, snapshotTS = r, s, parts[0].snapshotTS
		if err := claimed.read(x, h.jobID); err != nil {
			return err
		}
		if !h.in.alive() {
			return records.ErrLost
		}
		return setPart(x, h.jobID, claimed.Part)
	})
	if err == nil && released {
		h.n.nudgeSubtasks()
		h.n.opts.cluster.Notify(h.in.ctx)
	}
	if err != nil || claimed == nil {
		return nil, err
	}
	if first {
		held.record, held.snapshotTS = record, snapshotTS
		held.live.Set(liveSettings(settings))
	}
	held.add(claimed)
	h.last = claimed.Number
	return claimed, nil
}

// release opens parts that this node holds by claims whose answers were lost. There is one
// executor for a job in each lease, so none builds them.
func (h *executor) release(x *session.Txn, forgotten []crew.Part) (released bool, err error) {
	for _, p := range forgotten {
		if !h.in.alive() {
			return false, records.ErrLost
		}
		if err := setPart(x, h.jobID, p.Released(crew.Open)); err != nil {
			return false, err
		}
	}
	return len(forgotten) > 0, nil
}

// next claims one more part to build with those that are held. An error of that is
// no error of theirs.
func (h *executor) next(held *holding) (p backfill.HeldPart, ok bool) {
	if held.all()[0].Failures > 0 { // it may fail again
		return p, false
	}
	claimed, err := h.claim(held)
	if err != nil && h.in.ctx.Err() == nil {
		h.n.opts.logger.Info("cannot claim another part of an index build", zap.Int64("job", h.jobID), zap.Error(err))
	}
	if claimed == nil {
		return p, false
	}
	return backfill.HeldPart{Part: claimed.spec, Checkpoint: claimed.checkpoint}, true
}

// read reads what package backfill has kept of the part.
func (p *heldPart) read(x *session.Txn, jobID int64) error {
	rows, err := x.Query(`SELECT spec, checkpoint FROM mysql.fastddl_build_parts WHERE job_id = %? AND part = %?`, jobID, p.Number)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return records.ErrLost
	}
	if err := json.Unmarshal(rows[0].GetBytes(0), &p.spec); err != nil {
		return fmt.Errorf("decode part: %w", err)
	}
	if !rows[0].IsNull(1) {
		p.checkpoint = rows[0].GetBytes(1)
	}
	return nil
}

// eligible says that this node may build parts of a job. Its owner always may: otherwise a
// job whose scope has lost its last node would wait for ever.
func (h *executor) eligible(r *job.Record) bool {
	return r.Known() && (r.Owner == h.in.name() || r.Nodes.Scope == h.n.opts.scope())
}

// wantsParts says that a job is at the point where parts at a snapshot are built, or
// compared.
func wantsParts(r *job.Record, snapshotTS uint64) bool {
	building := r.Step == job.StepSnapshot && r.SnapshotTS == snapshotTS
	comparing := r.Step == job.StepDrained && r.SnapshotTS < snapshotTS
	return (building || comparing) && r.Request == job.RequestNone && !r.RollingBack()
}

// build builds what is held, and more with it, and gives all back as it is then.
func (h *executor) build(held *holding) error {
	ctx, cancel := context.WithCancelCause(h.in.ctx)
	defer cancel(nil)
	stop := h.watch(ctx, cancel, held)
	results, err := h.backfill(ctx, held)
	cause := context.Cause(ctx)
	cancel(nil)
	stop()
	if err := h.n.opts.removeFiles(h.jobID); err != nil {
		h.n.opts.logger.Warn("the files of a part stay until the next one of its job", zap.Int64("job", h.jobID), zap.Error(err))
	}
	parts := held.all()
	back := make([]returned, len(parts))
	for i, p := range parts {
		back[i] = returned{heldPart: p, to: crew.Open}
	}
	first := &back[0]
	switch {
	case !h.in.alive() || errors.Is(cause, records.ErrLost):
		return records.ErrLost // they are another node's now, or will be
	case err == nil:
		h.n.noteSuccess(h.jobID)
		for i := range back {
			back[i].to, back[i].result = crew.Done, results[i]
		}
	case cause != nil: // it was halted, or this node leaves
	case errors.Is(err, kv.ErrSnapshotTooOld), job.IsPermanent(err):
		first.to, first.result, first.err = crew.Failed, failureOf(err), err
	case errs.NoSpace(err): // nothing is wrong with the job; this node rests
		h.n.opts.logger.Warn("parts of an index build have found no room here and are given back", zap.Int64("job", h.jobID), zap.Error(err))
		for i := range back {
			back[i].err = err
		}
		h.n.noteFailure(h.jobID, first.Number, tempPause)
	default: // the first one's failure: it is built alone then
		first.Failures++
		for i := range back {
			back[i].err = err
		}
		h.n.noteFailure(h.jobID, first.Number, job.Backoff(first.Failures))
		h.n.opts.bus.Emit(event.Retry{
			Job: event.Job{ID: h.jobID}, Op: fmt.Sprintf("part %d", first.Number), Attempt: int(first.Failures), Err: err,
		})
	}
	return h.giveBack(held, back)
}

// backfill makes the entries of the parts durable, or sums up what is to be compared, and
// returns a result for each part.
func (h *executor) backfill(ctx context.Context, held *holding) (results []backfill.PartResult, err error) {
	err = h.n.opts.contain("the build of a part", func() error {
		task, err := h.n.opts.buildTask(ctx, held.record, held.snapshotTS)
		if err != nil {
			return err
		}
		bus, unsubscribe := held.shown.bus(h.n.opts.bus)
		defer unsubscribe()
		first := held.all()[0]
		ctx := kv.WithPermit(session.Charged(ctx, held.record.ResourceGroup), h.in.permit)
		if first.spec.Compares() {
			result, err := h.n.opts.builder.ComparePart(ctx, PartTask{
				PartSpec: backfill.PartSpec{Task: task, Part: first.spec},
				TempDir:  h.n.opts.tempDir, Settings: &held.live, Bus: bus,
			})
			results = []backfill.PartResult{result}
			return err
		}
		results, err = h.n.opts.builder.BackfillParts(ctx, PartsTask{
			PartsSpec: backfill.PartsSpec{
				Task: task, First: backfill.HeldPart{Part: first.spec, Checkpoint: first.checkpoint},
				Next: func(context.Context) (backfill.HeldPart, bool, error) {
					p, ok := h.next(held)
					return p, ok, nil
				},
				Save: func(ctx context.Context, checkpoints [][]byte) error { return h.save(ctx, held, checkpoints) },
			},
			TempDir: h.n.opts.tempDir, Settings: &held.live, Bus: bus,
		})
		return err
	})
	return results, err
}

// save keeps checkpoints of the parts that were claimed first.
func (h *executor) save(ctx context.Context, held *holding, checkpoints [][]byte) error {
	parts := held.all()[:len(checkpoints)]
	return h.write(ctx, parts, func(x *session.Txn) error {
		for i, p := range parts {
			if err := x.Exec(`UPDATE mysql.fastddl_build_parts SET checkpoint = %? WHERE job_id = %? AND part = %?`,
				checkpoints[i], h.jobID, p.Number); err != nil {
				return err
			}
		}
		return nil
	})
}

// write writes for parts that this node holds; it fails with records.ErrLost if it does not hold
// them all.
func (h *executor) write(ctx context.Context, parts []*heldPart, fn func(x *session.Txn) error) error {
	return h.n.opts.sessions.InTxn(ctx, func(x *session.Txn) error {
		if !h.in.alive() {
			return records.ErrLost
		}
		for _, p := range parts {
			now, err := partOf(x, h.jobID, p.Number)
			if err != nil {
				return err
			}
			if now == nil || !now.HeldBy(p.Holder, p.Epoch) {
				return records.ErrLost
			}
		}
		return fn(x)
	})
}
