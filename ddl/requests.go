package ddl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/pingcap/tidb/pkg/parser/terror"
	"go.uber.org/zap"

	"fastddl/ddl/job"
	"fastddl/internal/sleep"
)

// Requests to jobs that another node runs. They are rows of a table: the owner of the job
// finds them, does what they ask for, and writes the answer into the row, which who has
// asked waits for and removes. An owner that dies leaves them to the next one, which answers
// them before it does anything for the job; what was granted is answered in the same
// transaction, so that it is done once.

const (
	createRequestsTable = `CREATE TABLE IF NOT EXISTS mysql.fastddl_ddl_requests (
		request_id VARCHAR(64) NOT NULL PRIMARY KEY CLUSTERED,
		job_id BIGINT NOT NULL, request BLOB NOT NULL, answer BLOB, created TIMESTAMP(6) NOT NULL)`
	// forgetOldRequests removes those whose sender has died: any other would have taken the
	// answer, or the request back, by now. The clocks of nodes may differ by some minutes.
	forgetOldRequests = `DELETE FROM mysql.fastddl_ddl_requests WHERE created < NOW(6) - INTERVAL 10 MINUTE`

	// answerInterval is how often a node looks for the answer to its request, and
	// answerTimeout how long: a job that has lost its owner gets another one sooner.
	answerInterval = 50 * time.Millisecond
	answerTimeout  = 40 * time.Second
)

// errNotAsked says that a request was answered or taken back before it could be granted:
// who has found it has not seen that. It is not granted then.
var errNotAsked = errors.New("ddl: nobody waits for the answer to the request")

// remoteRequest is a request as its row holds it.
type remoteRequest struct {
	Request job.Request `json:"request,omitempty"`
	Alter   *Alteration `json:"alter,omitempty"`
}

// remoteAnswer is the answer: no error says that the request was granted.
type remoteAnswer struct {
	Error *terror.Error `json:"error,omitempty"`
}

// errUnanswered says that a request was taken back.
var errUnanswered = errors.New("the node that runs the job does not answer; the request was taken back")

// deliver sends a message to a job, wherever it runs. It fails with errGone if the job
// has ended.
func (d *DDL) deliver(ctx context.Context, id int64, m message) error {
	if t := d.lookup(id); t != nil {
		err := t.send(ctx, m)
		elsewhere := errors.Is(err, errGone) || errors.Is(err, errLost) // and nothing was done here
		if !elsewhere || !d.clustered() {
			return err
		}
	}
	r, err := d.recordOf(ctx, id)
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
	return d.deliverElsewhere(ctx, r.ID, remoteRequest{Request: m.request, Alter: m.alter})
}

// deliverElsewhere leaves a request for the owner of the job and waits for the answer.
func (d *DDL) deliverElsewhere(ctx context.Context, id int64, r remoteRequest) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	name := uuid.NewString()
	if _, err := d.sessions.query(ctx, `INSERT INTO mysql.fastddl_ddl_requests (request_id, job_id, request, created) VALUES (%?, %?, %?, NOW(6))`,
		name, id, data); err != nil {
		return fmt.Errorf("ask another node: %w", err)
	}
	d.opts.Cluster.Notify(ctx)
	for began := time.Now(); ; {
		answered, err := d.takeAnswer(ctx, name, false)
		if answered {
			return err
		}
		if err != nil {
			d.opts.Logger.Info("cannot look for an answer", zap.Int64("job", id), zap.Error(err))
		}
		rows, err := d.sessions.query(ctx, `SELECT 1 FROM mysql.fastddl_ddl_record WHERE job_id = %?`, id)
		gone := err == nil && len(rows) == 0
		if gone || time.Since(began) > answerTimeout || !sleep.For(ctx, answerInterval) || d.ctx.Err() != nil {
			return d.takeBack(ctx, name, gone)
		}
	}
}

// takeBack removes a request that nobody has answered; the last look shows whether
// somebody has.
func (d *DDL) takeBack(ctx context.Context, name string, gone bool) error {
	why := context.Cause(ctx)
	switch answered, err := d.takeAnswer(context.WithoutCancel(ctx), name, true); {
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

// takeAnswer removes a request that is answered, or every one if it is the last look, and
// returns the answer.
func (d *DDL) takeAnswer(ctx context.Context, name string, last bool) (answered bool, err error) {
	var answer remoteAnswer
	err = d.sessions.inTxn(ctx, func(x *txn) error {
		answered, answer = false, remoteAnswer{}
		rows, err := x.query(`SELECT answer FROM mysql.fastddl_ddl_requests WHERE request_id = %?`, name)
		if err != nil {
			return err
		}
		if len(rows) > 0 && !rows[0].IsNull(0) {
			answered = true
			if err := json.Unmarshal(rows[0].GetBytes(0), &answer); err != nil {
				return fmt.Errorf("decode answer: %w", err)
			}
		}
		if !answered && !last {
			return nil
		}
		return x.exec(`DELETE FROM mysql.fastddl_ddl_requests WHERE request_id = %?`, name)
	})
	if err != nil || !answered {
		return false, err
	}
	if answer.Error != nil {
		return true, answer.Error
	}
	return true, nil
}

// decode reads a request. It fails if the request asks for what this version does not know, which is not to be granted
// in part: a node of a later version may have sent it.
func (r *remoteRequest) decode(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(r)
	if err == nil && !r.Request.Known() {
		err = fmt.Errorf("request %q", r.Request)
	}
	if err != nil {
		return fmt.Errorf("the node that runs the job does not know the request, which may be of a later version: %w", err)
	}
	return nil
}

// foundRequest is a request of another node that this one answers, and nobody else on it.
type foundRequest struct {
	name  string
	jobID int64
	remoteRequest
	// unknown is why the request cannot be granted to any job.
	unknown error
}

// findRequests claims the requests that nobody answers, for jobs of which want is true. The
// caller releases every one of them.
func (d *DDL) findRequests(in *tenure, want func(jobID int64) bool) (found []foundRequest, err error) {
	rows, err := d.sessions.query(in.ctx, `SELECT request_id, job_id, request FROM mysql.fastddl_ddl_requests WHERE answer IS NULL ORDER BY created`)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		q := foundRequest{name: row.GetString(0), jobID: row.GetInt64(1)}
		if !want(q.jobID) {
			continue
		}
		q.unknown = q.decode(row.GetBytes(2))
		if _, busy := d.answering.LoadOrStore(q.name, true); !busy {
			found = append(found, q)
		}
	}
	return found, nil
}

// release lets others answer a request, if it is not answered.
func (d *DDL) release(q foundRequest) { d.answering.Delete(q.name) }

// answerRequests hands the requests of other nodes to the jobs of a tenure.
func (d *DDL) answerRequests(in *tenure) error {
	if len(d.running()) == 0 {
		return nil
	}
	found, err := d.findRequests(in, func(id int64) bool {
		t := d.lookup(id)
		return t != nil && t.tenure == in
	})
	for _, q := range found {
		begun := d.inside(func() { // a job that is busy does not hold up others; it ends with the job
			defer d.release(q)
			if t := d.lookup(q.jobID); t != nil && t.tenure == in {
				t.answer(in.ctx, q, t.send)
			}
		})
		if !begun {
			d.release(q)
		}
	}
	return err
}

// answer has a request done and writes the answer.
func (t *task) answer(ctx context.Context, q foundRequest, do func(context.Context, message) error) {
	write := func(x *txn, a remoteAnswer) error {
		rows, err := x.query(`SELECT 1 FROM mysql.fastddl_ddl_requests WHERE request_id = %? AND answer IS NULL`, q.name)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return errNotAsked
		}
		data, err := json.Marshal(a)
		if err != nil {
			return fmt.Errorf("encode answer: %w", err)
		}
		return x.exec(`UPDATE mysql.fastddl_ddl_requests SET answer = %? WHERE request_id = %?`, data, q.name)
	}
	err := t.d.contained("the answer to a request", func() error {
		granted := func(x *txn) error { return write(x, remoteAnswer{}) }
		err := q.unknown
		if err == nil {
			err = do(ctx, message{request: q.Request, alter: q.Alter, also: granted})
		}
		if err == nil || errors.Is(err, errNotAsked) || errors.Is(err, errGone) || ctx.Err() != nil {
			return nil // it is answered, or there is nobody here to answer it any more
		}
		return t.inOwnTxn(ctx, func(x *txn) error { return write(x, remoteAnswer{Error: job.ErrorOf(err)}) })
	})
	if err != nil && !errors.Is(err, errNotAsked) && ctx.Err() == nil {
		t.d.opts.Logger.Warn("a request of another node is not answered yet", zap.Int64("job", t.id), zap.Error(err))
	}
}

// answerLeft answers what the job's last owner was asked for: nobody finds that the job has
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
