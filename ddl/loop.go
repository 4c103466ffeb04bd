package ddl

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/status"
	"fastddl/event"
	"fastddl/kv"
)

// run takes the job through its steps until it has ended or ctx ends.
func (t *task) run(ctx context.Context) {
	defer close(t.done)
	defer t.stopKeeper()
	defer t.releaseLeft()
	t.recallHistory(ctx)
	report := status.Reporter{Sessions: t.d.sessions, Record: t.Record, Info: t.info, Emit: t.emit, View: &t.view, Contain: t.d.contained}
	defer report.Start(ctx)()
	err := t.d.contained("the loop of a job", func() error { return t.loop(ctx) })
	r := t.machine.Record()
	switch {
	case !r.Ended() && t.isLost(ctx, err):
		t.err = records.ErrLost
		t.giveUp()
	case !r.Ended():
		t.err = ErrClosed
		if ctx.Err() == nil {
			t.d.opts.Logger.Error("an index build has stopped; it goes on after a restart", zap.Int64("job", t.id), zap.Error(err))
			t.err = err
		}
	case r.Error != nil:
		t.err = r.Error
	}
}

// loop returns when the job has ended, with nil, or cannot go on.
func (t *task) loop(ctx context.Context) error {
	// First, since what follows may take long.
	t.answerLeft(ctx)
	if err := t.fence(ctx); err != nil {
		return err
	}
	if err := t.resumeHold(ctx); err != nil {
		return err
	}
	for !t.machine.Record().Ended() {
		before := t.shown.Load()
		t.limit()
		act, to := t.machine.Next()
		t.show()
		t.publishState(before)
		if err := t.perform(ctx, act, to); err != nil {
			return err
		}
	}
	return nil
}

// perform executes one action and the requests that arrive meanwhile.
func (t *task) perform(ctx context.Context, act job.Action, to job.Step) error {
	if err := t.hook(ctx, "before", act, to); err != nil {
		return err
	}
	if why := t.cutShort(act); errors.Is(why, errInterrupted) { // the window has closed since the decision
		return nil
	}
	actCtx, cancel := context.WithCancelCause(kv.WithMeter(ctx, t.d.opts.Builds, t.view.Meter()))
	defer cancel(nil)
	result := make(chan outcome, 1)
	go func() {
		var o outcome
		err := t.d.contained(string(act), func() (err error) {
			o, err = t.do(actCtx, act, to)
			return err
		})
		o.err = err
		result <- o
	}()
	tick := time.NewTicker(limitsInterval)
	defer tick.Stop()
	for {
		select {
		case o := <-result:
			return t.conclude(ctx, act, to, o)
		case <-tick.C:
			why := t.cutShort(act)
			if why == nil {
				continue
			}
			cancel(why)
			o := withCause(why, <-result)
			if err := t.conclude(ctx, act, to, o); err != nil || act != job.ActCompare || !errors.Is(o.err, errInterrupted) {
				return err
			}
			return t.countCut(ctx)
		case k := <-t.lost:
			if k != t.keeper.Load() {
				continue // the action holds at another timestamp now
			}
			cancel(errHoldLost)
			o := withCause(errHoldLost, <-result)
			t.stopKeeper()
			if err := t.conclude(ctx, act, to, o); err != nil || o.err != nil {
				return err
			}
			return t.beginAgain(ctx, errHoldLost) // the action was over already
		case m := <-t.inbox:
			if m.alter != nil && !t.needsProtocol(m.alter) {
				m.answer <- t.alter(ctx, m)
				continue
			}
			if m.alter != nil {
				cancel(errInterrupted)
				err := t.conclude(ctx, act, to, withCause(errInterrupted, <-result))
				m.answer <- t.comply(ctx, m)
				return err
			}
			if err := t.machine.Record().CheckRequest(m.request); err != nil {
				m.answer <- err
				continue
			}
			cancel(errInterrupted)
			err := t.conclude(ctx, act, to, withCause(errInterrupted, <-result))
			m.answer <- t.accept(ctx, m)
			return err
		}
	}
}

// withCause gives the outcome of an action that was cut short why it was as its error.
func withCause(why error, o outcome) outcome {
	if o.err != nil && !job.IsPermanent(o.err) {
		o.err = why
	}
	return o
}

// conclude passes to the machine how an action ended.
func (t *task) conclude(ctx context.Context, act job.Action, to job.Step, o outcome) error {
	if o.record != nil {
		t.reached(o.record)
	}
	switch {
	case o.err == nil:
		t.succeeded(act)
		return t.hook(ctx, "after", act, to)
	case ctx.Err() != nil:
		return errStopped
	case errors.Is(o.err, errInterrupted), errors.Is(o.err, errNoSpace):
		return t.settle(ctx)
	case errors.Is(o.err, errHoldLost):
		return t.beginAgain(ctx, o.err)
	case errors.Is(o.err, errHeldTooLong):
		return t.giveUpHold(ctx)
	case errors.Is(o.err, errNotNow):
		return t.reloadSettings(ctx)
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	if t.machine.Record().Ended() {
		return nil
	}
	if err := t.lease.Permit(); err != nil {
		return err
	}
	if t.progressed.Swap(false) {
		t.machine.Progressed()
	}
	retry := t.machine.Failed(o.err, t.d.opts.Globals.Int(config.ErrorCountLimit))
	if retry {
		t.emit(event.Retry{Job: event.Job{ID: t.id}, Op: string(act), Attempt: int(t.machine.Record().ErrorCount), Err: o.err})
	} else {
		t.d.opts.Logger.Warn("an index build is undone", zap.Int64("job", t.id), zap.String("in", string(act)), zap.Error(o.err))
	}
	t.show()
	return nil
}

func (t *task) succeeded(act job.Action) {
	switch act {
	case job.ActAwaitTurn:
		t.machine.HasTurn()
	case job.ActAwaitVersion:
		t.machine.Waited()
	case job.ActAwaitOlder:
		t.machine.AwaitedOlder()
	case job.ActSleep:
		t.machine.Slept()
	}
}

// isLost says that the job has not ended here because the node has lost it.
func (t *task) isLost(ctx context.Context, err error) bool {
	return t.d.clustered() && t.d.ctx.Err() == nil && (errors.Is(err, records.ErrLost) || ctx.Err() != nil)
}

// giveUp forgets a job that is another node's now. Only what no other node has is removed:
// its files here.
func (t *task) giveUp() {
	t.d.opts.Logger.Info("an index build is not run by this node any more", zap.Int64("job", t.id))
	if err := t.d.removeFiles(t.id); err != nil {
		t.d.opts.Logger.Warn("the files of a lost index build stay until the next start", zap.Int64("job", t.id), zap.Error(err))
	}
}
