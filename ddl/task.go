package ddl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/catalog"
	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// errRequested interrupts an action because a client has asked something of the
// job.
var errRequested = errors.New("ddl: job was asked to stop what it does")

// task is a job in this process: its machine and the goroutine that does what
// the machine says.
type task struct {
	d  *DDL
	id int64
	// running is guarded by d.mu.
	running bool

	// mu is held while the job's record is written, so that requests of clients
	// and the worker's progress do not overwrite each other.
	mu      sync.Mutex
	machine *job.Machine
	// unsettled is the error of a write of the record that may have been made all
	// the same: the machine's record is what is stored, or the one before. Nil if
	// the two are the same.
	unsettled error
	// lost is why the job is not in the queue.
	lost error
	// interrupt ends the action that runs now; nil if it cannot be.
	interrupt context.CancelCauseFunc
	// requested is signalled when a request has changed.
	requested chan struct{}

	// done is closed when the job has ended, with its record, or when its worker
	// has stopped without ending it, with the reason.
	done   chan struct{}
	result *job.Job
	err    error
	// lockWait is closed when the job waits for the metadata lock to roll back.
	lockWait     chan struct{}
	lockWaitOnce sync.Once

	hold kv.GCHold // the worker's
	view *view
	// settings are those of the record, for the build.
	settings ingest.LiveSettings
}

func newTask(d *DDL, j *job.Job) *task {
	t := &task{
		d: d, id: j.ID, machine: job.NewMachine(j), view: new(view),
		requested: make(chan struct{}, 1), done: make(chan struct{}), lockWait: make(chan struct{}),
	}
	t.settings.Set(liveSettings(j.Settings))
	d.views.Store(j.ID, t.view)
	return t
}

// snapshot returns a copy of the job's record as of now.
func (t *task) snapshot() *job.Job {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := *t.machine.Job()
	return &j
}

func (t *task) emit(e event.Event) { t.d.opts.Bus.Emit(e) }

// run does what the machine says until the job has ended.
func (t *task) run(ctx context.Context) {
	var err error
	for err == nil && !t.snapshot().Ended() {
		err = t.step(ctx)
	}
	if errors.Is(err, ErrNotOwner) {
		// The owner of the next term holds GC for the job, if it needs that.
		err = errs.Also(err, t.dropHold(context.WithoutCancel(ctx)))
	}
	t.err = err
	if err == nil {
		t.result = t.snapshot()
		t.d.ended(t)
	} else if ctx.Err() == nil {
		// The job was never queued. Or a hook has stopped it: as far as this process
		// goes it is dead.
		t.d.ended(t)
	}
	close(t.done)
}

// step does one action. It fails only if the process ends, or if there is no such
// job.
func (t *task) step(ctx context.Context) error {
	t.mu.Lock()
	if t.unsettled != nil || t.lost != nil { // by whoever queued the job, or by a request
		t.mu.Unlock()
		_, err := t.resolve(ctx)
		return err
	}
	from := t.machine.Job().State
	t.machine.Start()
	act, to := t.machine.Next()
	t.emitState(from, t.machine.Job())
	actCtx, cancel := context.WithCancelCause(ctx)
	t.interrupt = cancel
	t.mu.Unlock()
	defer cancel(nil)

	point := HookPoint{JobID: t.id, When: "before", Action: string(act), Step: string(to)}
	if err := t.d.opts.Hook(ctx, point); err != nil {
		return err
	}
	err := t.do(actCtx, act, to)
	moved, unknown := t.resolve(ctx)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case unknown != nil:
		return unknown
	case err == nil:
		point.When = "after"
		return t.d.opts.Hook(ctx, point)
	case moved, errors.Is(err, errRequested), errors.Is(context.Cause(actCtx), errRequested):
		// The record, or what is asked of the job, is not what it was.
		return nil
	}
	t.failed(act, err)
	return nil
}

func (t *task) failed(act job.Action, err error) {
	t.mu.Lock()
	from := t.machine.Job().State
	retry := t.machine.Failed(err, t.d.opts.Globals.Int(config.ErrorCountLimit))
	attempt := int(t.machine.Job().ErrorCount)
	t.emitState(from, t.machine.Job())
	t.mu.Unlock()
	if retry {
		t.emit(event.Retry{Job: event.Job{ID: t.id}, Op: string(act), Attempt: attempt, Err: err})
	}
}

func (t *task) do(ctx context.Context, act job.Action, to job.Step) error {
	switch act {
	case job.ActWaitLock:
		return t.waitLock(ctx)
	case job.ActChangeSchema:
		return t.changeSchema(ctx, to)
	case job.ActTakeSnapshot:
		return t.takeSnapshot(ctx, to)
	case job.ActBackfill:
		return t.backfill(ctx, to)
	case job.ActCheckUnique:
		return t.checkUnique(ctx, to)
	case job.ActFinish:
		return t.finish(ctx, to)
	case job.ActSleep:
		return t.sleep(ctx)
	case job.ActPark:
		return t.park(ctx)
	}
	return fmt.Errorf("unknown action %s", act)
}

// sleep waits before the next attempt.
func (t *task) sleep(ctx context.Context) error {
	t.mu.Lock()
	d := t.machine.BackoffTime()
	t.mu.Unlock()
	t.view.setRetry()
	defer t.view.setWait("")
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.machine.Slept()
	return nil
}

// park waits until a client wants something else of a paused job.
func (t *task) park(ctx context.Context) error {
	if err := t.recordPause(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-t.requested:
	}
	return nil
}

// recordPause makes it durable that the job is paused, if it is to be.
func (t *task) recordPause(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.machine.Job()
	if j.State == model.JobStatePaused || j.Request != job.RequestPause {
		return nil
	}
	return t.write(ctx, j.Step, func(_ context.Context, _ *catalog.Mutation, after *job.Job) error {
		after.State = model.JobStatePaused
		return nil
	})
}

// request puts a client's request on the job, durably, and interrupts what the
// job does.
func (t *task) request(ctx context.Context, r job.Request) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.settle(ctx); err != nil {
		return err
	}
	if t.lost != nil {
		return t.lost
	}
	j := *t.machine.Job()
	if j.Ended() {
		return (&job.Job{ID: t.id, Step: job.StepFinished}).SetRequest(r)
	}
	before := j.Request
	if err := j.SetRequest(r); err != nil {
		return err
	}
	if before == r {
		return nil
	}
	err := t.write(ctx, j.Step, func(_ context.Context, _ *catalog.Mutation, after *job.Job) error {
		return after.SetRequest(r)
	})
	if err == nil || t.unsettled != nil {
		t.wake()
	}
	return err
}

func (d *DDL) removeFiles(jobID int64) error {
	if err := os.RemoveAll(ingest.JobDir(d.opts.TempDir, jobID)); err != nil {
		return fmt.Errorf("remove files of job %d: %w", jobID, err)
	}
	return nil
}
