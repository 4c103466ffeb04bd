package load

import (
	"context"
	"fmt"
	"time"

	"fastddl/event"
	"fastddl/internal/errs"
	"fastddl/kv"
)

// holdTTL is how long garbage collection is held if the process ends.
const holdTTL = 10 * time.Minute

// hold holds garbage collection at the version of the load: the store takes no import below its safe point. It fails with
// kv.ErrSnapshotTooOld if that has passed the version.
func (l *loader) hold(ctx context.Context, version uint64) (kv.GCHold, error) {
	hold, err := l.opts.Store.HoldGC(ctx, fmt.Sprintf("fastddl-load-%d", l.spec.JobID), version, holdTTL)
	if err != nil {
		return nil, fmt.Errorf("load: hold garbage collection: %w", err)
	}
	return hold, nil
}

// whileHeld calls fn, renews the hold meanwhile, and releases it. If the hold is lost, the context of fn ends.
func (l *loader) whileHeld(ctx context.Context, hold kv.GCHold, fn func(ctx context.Context) error) (err error) {
	ctx, lose := context.WithCancelCause(ctx)
	renewing, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := l.renew(renewing, hold); err != nil {
			lose(err)
		}
	}()
	defer func() {
		stop()
		<-done
		lose(nil)
		err = errs.Combine(err, hold.Release(context.WithoutCancel(ctx)))
	}()
	if err := fn(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

// renew renews a hold until ctx ends. It returns why the hold is lost.
func (l *loader) renew(ctx context.Context, hold kv.GCHold) (err error) {
	defer errs.Contain(&err)
	err = kv.KeepHold(ctx, hold, holdTTL, func(attempt int, err error) {
		l.opts.Bus.Emit(event.Retry{Job: l.job(), Op: "renew GC hold", Attempt: attempt, Err: err})
	})
	if err != nil {
		return fmt.Errorf("load: garbage collection has passed the version of the import: %w", err)
	}
	return nil
}
