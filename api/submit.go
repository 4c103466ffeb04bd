package api

import (
	"context"
	"net/http"
	"regexp"
	"time"

	"fastddl/internal/errs"
)

// jobInterval is how often it is looked whether a statement waits for a job.
const jobInterval = 10 * time.Millisecond

// prepare sets database and settings of a session.
func (b *explanation) prepare(ctx context.Context, s Session) error {
	text := func(v *string) any {
		if v == nil {
			return nil
		}
		return *v
	}
	number := func(v *int64) any {
		if v == nil {
			return nil
		}
		return *v
	}
	if b.Schema != "" {
		if _, err := s.Run(ctx, "USE %n", b.Schema); err != nil {
			return err
		}
	}
	for _, v := range []struct {
		name  string
		value any
	}{
		{"fastddl_ddl_engine", text(b.Settings.Engine)}, {"tidb_ddl_reorg_worker_cnt", number(b.Settings.Thread)},
		{"tidb_ddl_reorg_batch_size", number(b.Settings.BatchSize)}, {"tidb_ddl_reorg_priority", text(b.Settings.Priority)},
		{"tidb_max_dist_task_nodes", number(b.Settings.Nodes)}, {"fastddl_ddl_window", text(b.Settings.Window)},
		{"fastddl_ddl_max_hold", text(b.Settings.MaxHold)}, {"fastddl_ddl_publish", text(b.Settings.Publish)},
		{"fastddl_ddl_verify", text(b.Settings.Verify)}, {"fastddl_ddl_preflight", text(b.Settings.Preflight)},
	} {
		if v.value == nil {
			continue
		}
		if _, err := s.Run(ctx, "SET SESSION %n = %?", v.name, v.value); err != nil {
			return err
		}
	}
	return s.CheckBuild(ctx, b.Statement)
}

func (c *call) explain() (*answer, error) {
	b := c.body.(*explanation)
	var rows []Row
	err := c.alone(func(s Session) error {
		if err := b.prepare(c.ctx, s); err != nil {
			return err
		}
		r, err := s.RunText(c.ctx, "EXPLAIN "+b.Statement)
		if err == nil {
			rows = r.objects()
		}
		return err
	})
	return ok(rows), err
}

// keyText is a key of a submission.
var keyText = regexp.MustCompile(`^[\x21-\x7e]{1,64}$`)

// outcome is the end of a statement.
type outcome struct {
	result *Result
	err    error
}

// submit begins a statement that builds indexes, and answers when its job is in the queue. The statement goes on without the request.
func (c *call) submit() (*answer, error) {
	b := c.body.(*submission)
	key := c.r.Header.Get("Idempotency-Key")
	if key != "" && !keyText.MatchString(key) {
		return nil, refuse(http.StatusBadRequest, "Idempotency-Key has 1 to 64 characters of ASCII without spaces")
	}
	if err := c.login.enter(c.ctx); err != nil {
		return nil, err
	}
	defer c.login.leave()
	s, err := c.login.account.Open(c.ctx)
	if err != nil {
		return nil, err
	}
	begun := false
	defer func() {
		if !begun {
			s.Close()
		}
	}()
	if err := b.prepare(c.ctx, s); err != nil {
		return nil, err
	}
	if key != "" {
		if _, err := s.Run(c.ctx, "SET SESSION fastddl_ddl_submit_key = %?", key); err != nil {
			return nil, err
		}
	}
	done := make(chan outcome, 1)
	begun = c.api.begin(func() {
		defer s.Close()
		var o outcome
		defer func() { done <- o }()
		defer errs.Contain(&o.err)
		// Not the request's context: the job would be cancelled with it. A server that stops ends the statement, and not the job.
		o.result, o.err = s.RunText(context.WithoutCancel(c.ctx), b.Statement)
	})
	if !begun {
		return nil, ErrStopping
	}
	asked := c.api.opts.Now()
	ticker := time.NewTicker(jobInterval)
	defer ticker.Stop()
	for {
		select {
		case o := <-done:
			return c.submitted(s.ID(), key, b.Statement, o)
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		case <-ticker.C:
		}
		if id, ok := s.Job(); ok {
			return c.queued(s.ID(), id)
		}
		if now := c.api.opts.Now(); now.After(asked.Add(tidbJobInterval)) {
			asked = now
			if key != "" {
				row, err := c.jobOf(key, b.Statement)
				if err == nil && row != nil { // of another node
					return &answer{http.StatusAccepted, submittedJob(s.ID(), row, nil)}, nil
				}
				continue
			}
			if id, ok := c.tidbJob(b.Statement); ok {
				return &answer{http.StatusAccepted, Submitted{JobID: id, Warnings: []Warning{}}}, nil
			}
		}
	}
}

// tidbJobInterval is how often TiDB's jobs are asked for one of a statement, if it has none of ours.
const tidbJobInterval = time.Second

// tidbJob returns the job of a statement whose indexes TiDB builds. That it cannot be read is no error of the statement.
func (c *call) tidbJob(statement string) (id int64, ok bool) {
	rows, err := c.rows(`SELECT job_id FROM information_schema.ddl_jobs WHERE query = %? AND state IN ('queueing', 'running') ORDER BY job_id DESC LIMIT 1`, statement)
	if err != nil || len(rows) == 0 {
		return 0, false
	}
	return connection(rows[0]["job_id"]), true
}

// queued is the answer with a job that waits or runs.
func (c *call) queued(conn uint64, id int64) (*answer, error) {
	rows, err := c.rows(selectJob, id)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return &answer{http.StatusAccepted, Submitted{JobID: id, Warnings: []Warning{}}}, nil
	}
	return &answer{http.StatusAccepted, submittedJob(conn, rows[0], nil)}, nil
}

// submittedJob is the answer with a job. One that another connection has submitted was there before.
func submittedJob(conn uint64, row Row, warnings []Warning) Submitted {
	out := Submitted{JobID: connection(row["job_id"]), Job: row, Existing: uint64(connection(row["conn_id"])) != conn, Warnings: warnings}
	if out.Warnings == nil {
		out.Warnings = []Warning{}
	}
	return out
}

const (
	// selectSubmitted finds the job of a statement that has ended: its connection has executed no other.
	selectSubmitted = "SELECT * FROM performance_schema.fastddl_ddl_jobs WHERE conn_id = %? AND query = %? ORDER BY job_id DESC LIMIT 1"
	// selectKeyed finds the job of a key.
	selectKeyed = `SELECT * FROM performance_schema.fastddl_ddl_jobs
		WHERE submit_key = %? AND query = %? AND SUBSTRING_INDEX(user_name, '@', 1) = SUBSTRING_INDEX(USER(), '@', 1) ORDER BY job_id DESC LIMIT 1`
)

// jobOf returns the job of a key and a statement of the account, nil if it is not shown. That a key has one job is not decided here.
func (c *call) jobOf(key, statement string) (Row, error) {
	rows, err := c.rows(selectKeyed, key, statement)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// submitted is the answer of a statement that has ended before its job was seen.
func (c *call) submitted(conn uint64, key, statement string, o outcome) (*answer, error) {
	if o.err != nil {
		return nil, o.err
	}
	rows, err := c.rows(selectSubmitted, conn, statement)
	if err != nil {
		return nil, err
	}
	var row Row
	if len(rows) > 0 {
		row = rows[0]
	} else if key != "" {
		if row, err = c.jobOf(key, statement); err != nil {
			return nil, err
		}
	}
	if row == nil {
		return &answer{http.StatusAccepted, Submitted{Warnings: append([]Warning{}, o.result.Warnings...)}}, nil
	}
	return &answer{http.StatusAccepted, submittedJob(conn, row, o.result.Warnings)}, nil
}
