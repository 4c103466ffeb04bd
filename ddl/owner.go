package ddl

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
)

// adopt takes the jobs over whose owners are no members any more, and those that are this
// node's own without its running them.
func (d *DDL) adopt(lease *dist.Lease) error {
	jobs, err := d.records.Load(lease.Ctx)
	if err != nil {
		return err
	}
	lease.Renew()
	var members map[string]bool
	for _, j := range jobs {
		if d.lookup(j.Record.ID) != nil {
			lease.Forget(j.Record.ID)
			continue
		}
		if j.Record.Owner == lease.Name() {
			if lease.Abandoned(j.Record) {
				if err := d.takeOver(lease, j); err != nil {
					return err
				}
				lease.Renew()
			}
			continue
		}
		if members == nil {
			// After the jobs: an owner that is missing here has been one, and is none any more.
			if members, err = d.opts.Cluster.Members(lease.Ctx); err != nil {
				return err
			}
		}
		if members[j.Record.Owner] {
			continue
		}
		if err := d.takeOver(lease, j); err != nil {
			return err
		}
		lease.Renew()
	}
	return nil
}

// awaitTasks waits until no job of a lease runs any more.
func (d *DDL) awaitTasks(lease *dist.Lease) {
	for _, t := range d.running() {
		if t.lease == lease {
			<-t.done
		}
	}
}

// takeOver makes a job that no node runs the node's own, if no other node was quicker, and
// goes on with it.
func (d *DDL) takeOver(lease *dist.Lease, found records.Job) error {
	if !d.knows(found.Record) {
		return nil
	}
	after := found.Record.TakenBy(lease.Name())
	err := d.sessions.InTxn(lease.Ctx, func(x *session.Txn) error {
		stored, settings, err := records.Read(x, after.ID)
		if err != nil {
			return err
		}
		if stored == nil || !stored.OwnedLike(found.Record) || stored.Revision != found.Record.Revision {
			return records.ErrLost
		}
		found.Settings = settings
		// The row too, so that what an earlier owner has not committed meets a conflict.
		if intact, err := schema.RowIntact(x, after); err != nil || !intact {
			return errors.Join(err, records.Update(x, after)) // the job sees by itself that the row is gone
		}
		if err := schema.UpdateRow(x, after, settings); err != nil {
			return err
		}
		return records.Update(x, after)
	})
	if errors.Is(err, records.ErrLost) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("take over job %d: %w", after.ID, err)
	}
	d.opts.Logger.Info("an index build is taken over", zap.Int64("job", after.ID), zap.String("from", found.Record.Owner),
		zap.Int64("epoch", after.Epoch), zap.String("step", string(after.Step)))
	t := newTask(d, lease, job.ResumeMachine(after), found.Settings)
	if t.left, err = d.findRequests(lease, func(id int64) bool { return id == t.id }); err != nil && lease.Ctx.Err() == nil {
		// They are found again beside the job.
		d.opts.Logger.Warn("cannot look for what the last owner was asked for", zap.Int64("job", t.id), zap.Error(err))
	}
	if err := d.launch(t); err != nil {
		t.releaseLeft()
		return err
	}
	return nil
}

// knows says that the node can go on with a job. If it cannot it says so once.
func (d *DDL) knows(r *job.Record) bool {
	if r.Known() {
		return true
	}
	d.mu.Lock()
	told := d.unknown[r.ID]
	d.unknown[r.ID] = true
	d.mu.Unlock()
	switch {
	case told:
	case r.Unreadable != nil:
		d.warnUnreadable(r)
	default:
		d.warnLater(r)
	}
	return false
}
