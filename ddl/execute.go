package ddl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/catalog"
	"fastddl/ddl/builder"
	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/kv"
)

// Warning is a row of SHOW WARNINGS.
type Warning = builder.Warning

// errInterrupted (1317) answers a statement whose session was killed.
var errInterrupted = dbterror.ClassExecutor.NewStd(errno.ErrQueryInterrupted)

// Execute queues a statement as one job and waits until the job has ended.
//
// If ctx ends the job is cancelled, as in TiDB, and Execute returns when it is
// undone: error 1317, or success if it was too late. It returns early if undoing
// it has to wait for other transactions. A ctx that ends with ErrClosed as its
// cause, or Close, leaves the job in the queue.
//
// Errors carry MySQL's or TiDB's number.
func (d *DDL) Execute(ctx context.Context, req Request) ([]Warning, error) {
	p := newPlanner(d.cat.Current(), d.opts.Globals, req)
	j, err := p.plan()
	if err != nil || j == nil {
		return p.env.Warnings, err
	}
	j.Query, j.Warnings, j.TimeZone = req.SQL, p.env.Warnings, timeZoneOf(req.Loc)
	if j.Backfills() {
		j.Settings.Priority = req.Priority
	}
	t, err := d.submit(ctx, j)
	if err != nil {
		return nil, err
	}
	return d.await(ctx, t)
}

// submit writes a job to the queue. If it is not known whether that was done the
// job's worker finds out, and ends if it was not.
func (d *DDL) submit(ctx context.Context, j *job.Job) (*task, error) {
	if d.ctx.Err() != nil {
		return nil, context.Cause(d.ctx)
	}
	j.State = model.JobStateQueueing
	d.submitMu.Lock()
	defer d.submitMu.Unlock()
	err := d.update(ctx, func(_ context.Context, m *catalog.Mutation) error {
		ids, err := d.newIDs(m)
		if err != nil {
			return err
		}
		j.ID, j.Revision, j.CreateTS = ids[1], 1, m.StartTS
		switch {
		case j.CreateDatabase != nil:
			j.DBID = ids[0]
		case j.CreateTable != nil:
			j.TableID = ids[0]
		}
		return putRecord(m, j)
	})
	if err != nil {
		err = fmt.Errorf("queue DDL job: %w", err)
	}
	if err != nil && !errors.Is(err, kv.ErrResultUndetermined) {
		return nil, err
	}
	d.opts.Bus.Emit(event.JobQueued{
		Job: event.Job{ID: j.ID}, Type: j.Type.String(), Schema: j.DB, Table: j.Table, Query: j.Query,
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || !d.started {
		return nil, ErrClosed
	}
	t := newTask(d, j)
	if err != nil {
		t.unsettled, d.usedID = err, j.ID
	}
	d.queue = append(d.queue, t)
	d.scheduleLocked()
	return t, nil
}

// newIDs returns two fresh IDs, the higher one a job's. d.submitMu must be held.
func (d *DDL) newIDs(m *catalog.Mutation) (ids []int64, err error) {
	for ids == nil || ids[1] <= d.usedID {
		if ids, err = m.GenGlobalIDs(2); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// await waits for the end of a job.
func (d *DDL) await(ctx context.Context, t *task) ([]Warning, error) {
	select {
	case <-t.done:
		return t.outcome()
	case <-d.ctx.Done():
		return nil, context.Cause(d.ctx)
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), ErrClosed) {
		return nil, ErrClosed
	}
	// The session is gone; the job is still to be cancelled. A job that cannot be
	// cancelled any more is about to end.
	err := d.cancelTask(context.WithoutCancel(ctx), t)
	if err != nil && !dbterror.ErrCannotCancelDDLJob.Equal(err) && !dbterror.ErrCancelFinishedDDLJob.Equal(err) {
		return nil, err
	}
	select {
	case <-t.done:
	case <-t.lockWait:
		return nil, errInterrupted.FastGenByArgs()
	case <-d.ctx.Done():
		return nil, context.Cause(d.ctx)
	}
	warnings, err := t.outcome()
	if dbterror.ErrCancelledDDLJob.Equal(err) {
		err = errInterrupted.FastGenByArgs()
	}
	return warnings, err
}

// outcome is what the statement of a job that has ended returns.
func (t *task) outcome() ([]Warning, error) {
	if t.err != nil {
		return nil, t.err
	}
	if t.result.State == model.JobStateSynced {
		return t.result.Warnings, nil
	}
	e := t.result.Error
	if e == nil {
		return t.result.Warnings, dbterror.ErrCancelledDDLJob.FastGenByArgs()
	}
	return t.result.Warnings, terror.ClassDDL.Synthesize(terror.ErrCode(e.Code), e.Message)
}
