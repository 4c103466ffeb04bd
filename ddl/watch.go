package ddl

import (
	"context"
	"errors"
	"time"

	"github.com/pingcap/tidb/pkg/util/dbterror"

	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/schema"
	"fastddl/ddl/session"
	"fastddl/internal/sleep"
)

// watchInterval is how often a working job looks at its row in TiDB's queue, and
// shows its progress there.
const watchInterval = 2 * time.Second

// watched runs fn, and ends it if another node takes the job, or its row in TiDB's queue is taken,
// where the progress is shown meanwhile.
func (t *task) watched(ctx context.Context, fn func(ctx context.Context) error) error {
	return t.watchedBy(ctx, t.showProgress, fn)
}

// waiting is watched for what makes no progress.
func (t *task) waiting(ctx context.Context, fn func(ctx context.Context) error) error {
	return t.watchedBy(ctx, func(x *session.Txn) (intact bool, err error) { return schema.RowIntact(x, t.shown.Load()) }, fn)
}

// watchedBy runs fn, and check every watchInterval, which says whether the job's row is as it was.
func (t *task) watchedBy(ctx context.Context, check func(x *session.Txn) (intact bool, err error), fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_ = t.d.contained("the watch of the queue", func() error { t.watchRow(ctx, cancel, check); return nil })
	}()
	err := fn(ctx)
	cause := context.Cause(ctx)
	cancel(nil)
	<-watching
	switch {
	case err == nil:
		return nil
	case errors.Is(cause, records.ErrLost):
		return records.ErrLost
	case errors.Is(cause, schema.ErrRowTaken) || errors.Is(err, schema.ErrRowTaken):
		return job.Permanent(dbterror.ErrCancelledDDLJob.FastGenByArgs())
	}
	return err
}

// showProgress writes how far the job is into its row.
func (t *task) showProgress(x *session.Txn) (intact bool, err error) {
	r := *t.shown.Load()
	r.RowCount = max(r.RowCount, t.view.Rows())
	if intact, err = schema.RowIntact(x, &r); err != nil || !intact {
		return intact, err
	}
	return true, schema.UpdateRow(x, &r, t.ownSettings())
}

func (t *task) watchRow(ctx context.Context, cancel context.CancelCauseFunc, check func(x *session.Txn) (intact bool, err error)) {
	for sleep.For(ctx, watchInterval) {
		intact := true
		err := t.inOwnTxn(ctx, func(x *session.Txn) (err error) {
			intact, err = check(x)
			return err
		})
		switch {
		case errors.Is(err, records.ErrLost):
			cancel(records.ErrLost)
			return
		case err == nil && !intact:
			cancel(schema.ErrRowTaken)
			return
		}
	}
}
