package ddl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"go.uber.org/zap"

	"fastddl/backfill"
	"fastddl/ddl/crew"
	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/background"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

// errHalted ends the build of a part that is not wanted at the moment.
var errHalted = errors.New("ddl: the part is not wanted at the moment")

// hand builds or compares parts of one job for this node, one after the other.
type hand struct {
	d     *DDL
	in    *tenure
	jobID int64
	last  int64 // part that it has built, -1 if none
}

// heldPart is a part that this node holds, with what it needs to build it.
type heldPart struct {
	crew.Part
	snapshotTS uint64
	record     *job.Record
	spec       backfill.Part
	checkpoint []byte
	live       ingest.LiveSettings
	shown      partView
}

// help has this node build parts that are open, of whatever job.
func (d *DDL) help(in *tenure) error {
	rows, err := d.query(in.ctx, `SELECT DISTINCT job_id FROM mysql.fastddl_build_parts WHERE state = %? AND wanted`, string(crew.Open))
	if err != nil {
		return err
	}
	for _, row := range rows {
		d.lendHand(in, row.GetInt64(0))
	}
	return nil
}

// lendHand begins to build parts of a job, unless this node does already, or has enough to
// do: each part takes a worker at the least.
func (d *DDL) lendHand(in *tenure, jobID int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || in != d.tenure || d.hands[jobID] || len(d.hands) >= background.Cores() {
		return
	}
	d.hands[jobID] = true
	in.hands.Go(func() {
		defer func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			delete(d.hands, jobID)
		}()
		h := &hand{d: d, in: in, jobID: jobID, last: -1}
		if err := d.contained("the build of parts", h.run); err != nil && in.ctx.Err() == nil {
			d.opts.Logger.Warn("cannot help with an index build", zap.Int64("job", jobID), zap.Error(err))
		}
	})
}

// run builds parts until there is none for this node.
func (h *hand) run() error {
	for h.in.ctx.Err() == nil {
		p, err := h.claim()
		if err != nil || p == nil {
			return err
		}
		if err := h.build(p); err != nil {
			return err
		}
		h.last = p.Number
	}
	return nil
}

// claim takes a part of the job; nil if there is none for this node. It locks the job's
// record, so that no two nodes claim at the same time, and none after the job has changed.
func (h *hand) claim() (claimed *heldPart, err error) {
	err = h.d.inTxn(h.in.ctx, func(x *txn) error {
		claimed = nil
		r, settings, err := x.lockRecord(h.jobID)
		if err != nil || r == nil || !h.eligible(r) {
			return err
		}
		parts, err := x.parts(h.jobID)
		if err != nil || len(parts) == 0 || !wantsParts(r, parts[0].snapshotTS) {
			return err
		}
		p, ok := crew.Choose(rules(parts), crew.Claimant{
			Member: h.in.name(), MaxNodes: r.Nodes.Max, Last: h.last,
			Avoid: func(number int64) bool { return h.d.failedJustNow(h.jobID, number) },
		})
		if !ok {
			return nil
		}
		claimed = &heldPart{Part: p.Claimed(h.in.name()), snapshotTS: parts[0].snapshotTS, record: r}
		claimed.live.Set(liveSettings(settings))
		if err := claimed.read(x, h.jobID); err != nil {
			return err
		}
		if !h.in.alive() {
			return errLost
		}
		return x.setPart(h.jobID, claimed.Part)
	})
	return claimed, err
}

// read reads what package backfill has kept of the part.
func (p *heldPart) read(x *txn, jobID int64) error {
	rows, err := x.query(`SELECT spec, checkpoint FROM mysql.fastddl_build_parts WHERE job_id = %? AND part = %?`, jobID, p.Number)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errLost
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
func (h *hand) eligible(r *job.Record) bool {
	return r.Owner == h.in.name() || r.Nodes.Scope == h.d.opts.Scope()
}

// wantsParts says that a job is at the point where parts at a snapshot are built, or
// compared.
func wantsParts(r *job.Record, snapshotTS uint64) bool {
	building := r.Step == job.StepSnapshot && r.SnapshotTS == snapshotTS
	comparing := r.Step == job.StepDrained && r.SnapshotTS < snapshotTS
	return (building || comparing) && r.Request == job.RequestNone && !r.RollingBack()
}

// build builds a part and gives it back as it is then.
func (h *hand) build(p *heldPart) error {
	ctx, cancel := context.WithCancelCause(h.in.ctx)
	defer cancel(nil)
	stop := h.watch(ctx, cancel, p)
	result, err := h.backfill(ctx, p)
	cause := context.Cause(ctx)
	cancel(nil)
	stop()
	if err := h.d.removeFiles(h.jobID); err != nil {
		h.d.opts.Logger.Warn("the files of a part stay until the next one of its job", zap.Int64("job", h.jobID), zap.Error(err))
	}
	switch {
	case !h.in.alive() || errors.Is(cause, errLost):
		return errLost // it is another node's now, or will be
	case err == nil:
		return h.giveBack(p, crew.Done, result, nil)
	case cause != nil: // it was halted, or this node leaves
		return h.giveBack(p, crew.Open, nil, nil)
	case job.IsPermanent(err):
		return h.giveBack(p, crew.Failed, failureOf(err), err)
	}
	p.Failures++
	h.d.noteFailure(h.jobID, p.Number, p.Failures)
	h.d.opts.Bus.Emit(event.Retry{Job: event.Job{ID: h.jobID}, Op: fmt.Sprintf("part %d", p.Number), Attempt: int(p.Failures), Err: err})
	return h.giveBack(p, crew.Open, nil, err)
}

// backfill makes the part's entries durable, or sums up what is to be compared.
func (h *hand) backfill(ctx context.Context, p *heldPart) (result backfill.PartResult, err error) {
	err = h.d.contained("the build of a part", func() error {
		task, err := h.d.buildTask(ctx, p.record, p.snapshotTS)
		if err != nil {
			return err
		}
		bus, unsubscribe := p.shown.bus(h.d.opts.Bus)
		defer unsubscribe()
		part := PartTask{
			PartSpec: backfill.PartSpec{Task: task, Part: p.spec, Checkpoint: p.checkpoint},
			TempDir:  h.d.opts.TempDir, Settings: &p.live, Bus: bus,
			SaveCheckpoint: func(ctx context.Context, data []byte) error {
				return h.write(ctx, p, func(x *txn) error {
					return x.exec(`UPDATE mysql.fastddl_build_parts SET checkpoint = %? WHERE job_id = %? AND part = %?`, data, h.jobID, p.Number)
				})
			},
		}
		ctx := kv.WithPermit(charged(ctx, p.record), h.in.permit)
		if p.spec.Compares() {
			result, err = h.d.opts.Backfiller.ComparePart(ctx, part)
		} else {
			result, err = h.d.opts.Backfiller.BackfillPart(ctx, part)
		}
		return err
	})
	return result, err
}

// write writes for a part that this node holds; it fails with errLost if it does not.
func (h *hand) write(ctx context.Context, p *heldPart, fn func(x *txn) error) error {
	return h.d.inTxn(ctx, func(x *txn) error {
		if !h.in.alive() {
			return errLost
		}
		now, err := x.part(h.jobID, p.Number)
		if err != nil {
			return err
		}
		if now == nil || !now.HeldBy(p.Holder, p.Epoch) {
			return errLost
		}
		return fn(x)
	})
}

// giveBack makes the part what has become of it, and tries that until it is no longer the
// node's. result, if it is not nil, is kept, and why is what an attempt has failed with.
func (h *hand) giveBack(p *heldPart, to crew.State, result any, why error) error {
	var data any
	if result != nil {
		encoded, err := json.Marshal(result)
		if err != nil {
			return fmt.Errorf("encode the result of a part: %w", err)
		}
		data = encoded
	}
	var text any
	if why != nil {
		text = shortened(why.Error(), maxPartError)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.in.ctx))
	defer cancel()
	defer context.AfterFunc(h.in.ctx, func() { // when it is leaving there is not much time
		time.AfterFunc(leaveTimeout, cancel)
	})()
	after := p.Released(to)
	for attempt := int64(1); ; attempt++ {
		err := h.write(ctx, p, func(x *txn) error {
			if err := x.setPart(h.jobID, after); err != nil {
				return err
			}
			rows, imported, percent := p.shown.done(to == crew.Done)
			return x.exec(`UPDATE mysql.fastddl_build_parts SET result = %?, error = %?, row_count = %?, imported_rows = %?, percent = %?
				WHERE job_id = %? AND part = %?`, data, text, rows, imported, percent, h.jobID, p.Number)
		})
		if err == nil {
			h.d.nudgeParts()
			h.d.opts.Cluster.Notify(ctx)
			return nil
		}
		if errors.Is(err, errLost) || !h.in.alive() || !sleep.For(ctx, job.Backoff(attempt)) {
			return err
		}
	}
}

// maxPartError is the number of bytes of an error that a part's row shows.
const maxPartError = 4096

// partKey names a part.
type partKey struct{ jobID, number int64 }

// noteFailure keeps this node from a part for a while. Other nodes may take it at once.
func (d *DDL) noteFailure(jobID, number, failures int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(d.failedParts, func(_ partKey, until time.Time) bool { return !now.Before(until) })
	d.failedParts[partKey{jobID, number}] = now.Add(job.Backoff(failures))
}

func (d *DDL) failedJustNow(jobID, number int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.failedParts[partKey{jobID, number}])
}
