package jobs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"fastddl/ddl/job"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/internal/backoff"
	"fastddl/internal/errs"
	"fastddl/internal/sleep"
)

// task is an import while it runs. Its goroutine takes it from step to step; a cancellation writes the record beside it, and ends what the
// goroutine does.
type task struct {
	j     *Jobs
	rowID int64
	// stored is the record as it was read or written last.
	stored atomic.Pointer[Record]
	// query has the rows of an import from a query; nil after a restart, and of files.
	query *query
	// loading is how far the load is, nil before it. begun is when the import was queued, or went on after a restart.
	loading atomic.Pointer[loading]
	begun   time.Time

	// mu guards interrupt, which ends the action that is under way, and stopped, which is why actions are to end that can be undone.
	mu        sync.Mutex
	interrupt context.CancelCauseFunc
	stopped   error

	// done is closed when the goroutine ends. Then err is why the import has failed, nil if it has not, ErrClosed if it has not ended;
	// warnings are for the session.
	done     chan struct{}
	err      error
	warnings []error
	// ended says that the import has ended, and failure keeps the error of this process, of which the record has the text only.
	ended   bool
	failure error
}

var (
	errCancelled = errors.New("cancelled by user")
	// errMoved says that the record was changed by another: by a cancellation.
	errMoved = errors.New("imports: the record of the import was changed meanwhile")
	// errLostQuery ends an import from a query whose session was in an earlier process.
	errLostQuery = errors.New("the server was restarted during the import")
	// errRestored ends an import that ran when the backup was taken of which its store was restored.
	errRestored = errors.New("the store was restored from a backup that was taken during the import")
)

func newTask(j *Jobs, r *Record) *task {
	t := &task{j: j, rowID: r.Import.RowID, done: make(chan struct{}), begun: time.Now()}
	t.stored.Store(r)
	return t
}

// record is the record as of the last change. It must not be changed.
func (t *task) record() *Record { return t.stored.Load() }

const minRetry, maxRetry = 20 * time.Millisecond, 5 * time.Second

// run takes the import to its end, unless ctx ends before.
func (t *task) run(ctx context.Context) {
	var unsettled error // of an action that has failed, while the record could not be read and changed
	for failures := int64(0); ; {
		err := unsettled
		if err == nil {
			err = t.step(ctx)
		}
		switch {
		case t.ended:
			t.err = t.outcome()
			t.j.Exclusion.admit(t.record())
			t.emitEnd()
			return
		case ctx.Err() != nil, errors.Is(err, errKilled):
			t.err = ErrClosed
			return
		case err == nil:
			failures = 0
			continue
		}
		settled, failed := t.settle(ctx, err)
		if settled {
			failures, unsettled = 0, nil
			continue
		}
		// An action is not repeated before it is known what its failure means: a query cannot be read again, and would end with another error.
		if unsettled = nil; failed != nil {
			unsettled = err
		}
		failures++
		t.j.opts.Logger.Warn("an import tries again", zap.Int64("job", t.rowID), zap.String("step", string(t.record().Step)), zap.Error(errors.Join(err, failed)))
		if !sleep.For(ctx, backoff.Exponential(failures, minRetry, maxRetry)) {
			t.err = ErrClosed
			return
		}
	}
}

// errKilled is what a Hook returns to stop an import as if the process had died.
var errKilled = errors.New("imports: stopped by a hook")

// step executes the action of the record's step, which a cancellation ends.
func (t *task) step(ctx context.Context) error {
	step := t.record().Step
	if err := t.hook(ctx, "before", step); err != nil {
		return err
	}
	action, cancel := context.WithCancelCause(ctx)
	t.mu.Lock()
	t.interrupt = cancel
	if t.stopped != nil && t.record().cancellable() { // before there was an action to interrupt
		cancel(t.stopped)
	}
	t.mu.Unlock()
	defer cancel(nil)
	err := contained("an import", func() error { return t.act(action, step) })
	var panicked *errs.PanicError
	if errors.As(err, &panicked) {
		t.j.opts.Logger.Error("panic in an import", zap.Int64("job", t.rowID), zap.Any("panic", panicked.Value), zap.ByteString("stack", panicked.Stack))
	}
	if err != nil && action.Err() != nil {
		err = context.Cause(action)
	}
	if err != nil {
		return err
	}
	return t.hook(ctx, "after", step)
}

// stop ends the action that is under way, which fails with why.
func (t *task) stop(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = why
	if t.interrupt != nil {
		t.interrupt(why)
	}
}

func (t *task) hook(ctx context.Context, when string, step Step) error {
	if err := t.j.opts.Hook(ctx, HookPoint{RowID: t.rowID, When: when, Step: step}); err != nil {
		return errors.Join(errKilled, err)
	}
	return nil
}

// settle decides after an action has failed, by the record as it is now: the action may have been done, or the import cancelled, all the
// same. It returns false if the same action is to be tried again, and the error of its own transaction, after which it is called again.
func (t *task) settle(ctx context.Context, why error) (settled bool, err error) {
	before := t.record()
	err = t.j.sessions.InTxn(ctx, func(x *session.Txn) error {
		now, err := read(x, t.rowID)
		if err != nil {
			return err
		}
		if now == nil { // the end was committed, though it did not look so
			t.ended = true
			return nil
		}
		if now.Revision == before.Revision && now.failed(why) {
			now.Cancelled = errors.Is(why, schema.ErrRowTaken) // by a user, or by TiDB
			if err := update(x, now); err != nil {
				return err
			}
		}
		t.stored.Store(now)
		return t.j.opts.Hook(x.Ctx, HookPoint{RowID: t.rowID, When: "settling", Step: before.Step})
	})
	if err != nil {
		t.stored.Store(before)
		t.ended = false
		return false, err
	}
	if t.ended {
		return true, nil
	}
	now := t.record()
	if now.Revision == before.Revision {
		return false, nil
	}
	if now.Step == StepUndoing && !now.Cancelled && t.failure == nil {
		t.failure = why
	}
	return true, nil
}

// outcome is the error of an import that has ended.
func (t *task) outcome() error {
	r := t.record()
	switch {
	case r.Cancelled:
		return errCancelled
	case t.failure != nil:
		return t.failure
	case r.Error != "":
		return errors.New(r.Error)
	}
	return nil
}

// advance writes the record that change makes, in a transaction with what else it does. It fails with errMoved if the import was cancelled
// meanwhile, and with schema.ErrRowTaken if its row in TiDB's queue was taken.
func (t *task) advance(ctx context.Context, change func(x *session.Txn, after *Record) error) error {
	for failures := int64(1); ; failures++ {
		err := t.tryAdvance(ctx, change)
		passes := err != nil && job.FindTerror(err) == nil && !errors.Is(err, errMoved) && !errors.Is(err, schema.ErrRowTaken) && !errors.Is(err, errKilled)
		if !passes || failures == maxTries || !sleep.For(ctx, backoff.Exponential(failures, minRetry, maxRetry)) {
			return err
		}
	}
}

// maxTries is how often an import tries to write its next step before it is undone: what was loaded is worth some.
const maxTries = 6

func (t *task) tryAdvance(ctx context.Context, change func(x *session.Txn, after *Record) error) error {
	var after Record
	err := t.j.sessions.InTxn(ctx, func(x *session.Txn) error {
		after = *t.record()
		now, err := read(x, t.rowID)
		if err != nil {
			return err
		}
		if now == nil || now.Revision != after.Revision {
			return errMoved
		}
		if err := schema.TouchImport(x, &after.Import); err != nil {
			return err
		}
		if err := change(x, &after); err != nil {
			return err
		}
		if err := update(x, &after); err != nil {
			return err
		}
		return t.hook(x.Ctx, "within", t.record().Step)
	})
	if err == nil {
		t.stored.Store(&after)
	}
	return err
}

// cancel has the import undone, if it still can be.
func (t *task) cancel(ctx context.Context) error {
	var after *Record
	err := t.j.sessions.InTxn(ctx, func(x *session.Txn) error {
		now, err := read(x, t.rowID)
		if err != nil {
			return err
		}
		if now == nil || !now.cancellable() {
			after = nil
			return nil
		}
		now.undo(true, nil)
		after = now
		return update(x, now)
	})
	if err != nil {
		return err
	}
	if after == nil {
		return errCannotCancel.FastGenByArgs("CANCEL")
	}
	t.stop(errCancelled)
	return nil
}
