package load

import (
	"context"
	"errors"
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
	renewing, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		lose(l.renew(ctx, hold, renewing)) // nil ends a context that is over
	}()
	defer func() {
		close(renewing)
		<-done
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

// renew renews a hold until stop is closed or ctx ends. It returns why the hold is lost.
func (l *loader) renew(ctx context.Context, hold kv.GCHold, stop <-chan struct{}) (err error) {
	defer errs.Contain(&err)
	tick := time.NewTicker(holdTTL / 3)
	defer tick.Stop()
	for attempt := 1; ; {
		select {
		case <-stop:
			return nil
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := hold.Renew(ctx, holdTTL)
		switch {
		case err == nil:
			attempt = 1
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kv.ErrSnapshotTooOld):
			return fmt.Errorf("load: garbage collection has passed the version of the import: %w", err)
		default:
			// There is time for two more attempts before the hold ends.
			l.opts.Bus.Emit(event.Retry{Job: l.job(), Op: "renew GC hold", Attempt: attempt, Err: err})
			attempt++
		}
	}
}
