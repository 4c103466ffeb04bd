package ddl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	pingcaperrors "github.com/pingcap/errors"
	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/pingcap/tidb/pkg/util/dbterror/exeerrors"

	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/schema"
)

// submitOf returns the key of a session's statements, with the account that it is one of; its Key is empty if there is none.
func submitOf(vars *variable.SessionVars) records.Submit {
	key, _ := vars.GetSystemVar(config.SubmitKey)
	s := records.Submit{Key: key}
	if vars.User != nil {
		s.Account = vars.User.AuthUsername + "@" + vars.User.AuthHostname
	}
	return s
}

// StatementJob is the job of a session's last statement that had one.
type StatementJob struct {
	ID int64
	// Before says that an earlier statement with the same key has queued it.
	Before bool
}

// statementJob is the key of a session's StatementJob.
type statementJob struct{}

func (statementJob) String() string { return "fastddl_statement_job" }

// JobOf returns the job of the last statement of a session that had one; ok is false if none had. Any goroutine may call it.
func JobOf(sctx sessionctx.Context) (job StatementJob, ok bool) {
	job, ok = sctx.Value(statementJob{}).(StatementJob)
	return job, ok
}

// submittedBefore says that the key of a statement has a job already.
type submittedBefore struct{ id int64 }

func (e *submittedBefore) Error() string {
	return fmt.Sprintf("job %d was submitted with this key", e.id)
}

// submitOnce queues a job by attempt, again if another statement with the same key has done so at the same time. attempt then fails with
// *submittedBefore.
//
// It ends with killed, which returns an error when the statement is killed.
func submitOnce(s records.Submit, killed, attempt func() error) error {
	for {
		err := attempt()
		if s.Key == "" || !keyExists(err) {
			return err
		}
		if err := killed(); err != nil {
			return err
		}
	}
}

// keyExists says that a transaction has met a key that another one has written.
func keyExists(err error) bool { return errors.Is(err, tidbkv.ErrKeyExists) }

// Resubmitted waits for the job of a statement on a table that was sent before with the same key, and has its result; found is false if the
// session has no key, or the key no job. The statement does not own the job: KILL ends its wait only. db and table are in lower case.
func (d *DDL) Resubmitted(ctx context.Context, sctx sessionctx.Context, db, table, query string) (found bool, err error) {
	vars := sctx.GetSessionVars()
	s := submitOf(vars)
	if s.Key == "" {
		return false, nil
	}
	r, err := d.records.Submitted(ctx, s)
	if err != nil || r == nil {
		return false, err
	}
	if r.Query != query || r.DB != schema.QueueName(db) || r.Table != schema.QueueName(table) { // the same text in another database is another statement
		return true, fmt.Errorf("%s %q is that of job %d, whose statement is another one", config.SubmitKey, s.Key, r.ID)
	}
	sctx.SetValue(statementJob{}, StatementJob{ID: r.ID, Before: true})
	return true, d.awaitSubmitted(ctx, vars, r)
}

// awaitSubmitted waits until a job has ended, or its indexes wait for their publication, wherever it runs.
func (d *DDL) awaitSubmitted(ctx context.Context, vars *variable.SessionVars, r *job.Record) error {
	ctx = context.WithoutCancel(ctx)
	hasJob(vars)
	vars.StmtCtx.AppendNote(pingcaperrors.NewNoStackErrorf("job %d was submitted with this key before", r.ID))
	if t := d.lookup(r.ID); t != nil {
		d.statements.Store(vars.ConnectionID, t)
		defer d.statements.Delete(vars.ConnectionID)
	}
	tick := time.NewTicker(elsewhereInterval)
	defer tick.Stop()
	for {
		if ended, err := d.records.Outcome(ctx, r.ID); ended {
			noteLast(vars, r.Query)
			return err
		}
		if stored, err := d.records.Find(ctx, r.ID); err == nil && stored != nil && stored.Unreadable == nil && waitsForPublication(stored) {
			return endReady(vars, r.Query, r.ID)
		}
		if err := vars.SQLKiller.HandleSignal(); err != nil {
			if atomic.LoadInt32(&vars.ConnectionStatus) == variable.ConnStatusShutdown {
				return ErrClosed
			}
			if exeerrors.ErrQueryInterrupted.Equal(err) {
				return err
			}
		}
		select {
		case <-d.ctx.Done():
			return ErrClosed
		case <-tick.C:
		}
	}
}

// asSubmitted has a statement wait for the job of its key, if it lost the race for the key.
func (d *DDL) asSubmitted(ctx context.Context, sctx sessionctx.Context, req Request, err error) error {
	var before *submittedBefore
	if !errors.As(err, &before) {
		return err
	}
	found, waited := d.Resubmitted(ctx, sctx, req.Schema.Name.L, req.Table.Name.L, req.Query)
	if !found {
		return fmt.Errorf("%w, and has left the history", err)
	}
	return waited
}
