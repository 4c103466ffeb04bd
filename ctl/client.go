package ctl

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pingcap/tidb/pkg/errno"

	"fastddl/ctl/connect"
	"fastddl/internal/terminal"
)

// program is the name of these clients in performance_schema and in the table of jobs.
const program = "fastddl ctl"

// conns is how many connections a command uses: one for the statement, one to look, one to command.
const conns = 3

// Output is where a command writes, and how.
type Output struct {
	Out, Err io.Writer
	// JSON asks for JSON instead of text for people.
	JSON bool
	// Moves says that Out is a terminal on which lines can be drawn again.
	Moves bool
	// Width returns the columns of Out; 0 does not cut lines.
	Width func() int
}

// NewOutput returns an output for what a process has been given.
func NewOutput(out, errs io.Writer, json bool) Output {
	o := Output{Out: out, Err: errs, JSON: json, Moves: terminal.Moves(out) && !json, Width: func() int { return 0 }}
	if terminal.Is(out) {
		o.Width = func() int { return terminal.Width(out) }
	}
	return o
}

// Client is a user of a fastddl server.
type Client struct {
	Output
	// Signals receives the signals by which the user asks to end.
	Signals <-chan os.Signal
	// Lines begins to read what the user types; nil without a terminal to ask on. It is called once, at the first question.
	Lines func() <-chan string
	// Every is the time between two looks at a build, PlainEvery between two lines of its progress where it is not drawn in place.
	Every, PlainEvery time.Duration
	// GiveUp is how long a lost server is tried again.
	GiveUp time.Duration

	db   *sql.DB
	addr string
}

// The defaults of Client.
const (
	DefaultEvery      = 500 * time.Millisecond
	DefaultPlainEvery = 3 * time.Second
	DefaultGiveUp     = 10 * time.Minute
)

// Dial connects to a server, and checks that it is one of fastddl. The client is to be closed.
func Dial(ctx context.Context, opts connect.Options, out Output) (*Client, error) {
	db, err := opts.Open(program, conns)
	if err != nil {
		return nil, err
	}
	c := &Client{Output: out, Every: DefaultEvery, PlainEvery: DefaultPlainEvery, GiveUp: DefaultGiveUp, db: db, addr: opts.Addr()}
	if err := c.identify(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return c, nil
}

// Close ends the connections.
func (c *Client) Close() error { return c.db.Close() }

// identify checks that the server builds indexes by fastddl.
func (c *Client) identify(ctx context.Context) error {
	var version string
	if err := c.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return fmt.Errorf("connect to %s: %w", c.addr, err)
	}
	var engine string
	err := c.db.QueryRowContext(ctx, "SELECT @@GLOBAL.fastddl_ddl_engine").Scan(&engine)
	if isNumber(err, errno.ErrUnknownSystemVariable) {
		return fmt.Errorf("the server at %s is %s, not fastddl: name a fastddl node by --host and --port", c.addr, terminal.Clean(version))
	}
	return err
}

// say writes a line for people. Its errors end nothing.
func (c *Client) say(format string, args ...any) {
	_, _ = fmt.Fprintln(c.Out, terminal.Clean(fmt.Sprintf(format, args...)))
}

// warn writes a warning to standard error.
func (c *Client) warn(text string) error {
	_, err := fmt.Fprintln(c.Err, "warning: "+terminal.Clean(text))
	return err
}

// table writes rows for people, each a list of cells.
func (c *Client) table(header []string, rows [][]string) {
	t := terminal.Table{Header: header, Rows: rows}
	t.Write(c.Out, c.Width())
}
