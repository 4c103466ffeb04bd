package ddl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/status"
)

// Owns says that a job that has not ended is ours, whichever node runs it. The ID may
// be that of the job or of its row in TiDB's queue.
func (d *DDL) Owns(ctx context.Context, id int64) (bool, error) {
	if d.lookup(id) != nil {
		return true, nil
	}
	r, err := d.records.Find(ctx, id)
	if r == nil || err != nil {
		return false, err
	}
	// Nothing runs a job here that has stopped because of a fault: TiDB may take its row, and the next start undoes it.
	return d.clustered() || !r.Known(), nil
}

// Ended returns a job of ours that has ended; ok is false if there is none.
func (d *DDL) Ended(ctx context.Context, id int64) (info status.JobInfo, ok bool, err error) {
	r, err := d.records.Ended(ctx, id)
	if err != nil || r == nil {
		return status.JobInfo{}, false, err
	}
	return status.Describe(r), true, nil
}

// Cancel makes a job stop and undo what it has done. It returns when that is
// certain to happen, not when it has happened. A job that is being undone already need not be asked, as in TiDB.
func (d *DDL) Cancel(ctx context.Context, id int64) error {
	err := d.ask(ctx, id, job.RequestCancel)
	if dbterror.ErrCannotCancelDDLJob.Equal(err) && d.undone(ctx, id) {
		return nil
	}
	return err
}

// undone says that a job is being undone, as far as is known.
func (d *DDL) undone(ctx context.Context, id int64) bool {
	if t := d.lookup(id); t != nil {
		return t.shown.Load().RollingBack()
	}
	r, err := d.records.Find(ctx, id)
	return err == nil && r != nil && r.RollingBack()
}

// Pause makes a job stop where it is. It goes on after Resume, also if the process
// has been restarted meanwhile.
func (d *DDL) Pause(ctx context.Context, id int64) error { return d.ask(ctx, id, job.RequestPause) }

// Resume lets a paused job go on.
func (d *DDL) Resume(ctx context.Context, id int64) error { return d.ask(ctx, id, job.RequestNone) }

// ask fails with TiDB's errors if the job is not in a state to do so.
func (d *DDL) ask(ctx context.Context, id int64, r job.Request) error {
	err := d.deliver(ctx, id, message{request: r})
	if errors.Is(err, errGone) {
		return endedError(id, r)
	}
	return err
}

func endedError(id int64, r job.Request) error {
	switch r {
	case job.RequestCancel:
		return dbterror.ErrCancelFinishedDDLJob.FastGenByArgs(id)
	case job.RequestPause:
		return dbterror.ErrCannotPauseDDLJob.FastGenByArgs(id, "it has ended")
	}
	return dbterror.ErrCannotResumeDDLJob.FastGenByArgs(id, "it has ended")
}

// Alteration is what ADMIN ALTER DDL JOBS changes of a job.
type Alteration = records.Alteration

// Alter changes the settings of a job, durably and at once, whether it works or
// waits.
func (d *DDL) Alter(ctx context.Context, id int64, a Alteration) error {
	err := d.deliver(ctx, id, message{alter: &a})
	if errors.Is(err, errGone) {
		return notRunning(id)
	}
	return err
}

// notRunning has TiDB's words, and no number of its own either.
func notRunning(id int64) error { return fmt.Errorf("ddl job %d is not running", id) }

// WindowOpens returns when the window of a job that this node runs opens, if it is closed.
func (d *DDL) WindowOpens(id int64) (at string, closed bool) {
	t := d.lookup(id)
	if t == nil {
		return "", false
	}
	return t.ownSettings().Opens(d.opts.Now())
}
