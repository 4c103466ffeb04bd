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

// given returns what a pointer points to; nil if a request has left it out.
func given[T any](v *T) any {
	if v == nil {
		return nil
	}
	return *v
}

// prepare sets database and settings of a session.
func (b *explanation) prepare(ctx context.Context, s Session) error {
	if b.Schema != "" {
		if _, err := s.Run(ctx, "USE %n", b.Schema); err != nil {
			return err
		}
	}
	for _, v := range []struct {
		name  string
		value any
	}{
		{"fastddl_ddl_engine", given(b.Settings.Engine)}, {"tidb_ddl_reorg_worker_cnt", given(b.Settings.Thread)},
		{"tidb_ddl_reorg_batch_size", given(b.Settings.BatchSize)}, {"tidb_ddl_reorg_priority", given(b.Settings.Priority)},
		{"tidb_max_dist_task_nodes", given(b.Settings.Nodes)}, {"fastddl_ddl_window", given(b.Settings.Window)},
		{"fastddl_ddl_max_hold", given(b.Settings.MaxHold)}, {"fastddl_ddl_publish", given(b.Settings.Publish)},
		{"fastddl_ddl_verify", given(b.Settings.Verify)}, {"fastddl_ddl_preflight", given(b.Settings.Preflight)},
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

// outcome is the end of a statement, and its job, if it has one.
type outcome struct {
	result *Result
	err    error
	job    SubmittedJob
	hasJob bool
}

// submit begins a statement that builds indexes, and answers when its job is in the queue. The statement goes on without the request.
func (c *call) submit() (*answer, error) {
	b := c.body.(*submission)
	key := c.r.Header.Get("Idempotency-Key")
	if key != "" && !keyText.MatchString(key) {
		return nil, refuse(http.StatusBadRequest, "Idempotency-Key has 1 to 64 characters of ASCII without spaces")
	}
	leave, err := c.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
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
	began := c.api.opts.Now()
	stays := c.api.logins.stay(c.login)
	gone := func() {
		if stays {
			c.api.logins.gone(c.login)
		}
	}
	left := func() {
		if !stays {
			s.Leave()
		}
	}
	done := make(chan outcome, 1)
	begun = c.api.begin(func() {
		defer gone()
		defer s.Close()
		var o outcome
		defer func() { o.job, o.hasJob = s.Job(); done <- o }()
		defer errs.Contain(&o.err)
		// Not the request's context: the job would be cancelled with it. A server that stops ends the statement, and not the job.
		o.result, o.err = s.RunText(context.WithoutCancel(c.ctx), b.Statement)
	})
	if !begun {
		gone()
		return nil, ErrStopping
	}
	asked := began
	ticker := time.NewTicker(jobInterval)
	defer ticker.Stop()
	for {
		select {
		case o := <-done:
			return c.submitted(key, o)
		case <-c.ctx.Done():
			left()
			return nil, context.Cause(c.ctx)
		case <-ticker.C:
		}
		if job, ok := s.Job(); ok {
			left()
			return c.queued(job, nil)
		}
		if now := c.api.opts.Now(); key == "" && now.After(asked.Add(tidbJobInterval)) { // TiDB takes no key
			asked = now
			if id, ok := c.tidbJob(b.Statement, began); ok {
				left()
				return &answer{http.StatusAccepted, Submitted{JobID: id, Warnings: []Warning{}}}, nil
			}
		}
	}
}

// tidbJobInterval is how often TiDB's jobs are asked for one of a statement, if it has none of ours.
const tidbJobInterval = time.Second

// clockSkew is how much the store's clock, which the jobs' times are of, may be behind this machine's.
const clockSkew = time.Second

// tidbJob returns the job of a statement whose indexes TiDB builds, which began then. That it cannot be read is no error of the statement.
func (c *call) tidbJob(statement string, began time.Time) (id int64, ok bool) {
	rows, err := c.rows(`SELECT job_id FROM information_schema.ddl_jobs WHERE query = %? AND state IN ('queueing', 'running') AND create_time >= %?
		ORDER BY job_id DESC LIMIT 1`, statement, began.Add(-clockSkew).UTC().Format(time.DateTime))
	if err != nil || len(rows) == 0 {
		return 0, false
	}
	return connection(rows[0]["job_id"]), true
}

// queued is the answer with a job.
func (c *call) queued(job SubmittedJob, warnings []Warning) (*answer, error) {
	rows, err := c.jobRows(job.ID)
	if err != nil {
		return nil, err
	}
	out := Submitted{JobID: job.ID, Existing: job.Before, Warnings: append([]Warning{}, warnings...)}
	if len(rows) > 0 {
		out.Job = rows[0]
	}
	return &answer{http.StatusAccepted, out}, nil
}

// submitted is the answer of a statement that has ended before its job was seen. A key answers with its job however that has ended: who
// sends the key again wants to know what has become of it.
func (c *call) submitted(key string, o outcome) (*answer, error) {
	switch {
	case o.err != nil && (key == "" || !o.hasJob):
		return nil, o.err
	case o.err != nil:
		return c.queued(o.job, nil)
	case o.hasJob:
		return c.queued(o.job, o.result.Warnings)
	}
	return &answer{http.StatusAccepted, Submitted{Warnings: append([]Warning{}, o.result.Warnings...)}}, nil
}
