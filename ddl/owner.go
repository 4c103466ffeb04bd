package ddl

import (
	"context"
	"errors"
	"fmt"

	sess "github.com/pingcap/tidb/pkg/ddl/session"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"go.uber.org/zap"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/internal/sleep"
	"fastddl/kv"
)

// adopt takes the jobs over whose owners are no members any more, and those that are this
// node's own without its running them.
func (d *DDL) adopt(in *dist.Lease) error {
	jobs, err := d.records.Load(in.Ctx)
	if err != nil {
		return err
	}
	in.Renew()
	var members map[string]bool
	for _, j := range jobs {
		if d.lookup(j.Record.ID) != nil {
			in.Forget(j.Record.ID)
			continue
		}
		if j.Record.Owner == in.Name() {
			if in.Abandoned(j.Record) {
				if err := d.takeOver(in, j); err != nil {
					return err
				}
				in.Renew()
			}
			continue
		}
		if members == nil {
			// After the jobs: an owner that is missing here has been one, and is none any more.
			if members, err = d.opts.Cluster.Members(in.Ctx); err != nil {
				return err
			}
		}
		if members[j.Record.Owner] {
			continue
		}
		if err := d.takeOver(in, j); err != nil {
			return err
		}
		in.Renew()
	}
	return nil
}

// awaitTasks waits until no job of a lease runs any more.
func (d *DDL) awaitTasks(in *dist.Lease) {
	for _, t := range d.running() {
		if t.lease == in {
			<-t.done
		}
	}
}

// takeOver makes a job that no node runs the node's own, if no other node was quicker, and
// goes on with it.
func (d *DDL) takeOver(in *dist.Lease, found records.Job) error {
	if !d.knows(found.Record) {
		return nil
	}
	after := found.Record.TakenBy(in.Name())
	err := d.sessions.InTxn(in.Ctx, func(x *session.Txn) error {
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
	t := newTask(d, in, job.ResumeMachine(after), found.Settings)
	if t.left, err = d.findRequests(in, func(id int64) bool { return id == t.id }); err != nil && in.Ctx.Err() == nil {
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
// fails and begins again if the job changes hands.
func (t *task) InLockedTxn(ctx context.Context, fn func(x *session.Txn) error) error {
	return t.d.sessions.InTxn(ctx, func(x *session.Txn) error {
		if err := t.owned(records.Lock(x, t.id)); err != nil {
			return err
		}
		return fn(x)
	})
}

// owned fails with records.ErrLost if the job's record, as it was read with err, is gone or in other
// hands than this node's.
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

// fence makes sure, where the store can, that no import of an earlier owner of the job
// comes late. Nothing is done for the job before that but to hold garbage collection, which
// the hold of that owner does not do for ever, and to take requests: a store may take long.
func (t *task) fence(ctx context.Context) error {
	store, ok := t.d.opts.Builds.(kv.Fencer)
	r := t.machine.Record()
	if !ok || r.Epoch == 0 || !r.Importing() {
		return nil
	}
	if err := t.holdAt(ctx, r.SnapshotTS); err != nil { // resumeHold sees to it
		t.d.opts.Logger.Info("an index build that was taken over does not hold garbage collection yet", zap.Int64("job", t.id), zap.Error(err))
	}
	if err := t.pauseTakeover(ctx); err != nil {
		return err
	}
	for attempt := int64(1); ; attempt++ {
		err := t.whileAnswering(ctx, func(ctx context.Context) error {
			gone, err := t.scheduler.LostSubtasks(ctx)
			if err != nil {
				return err
			}
			if err := t.FenceOnce(ctx, store, r); err != nil {
				return err
			}
			t.scheduler.FencedOff(gone)
			return nil
		}, func() {})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errStopped
		}
		if err := t.retryLater(ctx, "fence off late imports", attempt, err); err != nil {
			return err
		}
	}
}

// pauseTakeover waits for a while if the job has changed hands often: owners may die of what they
// build. To undo it is no danger, nor to stop it, so nothing waits for that, and a job whose row is
// taken will be undone.
func (t *task) pauseTakeover(ctx context.Context) error {
	builds := func() bool {
		r := t.machine.Record()
		return r.Request == job.RequestNone && !r.RollingBack()
	}
	epoch := t.machine.Record().Epoch
	pause := dist.TakeoverPause(epoch)
	if pause == 0 || !builds() {
		return nil
	}
	t.view.SetWait(fmt.Sprintf("%s: it has changed hands %d times, and owners may die of what they build", pause, epoch))
	defer t.view.SetWait("")
	resting, end := context.WithCancel(ctx)
	defer end()
	err := t.whileAnswering(resting, func(ctx context.Context) error {
		return t.waiting(ctx, func(ctx context.Context) error {
			if !sleep.For(ctx, pause) {
				return context.Cause(ctx)
			}
			return nil
		})
	}, func() {
		if !builds() {
			end()
		}
	})
	switch {
	case ctx.Err() != nil:
		return errStopped
	case resting.Err() != nil || job.IsPermanent(err):
		return nil // the job sees by itself that its row is taken
	}
	return err
}

// whileAnswering runs fn, which must not look at the record, and complies with requests
// meanwhile, after each of which it calls then.
func (t *task) whileAnswering(ctx context.Context, fn func(context.Context) error, then func()) error {
	result := make(chan error, 1)
	go func() { result <- t.d.contained("what a job begins with", func() error { return fn(ctx) }) }()
	for {
		select {
		case err := <-result:
			return err
		case m := <-t.inbox:
			m.answer <- t.comply(ctx, m)
			then()
		}
	}
}

// FenceOnce has the store refuse late imports into the job's indexes. All ranges go to it in one
// call: those of the partitions of a table may lie in few regions.
func (t *task) FenceOnce(ctx context.Context, store kv.Fencer, r *job.Record) error {
	var table *model.TableInfo
	err := t.d.sessions.InTxn(ctx, func(x *session.Txn) (err error) {
		table, err = schema.ReadTable(x, r)
		return err
	})
	if err != nil {
		return err
	}
	return store.Fence(ctx, indexRanges(r.TableID, table, r.IndexIDs)...)
}

// indexRanges are all keys of indexes. The table is nil if it is gone.
func indexRanges(tableID int64, table *model.TableInfo, indexIDs []int64) []kv.KeyRange {
	physical := []int64{tableID} // a global index is the table's
	if table != nil {
		physical = append(physical, schema.PartitionIDs(table)...)
	}
	ranges := make([]kv.KeyRange, 0, len(physical)*len(indexIDs))
	for _, id := range physical {
		for _, index := range indexIDs {
			ranges = append(ranges, kv.PrefixRange(tablecodec.EncodeTableIndexPrefix(id, index)))
		}
	}
	return ranges
}

// needsHold says that the job cannot go on with its S if garbage collection has passed it. Only stores of
// clusters have records that hide others.
func (t *task) needsHold(r *job.Record) bool { return r.NeedsHold(t.d.clustered()) }

// keepsS says that garbage collection is held at S until the indexes are public, or
// nothing of them is left: on a cluster it is the word of others that no import at S can
// come any more.
func (t *task) keepsS(r *job.Record) bool {
	return t.d.clustered() && r.SnapshotTS != 0 && (r.Step.Revertible() || r.RollingBack())
}
