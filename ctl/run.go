package ctl

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver" // the parser needs it

	"fastddl/internal/errs"
	"fastddl/internal/terminal"
)

// RunOptions say what run executes.
type RunOptions struct {
	Statement string
	// Settings are variables of the statement's session.
	Settings []Setting
}

// Check returns an error if the statement is none that run executes: one statement that changes a definition. What it cannot parse is
// left to the server.
func (o *RunOptions) Check() error {
	nodes, _, err := parser.New().Parse(o.Statement, "", "")
	switch {
	case err != nil:
		return nil
	case len(nodes) != 1:
		return fmt.Errorf("one statement is needed, and these are %d", len(nodes))
	}
	if _, ok := nodes[0].(ast.DDLNode); !ok {
		return errors.New("run executes statements that change a definition, such as ALTER TABLE ... ADD INDEX")
	}
	return nil
}

// buildsIndex reports whether a statement may add an index, so that the server shows a build of it.
func buildsIndex(statement string) bool {
	nodes, _, err := parser.New().Parse(statement, "", "")
	if err != nil || len(nodes) != 1 {
		return true
	}
	switch node := nodes[0].(type) {
	case *ast.CreateIndexStmt:
		return true
	case *ast.AlterTableStmt:
		for _, spec := range node.Specs {
			if spec.Tp == ast.AlterTableAddConstraint {
				return true
			}
		}
	}
	return false
}

// Run executes the statement and shows the build's progress until it ends. The error says by its [ExitCode] how.
func (c *Client) Run(ctx context.Context, opts RunOptions) (err error) {
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeConn(conn)) }()
	for _, s := range opts.Settings {
		if _, err := conn.ExecContext(ctx, "SET SESSION "+s.Name+" = ?", s.literal()); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	server := &ownBuild{c: c}
	if err := conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&server.conn); err != nil {
		return err
	}
	query := "SELECT COALESCE(MAX(job_id), 0) FROM " + jobsTable + " WHERE conn_id = ?"
	if err := conn.QueryRowContext(ctx, query, server.conn).Scan(&server.after); err != nil {
		return fmt.Errorf("read %s: %w", jobsTable, err)
	}
	if !c.JSON {
		_, _ = fmt.Fprintln(c.Out, terminal.CleanLines(strings.TrimSpace(opts.Statement)))
	}
	started := time.Now()
	statement, end := execute(ctx, conn, opts.Statement)
	defer end()
	f := &follower{Client: c, builds: server, view: c.newView(), statement: statement, manual: true, expectsJob: buildsIndex(opts.Statement)}
	v, err := f.follow(ctx)
	if err != nil {
		return err
	}
	return c.report(v, f.seen, time.Since(started), warnings(ctx, conn, v))
}

// closeConn returns a connection to its pool. One that was lost is not an error here.
func closeConn(conn *sql.Conn) error {
	if err := conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
		return err
	}
	return nil
}

// execute executes a statement in the background. end gives its connection up, which ends no build, and waits.
func execute(ctx context.Context, conn *sql.Conn, statement string) (result <-chan error, end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done, ended := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(ended)
		done <- func() (err error) {
			defer errs.Contain(&err)
			_, err = conn.ExecContext(ctx, statement)
			return err
		}()
	}()
	return done, func() {
		cancel()
		<-ended
	}
}

// warnings returns what the server has warned of, where the statement has returned.
func warnings(ctx context.Context, conn *sql.Conn, v verdict) (texts []string) {
	if v.outcome != outcomeDone && v.outcome != outcomeReady {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	r, err := ask(ctx, conn, "SHOW WARNINGS")
	if err != nil {
		return nil // the connection is lost; what was asked for is done
	}
	for _, row := range r.rows {
		texts = append(texts, row[2].String)
	}
	return texts
}

// ownBuild is the build of a statement on a connection of this command.
type ownBuild struct {
	c *Client
	// conn is the connection. Its earlier builds have numbers up to after.
	conn, after int64
	id          int64 // 0 until the build is seen
}

func (b *ownBuild) job(ctx context.Context) (*Job, error) {
	condition, args := "job_id = ?", []any{b.id}
	if b.id == 0 {
		condition, args = "conn_id = ? AND job_id > ? AND program_name = ?", []any{b.conn, b.after, program}
	}
	jobs, err := findJobs(ctx, b.c.db, condition, args...)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	b.id = jobs[0].ID
	return &jobs[0], nil
}

func (b *ownBuild) command(ctx context.Context, verb string, j *Job) error {
	switch {
	case j != nil:
		return b.c.admin(ctx, verb, j.ID)
	case verb == "CANCEL":
		_, err := b.c.db.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", b.conn))
		return err
	}
	return errors.New("the server shows no build of this statement yet")
}

// report shows how a build has ended and returns the error of the command.
func (c *Client) report(v verdict, j *Job, took time.Duration, warnings []string) error {
	code := v.outcome.code()
	if c.JSON {
		e := event{Event: "end", Outcome: v.outcome, ExitCode: &code, Seconds: took.Seconds(), Warnings: warnings}
		if j != nil {
			e.Job = &j.shown
		}
		if v.err != nil {
			e.Error = message(v.err)
		}
		if err := writeJSON(c.Out, e); err != nil {
			return err
		}
	} else {
		for _, w := range warnings {
			if v.outcome != outcomeReady { // whose warning is the line below
				c.say("warning: %s", w)
			}
		}
		if line := summary(v.outcome, j, took); line != "" {
			c.say("%s", line)
		}
	}
	switch {
	case code == Done:
		return nil
	case v.err == nil:
		return &Error{Code: code}
	}
	if j != nil && listsRows(v.err) {
		return &Error{Code: code, Err: fmt.Errorf("%s; fastddl ctl history %d shows the rows", message(v.err), j.ID)}
	}
	return &Error{Code: code, Err: errors.New(message(v.err))}
}

// summary is the last line for people.
func summary(o outcome, j *Job, took time.Duration) string {
	number := "the statement"
	if j != nil {
		number = fmt.Sprintf("job %d", j.ID)
	}
	switch o {
	case outcomeDone:
		line := "done in " + span(took.Seconds())
		if j != nil {
			line += ": " + figures(j)
		}
		return line
	case outcomeReady:
		if j == nil {
			return "built and verified, not public yet: fastddl ctl jobs has its number, fastddl ctl publish publishes it"
		}
		return fmt.Sprintf("built and verified in %s, not public yet: fastddl ctl publish %d", span(took.Seconds()), j.ID)
	case outcomeCancelled:
		return number + " is cancelled: nothing is left of it"
	case outcomePaused:
		return fmt.Sprintf("%s is paused: fastddl ctl resume %d, then fastddl ctl watch %d", number, j.ID, j.ID)
	case outcomeLeft:
		if j == nil {
			return "left: fastddl ctl jobs shows the build if the server has queued it"
		}
		return fmt.Sprintf("%s goes on at the server: fastddl ctl watch %d", number, j.ID)
	}
	return ""
}

// figures are those of a build that has ended.
func figures(j *Job) string {
	parts := []string{count(float64(j.Rows)) + " rows"}
	if j.IndexBytes.Valid {
		parts = append(parts, "index "+size(float64(j.IndexBytes.Int64)))
	}
	if j.Verified != "" {
		parts = append(parts, "verified: "+j.Verified)
	}
	return strings.Join(parts, ", ")
}
