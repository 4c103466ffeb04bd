package ddl

import (
	"context"
	"errors"
	"time"

	sess "github.com/pingcap/tidb/pkg/ddl/session"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
)

// inOwnTxn is InTxn for what only the job's owner may write; it fails with records.ErrLost if
// that is another node by now. What fn writes is the job's record or its row in TiDB's
// queue, which a node that takes the job over writes too, or what does no harm if it comes
// right after that.
func (t *task) inOwnTxn(ctx context.Context, fn func(x *session.Txn) error) error {
	return t.d.sessions.InTxn(ctx, func(x *session.Txn) error {
		if t.d.clustered() {
			if err := t.owned(records.Read(x, t.id)); err != nil {
				return err
			}
		}
		return fn(x)
	})
}

// InLockedTxn is inOwnTxn for what no other node may write while it runs: the transaction
// fails and begins again if the job changes its owner.
func (t *task) InLockedTxn(ctx context.Context, fn func(x *session.Txn) error) error {
	return t.d.sessions.InTxn(ctx, func(x *session.Txn) error {
		if err := t.owned(records.Lock(x, t.id)); err != nil {
			return err
		}
		return fn(x)
	})
}

// owned fails with records.ErrLost if the job's record, as it was read with err, is gone or has
// another owner.
func (t *task) owned(stored *job.Record, _ job.Settings, err error) error {
	if err != nil {
		return err
	}
	if stored == nil || !stored.OwnedLike(t.shown.Load()) {
		return records.ErrLost
	}
	return nil
}

// saveCheckpoint makes the progress of a build durable.
func (t *task) saveCheckpoint(ctx context.Context, data []byte) error {
	err := t.inOwnTxn(ctx, func(x *session.Txn) error { return records.WriteCheckpoint(x, t.id, data) })
	if err == nil {
		t.progressed.Store(true)
	}
	return err
}

// lockRecord keeps the job the node's own until the pessimistic transaction of se has
// ended; it fails with records.ErrLost if it is not.
func (t *task) lockRecord(ctx context.Context, se *sess.Session) error {
	if !t.d.clustered() {
		return nil
	}
	rows, err := se.Execute(ctx, `SELECT record FROM mysql.fastddl_ddl_record WHERE job_id = %? FOR UPDATE`, "index_repair", t.id)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return records.ErrLost
	}
	return t.owned(records.Decode(rows[0].GetBytes(0), nil))
}

// write makes the record of a step durable, with what change does in the same
// transaction.
func (t *task) write(ctx context.Context, to job.Step, change func(x *session.Txn, after *job.Record) error) (outcome, error) {
	settings := t.ownSettings()
	r := t.machine.Record()
	public := !r.Step.Revertible() && !r.RollingBack()
	var after *job.Record
	err := t.d.sessions.InTxn(ctx, func(x *session.Txn) error {
		after = t.machine.Prepare(to)
		after.History = t.view.History(time.Now())
		if after.StartTS == 0 && to != job.StepQueued {
			after.StartTS = x.TS
		}
		if to == job.StepFinished {
			if err := change(x, after); err != nil {
				return err
			}
			assertWritten(r, after, t.lease.Name())
			if after.Nodes.Shared {
				if err := dist.DeleteSubtasks(x, after.ID); err != nil {
					return err
				}
			}
			return records.Archive(x, after)
		}
		intact, err := schema.EnsureRow(x, after, public)
		if err != nil {
			return err
		}
		if err := change(x, after); err != nil {
			return err
		}
		if intact {
			err = schema.UpdateRow(x, after, settings)
		} else {
			err = schema.InsertRow(x, after, settings)
		}
		if err != nil {
			return err
		}
		assertWritten(r, after, t.lease.Name())
		return records.Replace(x, after)
	})
	if errors.Is(err, schema.ErrRowTaken) {
		return outcome{}, job.Permanent(dbterror.ErrCancelledDDLJob.FastGenByArgs())
	}
	if err != nil {
		return outcome{}, err
	}
	return outcome{record: after}, nil
}

// replaceRecord is writeRecord for a record that no action is at work on; it is the machine's then. After an error the machine has the record
// that is stored, which may be this one.
func (t *task) replaceRecord(ctx context.Context, after *job.Record, also func(x *session.Txn) error) error {
	err := t.writeRecord(context.WithoutCancel(ctx), after, also)
	if err == nil {
		t.reached(after)
		return nil
	}
	return errors.Join(err, t.settle(ctx))
}

// writeRecord makes a record durable as it is, with what also does.
func (t *task) writeRecord(ctx context.Context, after *job.Record, also func(x *session.Txn) error) error {
	return t.d.sessions.InTxn(ctx, func(x *session.Txn) error {
		if err := records.Replace(x, after); err != nil {
			return err
		}
		return also(x)
	})
}
