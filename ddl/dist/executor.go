package dist

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
	"fastddl/backfill/compare"
	"fastddl/backfill/execution"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// tempPause is how long this node avoids subtasks that have found no room in the temp folder.
const tempPause = time.Second

// errHalted ends the build of a subtask that is not wanted at the moment.
var errHalted = errors.New("ddl: the part is not wanted at the moment")

// executor builds or compares subtasks of one job for this node, as long as there are any.
type executor struct {
	n     *Node
	lease *Lease
	jobID int64
	last  int64 // subtask that it has claimed, -1 if none
}

// holding are the subtasks of a job that this node holds at one time: those that it builds
// together, or one that it compares.
type holding struct {
	snapshotTS uint64
	record     *job.Record
	live       ingest.LiveSettings
	shown      progressView

	mu       sync.Mutex
	subtasks []*heldSubtask // in the order in which they were claimed
}

// heldSubtask is one of them, with what it needs to be built.
type heldSubtask struct {
	Subtask
	spec       execution.Subtask
	checkpoint []byte
}

// all returns the subtasks that are held now.
func (h *holding) all() []*heldSubtask {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.subtasks)
}

func (h *holding) add(p *heldSubtask) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subtasks = append(h.subtasks, p)
}

func (h *holding) has(number int64) bool {
	return slices.ContainsFunc(h.all(), func(p *heldSubtask) bool { return p.Number == number })
}

// startExecutors has this node build subtasks that are open, of any job, and look after those that
// are its own since a claim whose answer was lost.
func (n *Node) startExecutors(lease *Lease) error {
	rows, err := n.opts.Sessions.Query(lease.Ctx, `SELECT DISTINCT job_id FROM mysql.fastddl_build_parts WHERE wanted AND state = %? OR state = %? AND holder = %?`,
		string(Open), string(Held), lease.Name())
	if err != nil {
		return err
	}
	for _, row := range rows {
		n.startExecutor(lease, row.GetInt64(0))
	}
	return nil
}

// startExecutor begins to build subtasks of a job, unless this node does already, or has enough to
// do: each subtask takes one worker or more.
func (n *Node) startExecutor(lease *Lease, jobID int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if lease.Ctx.Err() != nil || lease != n.lease || n.executing[jobID] || len(n.executing) >= flow.Cores() {
		return
	}
	n.executing[jobID] = true
	lease.executors.Go(func() {
		defer func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.executing, jobID)
		}()
		h := &executor{n: n, lease: lease, jobID: jobID, last: -1}
		if err := n.opts.Contain("the build of parts", h.run); err != nil && lease.Ctx.Err() == nil {
			n.opts.Logger.Warn("cannot help with an index build", zap.Int64("job", jobID), zap.Error(err))
		}
	})
}

// run builds subtasks until there is none for this node.
func (h *executor) run() error {
	for h.lease.Ctx.Err() == nil {
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

// claim takes a subtask of the job, the first or one more to what is held, and returns nil if
// there is none for this node. It locks the job's record, so that no two nodes claim at the
// same time, and none after the job has changed.
func (h *executor) claim(held *holding) (claimed *heldSubtask, err error) {
	var record *job.Record
	var settings job.Settings
	var snapshotTS uint64
	first, released := len(held.all()) == 0, false
	err = h.n.opts.Sessions.InTxn(h.lease.Ctx, func(x *session.Txn) error {
		claimed = nil
		r, s, err := records.Lock(x, h.jobID)
		if err != nil || r == nil {
			return err
		}
		subtasks, err := readSubtasks(x, h.jobID)
		if err != nil {
			return err
		}
		eligible := h.eligible(r)
		if released, err = h.release(x, Forgotten(bare(subtasks), h.lease.Name(), held.has, eligible)); err != nil || released {
			return err
		}
		if !eligible || s.Limits(h.n.opts.Now()).Closed || len(subtasks) == 0 || !wantsSubtasks(r, subtasks[0].snapshotTS) || !first && subtasks[0].snapshotTS != held.snapshotTS {
			return err
		}
		c := Claimant{
			Member: h.lease.Name(), MaxNodes: r.Nodes.Max, Last: h.last,
			Avoid: func(number int64) bool { return h.n.avoids(h.jobID, number) },
		}
		if !first {
			c.Holds = held.has
		}
		p, ok := Choose(bare(subtasks), c)
		if !ok {
			return nil
		}
		claimed = &heldSubtask{Subtask: p.Claimed(h.lease.Name())}
		record, settings, snapshotTS = r, s, subtasks[0].snapshotTS
		if err := claimed.read(x, h.jobID); err != nil {
			return err
		}
		if !h.lease.Alive() {
			return records.ErrLost
		}
		return setHolder(x, h.jobID, claimed.Subtask)
	})
	if err == nil && released {
		h.n.nudgeSubtasks()
		h.n.opts.Cluster.Notify(h.lease.Ctx)
	}
	if err != nil || claimed == nil {
		return nil, err
	}
	if first {
		held.record, held.snapshotTS = record, snapshotTS
		held.live.Set(LiveSettings(settings))
	}
	held.add(claimed)
	h.last = claimed.Number
	return claimed, nil
}

// release opens subtasks that this node holds by claims whose answers were lost. There is one
// executor for a job in each lease, so none builds them.
func (h *executor) release(x *session.Txn, forgotten []Subtask) (released bool, err error) {
	for _, p := range forgotten {
		if !h.lease.Alive() {
			return false, records.ErrLost
		}
		if err := setHolder(x, h.jobID, p.Released(Open)); err != nil {
			return false, err
		}
	}
	return len(forgotten) > 0, nil
}

// next claims one more subtask to build with those that are held. An error of that is
// no error of theirs.
func (h *executor) next(held *holding) (p backfill.HeldSubtask, ok bool) {
	if held.all()[0].MayFailAgain() {
		return p, false
	}
	claimed, err := h.claim(held)
	if err != nil && h.lease.Ctx.Err() == nil {
		h.n.opts.Logger.Info("cannot claim another part of an index build", zap.Int64("job", h.jobID), zap.Error(err))
	}
	if claimed == nil {
		return p, false
	}
	return backfill.HeldSubtask{Subtask: claimed.spec, Checkpoint: claimed.checkpoint, Wrong: claimed.Wrong}, true
}

// read reads what package backfill has kept of the subtask.
func (p *heldSubtask) read(x *session.Txn, jobID int64) error {
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

// eligible says that this node may build subtasks of a job. Its owner always may: otherwise a
// job whose scope has lost its last node would wait for ever.
func (h *executor) eligible(r *job.Record) bool {
	return r.Known() && (r.Owner == h.lease.Name() || r.Nodes.Scope == h.n.opts.Scope())
}

// wantsSubtasks says that a job is at the point where subtasks at a snapshot are built, or
// compared.
func wantsSubtasks(r *job.Record, snapshotTS uint64) bool {
	building := r.Step == job.StepSnapshot && r.SnapshotTS == snapshotTS
	comparing := (r.Step == job.StepDrained || r.Step == job.StepReady) && r.SnapshotTS < snapshotTS
	return (building || comparing) && r.Request == job.RequestNone && !r.RollingBack()
}

// build builds what is held, and more with it, and gives all back as it is then.
func (h *executor) build(held *holding) error {
	ctx, cancel := context.WithCancelCause(h.lease.Ctx)
	defer cancel(nil)
	stop := h.watch(ctx, cancel, held)
	results, err := h.backfill(ctx, held)
	cause := context.Cause(ctx)
	cancel(nil)
	stop()
	if err := h.n.opts.RemoveFiles(h.jobID); err != nil {
		h.n.opts.Logger.Warn("the files of a part stay until the next one of its job", zap.Int64("job", h.jobID), zap.Error(err))
	}
	back := openAgain(held.all(), err)
	first := &back[0]
	switch {
	case !h.lease.Alive() || errors.Is(cause, records.ErrLost):
		return records.ErrLost // they are another node's now, or will be
	case err == nil:
		h.n.noteSuccess(h.jobID)
		for i := range back {
			back[i].to, back[i].result = Done, results[i]
		}
	case cause != nil: // it was halted, or this node leaves
	case errors.Is(err, kv.ErrSnapshotTooOld), job.IsPermanent(err):
		first.to, first.result, first.err = Failed, failureOf(err), err
	case errs.NoSpace(err): // nothing is wrong with the job; this node rests
		h.n.opts.Logger.Warn("parts of an index build have found no room here and are given back", zap.Int64("job", h.jobID), zap.Error(err))
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
		h.n.opts.Bus.Emit(event.Retry{
			Job: event.Job{ID: h.jobID}, Op: fmt.Sprintf("part %d", first.Number), Attempt: int(first.Failures), Err: err,
		})
	}
	return h.giveBack(held, back)
}

// backfill makes the entries of the subtasks durable, or sums up what is to be compared, and
// returns a result for each subtask.
func (h *executor) backfill(ctx context.Context, held *holding) (results []execution.SubtaskResult, err error) {
	var costs kv.Meter
	err = h.n.opts.Contain("the build of a part", func() error {
		task, err := h.n.opts.BuildTask(ctx, held.record, held.snapshotTS)
		if err != nil {
			return err
		}
		bus, unsubscribe := held.shown.bus(h.n.opts.Bus)
		defer unsubscribe()
		first := held.all()[0]
		ctx := kv.WithPermit(session.Charged(ctx, held.record.ResourceGroup), h.lease.Permit)
		ctx = kv.WithMeter(ctx, h.n.opts.Builds, &costs)
		if first.spec.Compares() {
			result, err := h.n.opts.Builder.CompareSubtask(ctx, SubtaskTask{
				SubtaskSpec: compare.SubtaskSpec{Task: task, Subtask: first.spec},
				TempDir:     h.n.opts.TempDir, Settings: &held.live, Bus: bus,
			})
			results = []execution.SubtaskResult{result}
			return err
		}
		results, err = h.n.opts.Builder.BackfillSubtasks(ctx, SubtasksTask{
			SubtasksSpec: backfill.SubtasksSpec{
				Task: task, First: backfill.HeldSubtask{Subtask: first.spec, Checkpoint: first.checkpoint, Wrong: first.Wrong},
				Next: func(context.Context) (backfill.HeldSubtask, bool, error) {
					p, ok := h.next(held)
					return p, ok, nil
				},
				Save: func(ctx context.Context, checkpoints [][]byte) error { return h.save(ctx, held, checkpoints) },
			},
			TempDir: h.n.opts.TempDir, Settings: &held.live, Bus: bus,
		})
		return err
	})
	if len(results) > 0 {
		results[0].Stores = costs.Costs()
	}
	return results, err
}

// save keeps checkpoints of the subtasks that were claimed first.
func (h *executor) save(ctx context.Context, held *holding, checkpoints [][]byte) error {
	subtasks := held.all()[:len(checkpoints)]
	return h.write(ctx, subtasks, func(x *session.Txn) error {
		for i, p := range subtasks {
			if err := x.Exec(`UPDATE mysql.fastddl_build_parts SET checkpoint = %? WHERE job_id = %? AND part = %?`,
				checkpoints[i], h.jobID, p.Number); err != nil {
				return err
			}
		}
		return nil
	})
}

// write writes for subtasks that this node holds; it fails with records.ErrLost if it does not hold
// them all.
func (h *executor) write(ctx context.Context, subtasks []*heldSubtask, fn func(x *session.Txn) error) error {
	return h.n.opts.Sessions.InTxn(ctx, func(x *session.Txn) error {
		if !h.lease.Alive() {
			return records.ErrLost
		}
		for _, p := range subtasks {
			now, err := readSubtask(x, h.jobID, p.Number)
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
