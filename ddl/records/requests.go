package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/tidb/pkg/parser/terror"

	"fastddl/ddl/job"
	"fastddl/ddl/session"
)

const (
	// CreateRequests makes the table of requests.
	CreateRequests = `CREATE TABLE IF NOT EXISTS mysql.fastddl_ddl_requests (
		request_id VARCHAR(64) NOT NULL PRIMARY KEY CLUSTERED,
		job_id BIGINT NOT NULL, request BLOB NOT NULL, answer BLOB, created TIMESTAMP(6) NOT NULL)`
	// DeleteOldRequests removes those whose sender has died: any other would have taken the
	// answer, or the request back, by now. The clocks of nodes may differ by some minutes.
	DeleteOldRequests = `DELETE FROM mysql.fastddl_ddl_requests WHERE created < NOW(6) - INTERVAL 10 MINUTE`
)

// ErrNotAsked says that a request was answered or taken back after the owner read it and
// before the owner granted it. The owner does not grant it then.
var ErrNotAsked = errors.New("ddl: nobody waits for the answer to the request")

// RemoteRequest is a request to a job, as its row holds it.
type RemoteRequest struct {
	Request job.Request `json:"request,omitempty"`
	Alter   *Alteration `json:"alter,omitempty"`
}

// Answer is the answer: no error says that the request was granted.
type Answer struct {
	Error *terror.Error `json:"error,omitempty"`
}

// Alteration is what ADMIN ALTER DDL JOBS changes of a job's settings; nil leaves
// one as it is. See job.Settings for units and ranges.
type Alteration struct {
	Threads       *int   `json:"threads,omitempty"`
	BatchSize     *int   `json:"batch_size,omitempty"`
	MaxWriteSpeed *int64 `json:"max_write_speed,omitempty"`

	Window  *string        `json:"window,omitempty"`
	MaxHold *time.Duration `json:"max_hold,omitempty"`
	Publish *string        `json:"publish,omitempty"`
}

// Schedules says that it changes when the job works or is published, which nodes of an earlier version do not follow.
func (a Alteration) Schedules() bool { return a.Window != nil || a.Publish != nil }

// ApplyTo changes the settings.
func (a Alteration) ApplyTo(s *job.Settings) {
	if a.Threads != nil {
		s.Threads = *a.Threads
	}
	if a.BatchSize != nil {
		s.BatchSize = *a.BatchSize
	}
	if a.MaxWriteSpeed != nil {
		s.MaxWriteSpeed = *a.MaxWriteSpeed
	}
	if a.Window != nil {
		s.Window = *a.Window
	}
	if a.MaxHold != nil {
		s.MaxHold = *a.MaxHold
	}
	if a.Publish != nil {
		s.Publish = *a.Publish
	}
}

// PutRequest leaves a request for the owner of a job, under a name that no other request has.
func (t *Tables) PutRequest(ctx context.Context, name string, jobID int64, r RemoteRequest) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	if _, err := t.Sessions.Query(ctx, `INSERT INTO mysql.fastddl_ddl_requests (request_id, job_id, request, created) VALUES (%?, %?, %?, NOW(6))`,
		name, jobID, data); err != nil {
		return fmt.Errorf("ask another node: %w", err)
	}
	return nil
}

// OpenRequest is a request that is not answered.
type OpenRequest struct {
	Name  string
	JobID int64
	RemoteRequest
	// Unknown is why the request cannot be granted to any job.
	Unknown error
}

// OpenRequests returns the requests to jobs of which want is true that are not answered, in the order in which they were made.
func (t *Tables) OpenRequests(ctx context.Context, want func(jobID int64) bool) (open []OpenRequest, err error) {
	rows, err := t.Sessions.Query(ctx, `SELECT request_id, job_id, request FROM mysql.fastddl_ddl_requests WHERE answer IS NULL ORDER BY created`)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		q := OpenRequest{Name: row.GetString(0), JobID: row.GetInt64(1)}
		if !want(q.JobID) {
			continue
		}
		q.Unknown = q.decode(row.GetBytes(2))
		open = append(open, q)
	}
	return open, nil
}

// AnswerRequest writes the answer to a request; it fails with ErrNotAsked if there is one, or the request was taken back.
func AnswerRequest(t *session.Txn, name string, a Answer) error {
	rows, err := t.Query(`SELECT 1 FROM mysql.fastddl_ddl_requests WHERE request_id = %? AND answer IS NULL`, name)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return ErrNotAsked
	}
	data, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return t.Exec(`UPDATE mysql.fastddl_ddl_requests SET answer = %? WHERE request_id = %?`, data, name)
}

// TakeAnswer removes a request that is answered, or every one if it is the last look, and
// returns the answer.
func (t *Tables) TakeAnswer(ctx context.Context, name string, last bool) (answered bool, err error) {
	var answer Answer
	err = t.Sessions.InTxn(ctx, func(x *session.Txn) error {
		answered, answer = false, Answer{}
		rows, err := x.Query(`SELECT answer FROM mysql.fastddl_ddl_requests WHERE request_id = %?`, name)
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
		return x.Exec(`DELETE FROM mysql.fastddl_ddl_requests WHERE request_id = %?`, name)
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
func (r *RemoteRequest) decode(data []byte) error {
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
