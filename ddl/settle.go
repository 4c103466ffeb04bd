package ddl

import (
	"context"
	"errors"

	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/event"
	"fastddl/internal/sleep"
)

// settle finds out what has become of a write that may have failed: the record in
// the store is what the job is.
func (t *task) settle(ctx context.Context) error {
	for attempt := int64(1); ; attempt++ {
		err := t.reload(ctx)
		if err == nil || errors.Is(err, records.ErrLost) {
			return err
		}
		if err := t.retryLater(ctx, "read the job's record", attempt, err); err != nil {
			return err
		}
	}
}

// retryLater emits that an attempt at what cannot be left undone has failed, and waits
// before the next one. It fails if the job is stopped meanwhile.
func (t *task) retryLater(ctx context.Context, op string, attempt int64, why error) error {
	t.emit(event.Retry{Job: event.Job{ID: t.id}, Op: op, Attempt: int(attempt), Err: why})
	if !sleep.For(ctx, job.Backoff(attempt)) {
		return errStopped
	}
	return nil
}

func (t *task) reload(ctx context.Context) error {
	var stored *job.Record
	err := t.d.sessions.InTxn(ctx, func(x *session.Txn) (err error) {
		stored, _, err = records.Read(x, t.id)
		return err
	})
	if err == nil && stored == nil {
		if stored, err = t.d.records.Ended(ctx, t.id); err == nil && stored == nil {
			return records.ErrLost
		}
	}
	if err != nil {
		return err
	}
	switch mine := t.machine.Record(); {
	case !stored.OwnedLike(mine):
		return records.ErrLost
	case stored.Unreadable != nil: // the next write replaces it
	case stored.Revision == mine.Revision+1:
		t.reached(stored)
	case stored.Revision != mine.Revision:
		return records.ErrLost
	}
	return nil
}
