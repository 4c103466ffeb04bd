package ddl

import (
	"context"

	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/job"
)

// Cancel cancels jobs, as ADMIN CANCEL DDL JOBS does: it returns when the
// cancellation is durable, for each job nil or why it cannot be cancelled.
func (d *DDL) Cancel(ctx context.Context, ids []int64) []error {
	return d.forEach(ctx, ids, dbterror.ErrCancelFinishedDDLJob.FastGenByArgs, d.cancelTask)
}

// Pause stops jobs where they are until they are resumed.
func (d *DDL) Pause(ctx context.Context, ids []int64) []error {
	finished := func(args ...any) error {
		return dbterror.ErrCannotPauseDDLJob.FastGenByArgs(args[0], "the job is finished")
	}
	return d.forEach(ctx, ids, finished, func(ctx context.Context, t *task) error {
		return t.request(ctx, job.RequestPause)
	})
}

// Resume lets paused jobs go on.
func (d *DDL) Resume(ctx context.Context, ids []int64) []error {
	finished := func(args ...any) error {
		return dbterror.ErrCannotResumeDDLJob.FastGenByArgs(args[0], "the job is finished")
	}
	return d.forEach(ctx, ids, finished, func(ctx context.Context, t *task) error {
		return t.request(ctx, job.RequestNone)
	})
}

func (d *DDL) forEach(ctx context.Context, ids []int64, finished func(...any) error,
	do func(context.Context, *task) error) []error {
	errs := make([]error, len(ids))
	for i, id := range ids {
		if t := d.find(id); t != nil {
			errs[i] = do(ctx, t)
			continue
		}
		ended, err := inHistory(ctx, d.cat, id)
		switch {
		case err != nil:
			errs[i] = err
		case ended:
			errs[i] = finished(id)
		default:
			errs[i] = dbterror.ErrDDLJobNotFound.FastGenByArgs(id)
		}
	}
	return errs
}

func (d *DDL) cancelTask(ctx context.Context, t *task) error {
	if err := t.request(ctx, job.RequestCancel); err != nil {
		return err
	}
	// A job that has not begun need not wait for its turn.
	d.mu.Lock()
	defer d.mu.Unlock()
	d.scheduleLocked()
	return nil
}
