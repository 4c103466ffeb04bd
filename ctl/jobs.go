package ctl

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fastddl/internal/sleep"
)

// running selects the builds that have not ended.
const running = "end_time IS NULL"

// Jobs lists the builds that have not ended.
func (c *Client) Jobs(ctx context.Context) error {
	if c.JSON {
		return c.objects(ctx, "SELECT * FROM "+jobsTable+" WHERE "+running+" ORDER BY job_id")
	}
	jobs, err := findJobs(ctx, c.db, running)
	if err != nil {
		return err
	}
	c.list(jobs)
	return nil
}

// objects writes the rows of a query as one array.
func (c *Client) objects(ctx context.Context, query string, args ...any) error {
	r, err := ask(ctx, c.db, query, args...)
	if err != nil {
		return err
	}
	return writeJSON(c.Out, r.objects())
}

// list writes builds as a table, and returns the number of its lines.
func (c *Client) list(jobs []Job) int {
	if len(jobs) == 0 {
		c.say("no index is being built")
		return 1
	}
	rows := make([][]string, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		eta, rate := "", ""
		if j.ETA.Valid {
			eta = span(j.ETA.Float64)
		}
		if j.RowsPerSecond >= 1 {
			rate = count(j.RowsPerSecond)
		}
		rows[i] = []string{strconv.FormatInt(j.ID, 10), j.Name(), j.phase(), fmt.Sprintf("%.0f%%", j.Percent), count(float64(j.Rows)), rate, eta, j.WaitReason}
	}
	c.table([]string{"JOB", "TABLE", "DOES", "DONE", "ROWS", "ROWS/S", "ETA", "WAITS FOR"}, rows)
	return len(rows) + 1
}

// Watch shows one build until it has ended.
func (c *Client) Watch(ctx context.Context, id int64) error {
	server := &knownBuild{c: c, id: id}
	j, err := server.job(ctx)
	if err != nil {
		return err
	}
	if j == nil {
		return fmt.Errorf("job %d is no index build, or none that this user may see", id)
	}
	started := time.Now()
	f := &follower{Client: c, builds: server, view: c.newView(), seen: j}
	v, err := f.follow(ctx)
	if err != nil {
		return err
	}
	took := time.Since(started)
	if f.seen.Ended {
		took = time.Duration(f.seen.Seconds * float64(time.Second))
	}
	return c.report(v, f.seen, took, nil)
}

// knownBuild is a build by its number.
type knownBuild struct {
	c  *Client
	id int64
}

func (b *knownBuild) job(ctx context.Context) (*Job, error) {
	jobs, err := findJobs(ctx, b.c.db, "job_id = ?", b.id)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	return &jobs[0], nil
}

func (b *knownBuild) command(ctx context.Context, verb string, _ *Job) error {
	return b.c.admin(ctx, verb, b.id)
}

// WatchAll shows all builds that have not ended, again and again until the user ends it.
func (c *Client) WatchAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-c.Signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	every, lines := c.PlainEvery, 0
	if c.Moves {
		every = c.Every
	}
	for {
		jobs, err := findJobs(ctx, c.db, running)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (denied(err) || lines == 0):
			return err
		case c.Moves && lines > 0:
			_, _ = fmt.Fprintf(c.Out, "\x1b[%dA\r\x1b[J", lines)
		}
		switch {
		case err != nil:
			text := fmt.Sprintf("the server does not answer (%s): trying again", message(err))
			if c.JSON {
				(&jsonView{c: c}).note(text)
			} else {
				c.say("%s", text)
			}
			lines = 1
		case c.JSON:
			shown := make([]object, len(jobs))
			for i := range jobs {
				shown[i] = jobs[i].shown
			}
			if err := writeJSON(c.Out, shown); err != nil {
				return err
			}
			lines = 1
		default:
			lines = c.list(jobs)
		}
		if !sleep.For(ctx, every) {
			return nil
		}
	}
}

// admin executes ADMIN verb DDL JOBS for one build.
func (c *Client) admin(ctx context.Context, verb string, id int64) error {
	r, err := ask(ctx, c.db, fmt.Sprintf("ADMIN %s DDL JOBS %d", verb, id))
	if err != nil {
		return err
	}
	for _, row := range r.rows {
		if row[1].String != successful {
			return errors.New(strings.TrimPrefix(row[1].String, "error: "))
		}
	}
	return nil
}

// successful is TiDB's word for a command that a job has taken.
const successful = "successful"

// Command executes ADMIN verb DDL JOBS for some jobs, and shows what each has answered.
func (c *Client) Command(ctx context.Context, verb string, ids []int64) error {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	r, err := ask(ctx, c.db, "ADMIN "+verb+" DDL JOBS "+strings.Join(texts, ", "))
	if err != nil {
		return err
	}
	failed := 0
	for _, row := range r.rows {
		if row[1].String != successful {
			failed++
		}
	}
	if c.JSON {
		if err := writeJSON(c.Out, r.objects()); err != nil {
			return err
		}
	} else {
		c.table([]string{"JOB", "RESULT"}, r.text())
	}
	if failed > 0 {
		return &Error{Code: Failed, Err: fmt.Errorf("%d of %d jobs have refused", failed, len(r.rows))}
	}
	return nil
}

// Alter changes settings of a job, all or none.
func (c *Client) Alter(ctx context.Context, id int64, settings []Setting) error {
	parts, args := make([]string, len(settings)), make([]any, len(settings))
	for i, s := range settings {
		parts[i], args[i] = s.Name+" = ?", s.literal()
	}
	if err := c.execWithWarnings(ctx, fmt.Sprintf("ADMIN ALTER DDL JOBS %d %s", id, strings.Join(parts, ", ")), args...); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(c.Out, []struct {
			ID     int64  `json:"job_id"`
			Result string `json:"result"`
		}{{id, successful}})
	}
	c.table([]string{"JOB", "RESULT"}, [][]string{{strconv.FormatInt(id, 10), successful}})
	return nil
}

// execWithWarnings executes a statement, and shows warnings on standard error.
func (c *Client) execWithWarnings(ctx context.Context, query string, args ...any) (err error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeConn(conn)) }()
	if _, err := conn.ExecContext(ctx, query, args...); err != nil {
		return err
	}
	return c.showWarnings(ctx, conn)
}

func (c *Client) showWarnings(ctx context.Context, db queryer) error {
	r, err := ask(ctx, db, "SHOW WARNINGS")
	if err != nil {
		return fmt.Errorf("read the warnings: %w", err)
	}
	for _, row := range r.rows {
		if err := c.warn(row[2].String); err != nil {
			return err
		}
	}
	return nil
}
