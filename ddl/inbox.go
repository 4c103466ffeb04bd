package ddl

import (
	"context"
	"errors"
	"fmt"

	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
)

// comply does what a request asks for, while there is no action.
func (t *task) comply(ctx context.Context, m message) error {
	if m.alter == nil {
		return t.accept(ctx, m)
	}
	if t.needsProtocol(m.alter) {
		if err := t.raiseProtocol(ctx); err != nil {
			return err
		}
	}
	return t.alter(ctx, m)
}

// accept makes a request durable. It is granted, too, if only the answer to its commit was lost.
func (t *task) accept(ctx context.Context, m message) error {
	r := t.machine.Record()
	if err := r.CheckRequest(m.request); err != nil {
		return err // the action has changed what can be asked
	}
	after := r.WithRequest(m.request)
	err := t.replaceRecord(ctx, after, m.alongside)
	if now := t.machine.Record(); now.Revision == after.Revision && now.Request == after.Request {
		return nil
	}
	return err
}

// send asks the job for something and waits for the answer.
func (t *task) send(ctx context.Context, m message) error {
	m.answer = make(chan error, 1)
	select {
	case t.inbox <- m:
	case <-t.done:
		return errGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-m.answer:
		return err
	case <-t.done:
		select {
		case err := <-m.answer:
			return err
		default:
			return errGone
		}
	}
}

// alter changes the settings; the goroutine of the job calls it. After an error they are what the
// store says: only the answer may have been lost.
func (t *task) alter(ctx context.Context, m message) error {
	before := t.ownSettings()
	s := before
	m.alter.ApplyTo(&s)
	err := t.saveSettings(ctx, s, m.alongside)
	if err != nil {
		stored, readErr := t.storedSettings(ctx)
		if readErr != nil {
			return errors.Join(err, readErr)
		}
		if stored == s && s != before {
			err = nil
		}
		s = stored
	}
	t.follow(s)
	return err
}

// saveSettings makes the job's settings durable, with what also does.
func (t *task) saveSettings(ctx context.Context, s job.Settings, also func(x *session.Txn) error) error {
	return t.inOwnTxn(ctx, func(x *session.Txn) error {
		if s.Publish == config.PublishManual {
			// What publishes the indexes writes the same row.
			r, stored, err := records.Read(x, t.id)
			if err := t.owned(r, stored, err); err != nil {
				return err
			}
			if stored.Publish != s.Publish && !r.RollingBack() && !r.Step.Revertible() {
				return fmt.Errorf("the indexes of job %d are public already", t.id)
			}
		}
		if err := records.WriteSettings(x, t.id, s); err != nil {
			return err
		}
		return also(x)
	})
}

// storedSettings returns the job's settings as its row says.
func (t *task) storedSettings(ctx context.Context) (s job.Settings, err error) {
	err = t.d.sessions.InTxn(ctx, func(x *session.Txn) error {
		r, stored, err := records.Read(x, t.id)
		s = stored
		return t.owned(r, stored, err)
	})
	return s, err
}
