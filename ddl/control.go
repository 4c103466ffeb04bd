package ddl

import (
	"context"
	"errors"
	"fmt"

	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
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

func (d *DDL) lookup(id int64) *task {
	for _, t := range d.running() {
		if r := t.shown.Load(); t.id == id || r.RowID == id {
			return t
		}
	}
	return nil
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
	t.settingsMu.Lock()
	t.settings = s
	t.settingsMu.Unlock()
	t.live.Set(dist.LiveSettings(s))
	return err
}

// saveSettings makes the job's settings durable, with what also does.
func (t *task) saveSettings(ctx context.Context, s job.Settings, also func(x *session.Txn) error) error {
	return t.inOwnTxn(ctx, func(x *session.Txn) error {
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
