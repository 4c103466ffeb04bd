package ddl

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"fastddl/ddl/dist"
	"fastddl/ddl/job"
	"fastddl/ddl/records"
	"fastddl/ddl/session"
	"fastddl/internal/sleep"
)

// Requests to jobs that another node runs. They are rows of a table: the owner of the job
// finds them, does what they ask for, and writes the answer into the row; the node that has
// asked waits for the answer and removes the row. An owner that dies leaves them to the next one, which answers
// them before it does anything for the job; what was granted is answered in the same
// transaction, so that it is done once.

const (
	// answerInterval is how often a node looks for the answer to its request, and
	// answerTimeout how long: a job that has lost its owner gets another one sooner.
	answerInterval = 50 * time.Millisecond
	answerTimeout  = 40 * time.Second
)

// errUnanswered says that a request was taken back.
var errUnanswered = errors.New("the node that runs the job does not answer; the request was taken back")

// deliver sends a message to a job, wherever it runs. It fails with errGone if the job
// has ended.
func (d *DDL) deliver(ctx context.Context, id int64, m message) error {
	if t := d.lookup(id); t != nil {
		err := t.send(ctx, m)
		elsewhere := errors.Is(err, errGone) || errors.Is(err, records.ErrLost) // and nothing was done here
		if !elsewhere || !d.clustered() {
			return err
		}
	}
	r, err := d.records.Find(ctx, id)
	switch {
	case err != nil:
		return err
	case r != nil && r.Unreadable != nil && m.request == job.RequestCancel && m.alter == nil:
		return d.undoUnreadable(ctx, r.ID)
	case r != nil && r.Unreadable != nil:
		return errUnreadable(r)
	case r != nil && d.leftToLater(ctx, r):
		return laterError(r)
	case r == nil || !d.clustered():
		return errGone
	}
	return d.deliverElsewhere(ctx, r.ID, records.RemoteRequest{Request: m.request, Alter: m.alter})
}

// deliverElsewhere leaves a request for the owner of the job and waits for the answer.
func (d *DDL) deliverElsewhere(ctx context.Context, id int64, r records.RemoteRequest) error {
	name := uuid.NewString()
	if err := d.records.PutRequest(ctx, name, id, r); err != nil {
		return err
	}
	d.opts.Cluster.Notify(ctx)
	for began := time.Now(); ; {
		answered, err := d.records.TakeAnswer(ctx, name, false)
		if answered {
			return err
		}
		if err != nil {
			d.opts.Logger.Info("cannot look for an answer", zap.Int64("job", id), zap.Error(err))
		}
		rows, err := d.sessions.Query(ctx, `SELECT 1 FROM mysql.fastddl_ddl_record WHERE job_id = %?`, id)
		gone := err == nil && len(rows) == 0
		if gone || time.Since(began) > answerTimeout || !sleep.For(ctx, answerInterval) || d.ctx.Err() != nil {
			return d.takeBack(ctx, name, gone)
		}
	}
}

// takeBack removes a request that is not answered; the last look shows whether
// it is by now.
func (d *DDL) takeBack(ctx context.Context, name string, gone bool) error {
	why := context.Cause(ctx)
	switch answered, err := d.records.TakeAnswer(context.WithoutCancel(ctx), name, true); {
	case answered:
		return err
	case gone:
		return errGone
	case why != nil:
		return why
	case d.ctx.Err() != nil:
		return ErrClosed
	}
	return errUnanswered
}

// findRequests claims the requests that no goroutine answers, for jobs of which want is true. The
// caller releases every one of them.
func (d *DDL) findRequests(lease *dist.Lease, want func(jobID int64) bool) (found []records.OpenRequest, err error) {
	open, err := d.records.OpenRequests(lease.Ctx, want)
	if err != nil {
		return nil, err
	}
	for _, q := range open {
		if _, busy := d.answering.LoadOrStore(q.Name, true); !busy {
			found = append(found, q)
		}
	}
	return found, nil
}

// release lets others answer a request, if it is not answered.
func (d *DDL) release(q records.OpenRequest) { d.answering.Delete(q.Name) }

// answerRequests hands the requests of other nodes to the jobs of a lease.
func (d *DDL) answerRequests(lease *dist.Lease) error {
	if len(d.running()) == 0 {
		return nil
	}
	found, err := d.findRequests(lease, func(id int64) bool {
		t := d.lookup(id)
		return t != nil && t.lease == lease
	})
	for _, q := range found {
		begun := d.inside(func() { // a job that is busy does not hold up others; it ends with the job
			defer d.release(q)
			if t := d.lookup(q.JobID); t != nil && t.lease == lease {
				t.answer(lease.Ctx, q, t.send)
			}
		})
		if !begun {
			d.release(q)
		}
	}
	return err
}

// answer has a request done and writes the answer.
func (t *task) answer(ctx context.Context, q records.OpenRequest, do func(context.Context, message) error) {
	err := t.d.contained("the answer to a request", func() error {
		granted := func(x *session.Txn) error { return records.AnswerRequest(x, q.Name, records.Answer{}) }
		err := q.Unknown
		if err == nil {
			err = do(ctx, message{request: q.Request, alter: q.Alter, also: granted})
		}
		if err == nil || errors.Is(err, records.ErrNotAsked) || errors.Is(err, errGone) || ctx.Err() != nil {
			return nil // it is answered, or nothing here can answer it any more
		}
		return t.inOwnTxn(ctx, func(x *session.Txn) error {
			return records.AnswerRequest(x, q.Name, records.Answer{Error: job.ErrorOf(err)})
		})
	})
	if err != nil && !errors.Is(err, records.ErrNotAsked) && ctx.Err() == nil {
		t.d.opts.Logger.Warn("a request of another node is not answered yet", zap.Int64("job", t.id), zap.Error(err))
	}
}

// answerLeft answers what the job's last owner was asked for: no client finds that the job has
// gone further meanwhile.
func (t *task) answerLeft(ctx context.Context) {
	for _, q := range t.left {
		t.answer(ctx, q, t.comply)
	}
	t.releaseLeft()
}

func (t *task) releaseLeft() {
	for _, q := range t.left {
		t.d.release(q)
	}
	t.left = nil
}
