package ddl

import (
	"context"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"

	"fastddl/catalog"
	"fastddl/ddl/job"
	"fastddl/event"
)

// write takes the job's record to a step: the record is what the machine says,
// completed by change, which may write more in the same transaction. On error
// nothing was written, unless t.unsettled says that nobody knows. t.mu must be
// held.
func (t *task) write(ctx context.Context, to job.Step,
	change func(ctx context.Context, m *catalog.Mutation, after *job.Job) error) error {
	moved, err := t.settle(ctx)
	if err != nil {
		return err
	}
	if moved {
		// What comes next was decided on an older record.
		return errRequested
	}
	var after *job.Job
	var tried bool
	err = t.d.update(ctx, func(ctx context.Context, m *catalog.Mutation) error {
		tried = false
		after = t.machine.After(to)
		if err := change(ctx, m, after); err != nil {
			return err
		}
		tried = true
		return putRecord(m, after)
	})
	if err == nil {
		t.reached(after)
		return nil
	}
	err = fmt.Errorf("write job %d: %w", t.id, err)
	if tried {
		// An error does not say that nothing was committed: the store may not know
		// itself, and what was committed may not have been published.
		t.unsettled = err
		if moved, unknown := t.settle(ctx); unknown == nil && moved {
			return nil
		}
	}
	return err
}

// settle finds out whether the write that failed last was made after all, and
// returns true if so: the machine has then moved on to what is stored, and this
// node knows the schema that belongs to it. An error means that nobody knows yet.
// t.mu must be held.
func (t *task) settle(ctx context.Context) (moved bool, err error) {
	if t.unsettled == nil {
		return false, nil
	}
	stored, err := t.d.reread(ctx, t.id)
	if err != nil {
		return false, fmt.Errorf("read job %d: %w", t.id, err)
	}
	known := t.machine.Job()
	switch {
	case stored == nil: // the first write was not made
		t.lost = t.unsettled
		t.emit(event.JobStateChanged{
			Job: event.Job{ID: t.id}, From: known.State.String(), To: model.JobStateCancelled.String(), Err: t.lost,
		})
	case stored.Revision != known.Revision:
		// As after any change of the schema: it is published before anything is done
		// that relies on it.
		if err := t.d.cat.Reload(ctx); err != nil {
			return false, err
		}
		t.reached(stored)
		moved = true
	}
	t.unsettled = nil
	return moved, nil
}

// resolve is settle for the worker, which does nothing else before it knows what
// is stored: it tries until ctx ends. It fails if the job was never queued.
func (t *task) resolve(ctx context.Context) (moved bool, err error) {
	for attempt := int64(1); ; attempt++ {
		t.mu.Lock()
		moved, err = t.settle(ctx)
		lost := t.lost
		t.mu.Unlock()
		if lost != nil {
			return false, lost
		}
		if err == nil {
			return moved, nil
		}
		t.emit(event.Retry{Job: event.Job{ID: t.id}, Op: "read job", Attempt: int(attempt), Err: err})
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(job.Backoff(attempt)):
		}
	}
}

// reached tells the machine and the world what the stored record is. t.mu must be
// held.
func (t *task) reached(after *job.Job) {
	before := t.machine.Job()
	t.machine.Reached(after)
	if after.Settings != before.Settings {
		t.settings.Set(liveSettings(after.Settings))
	}
	if after.SchemaVersion != before.SchemaVersion {
		t.emit(event.SchemaStateChanged{
			Job: event.Job{ID: t.id}, State: after.SchemaState().String(), SchemaVersion: after.SchemaVersion,
		})
	}
	t.emitState(before.State, after)
	if after.Ended() {
		t.d.clean.wake()
	}
}

// emitState tells the world if the job's state is not what it was.
func (t *task) emitState(from model.JobState, j *job.Job) {
	if j.State == from {
		return
	}
	e := event.JobStateChanged{Job: event.Job{ID: t.id}, From: from.String(), To: j.State.String()}
	if j.Error != nil {
		e.Err = j.Error
	}
	t.emit(e)
}

// wake makes the worker look at the job's record again, whatever it does now.
// t.mu must be held.
func (t *task) wake() {
	select {
	case t.requested <- struct{}{}:
	default:
	}
	if t.interrupt != nil {
		t.interrupt(errRequested)
	}
}
