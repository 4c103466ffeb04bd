package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Sessions open the sessions of SQL by which requests are executed. They are those of MySQL clients: with the same checks of the account,
// the same guards, and in the same list of clients.
type Sessions interface {
	// LogIn checks an account as that of a MySQL client. It fails with *SQLError, which says why.
	LogIn(ctx context.Context, caller Caller, user, password string) (Account, error)
}

// Account is the account of a log-in.
type Account interface {
	// Name is the account, as user@host, with the host part of its name in mysql.user.
	Name() string
	// State identifies what the log-in depends on, as it was then: the account's password, its locks, what it requires of connections.
	State() string
	// Current returns that of now. It fails if the account cannot be read.
	Current(ctx context.Context) (string, error)
	// Open opens a session of the account, with its default roles.
	Open(ctx context.Context) (Session, error)
}

// Session is a session of SQL. It executes one statement at a time.
type Session interface {
	// ID is the number of its connection, as in SHOW PROCESSLIST.
	ID() uint64
	// Run executes one statement, with arguments for %? (values) and %n (names). It fails with *SQLError. The end of ctx ends the statement.
	Run(ctx context.Context, statement string, args ...any) (*Result, error)
	// RunOn is Run for a statement that needs some rows only of the tables of builds.
	RunOn(ctx context.Context, needed Needed, statement string, args ...any) (*Result, error)
	// RunText executes one statement as it is.
	RunText(ctx context.Context, statement string) (*Result, error)
	// Grants returns what the account may do, with its active roles: first the global privileges, then those of schemas and tables.
	Grants(ctx context.Context) ([]Grant, error)
	// CheckBuild returns nil if a text is one statement that adds indexes, which EXPLAIN would take, else a *SQLError.
	CheckBuild(ctx context.Context, text string) error
	// Job returns the index build that its last statement has queued, or has found queued by an earlier one with the same key; ok is false if
	// there is none. It is asked for while the statement runs, too.
	Job() (job SubmittedJob, ok bool)
	// Leave ends the session and the statement that runs, as the end of the server does: a job that it waits for goes on. One that it has not
	// queued yet may stay away.
	Leave()
	// Ended says that the session was killed.
	Ended() bool
	// Close ends the session. It is called once, when no statement runs.
	Close()
}

// Needed says which rows of performance_schema's tables of builds a statement needs.
type Needed struct {
	// Job is the number of the only job; 0 is all.
	Job int64
	// Newest is how many jobs the statement returns, the newest first, of those below the number Before and in the state State, active or ended;
	// 0 is all.
	Newest, Before int64
	State          string
}

// SubmittedJob is the job of a statement.
type SubmittedJob struct {
	ID int64
	// Before says that an earlier statement with the same key has queued it.
	Before bool
}

// Grant are the privileges that an account has in one place. Those of columns and GRANT OPTION are left out.
type Grant struct {
	Schema     string   `json:"schema" doc:"empty for all schemas. Without a table it is a pattern, as of LIKE"`
	Table      string   `json:"table" doc:"empty for all tables of the schema"`
	Privileges []string `json:"privileges" doc:"names in upper case, in order. Those that ALL or SUPER contains are named"`
}

// Caller is the client of a request.
type Caller struct {
	Addr netip.AddrPort
	// TLS is the state of the connection, nil without TLS.
	TLS *tls.ConnectionState
	// Local says that the client is on this machine.
	Local bool
}

// Host is the address that the host part of an account matches.
func (c Caller) Host() string { return c.Addr.Addr().Unmap().WithZone("").String() }

// Result is what a statement returns.
type Result struct {
	// Columns are the names of the columns, as the statement has them.
	Columns []string
	// Rows have values that encoding/json encodes: NULL as null, JSON as it is, times in RFC 3339, decimals as text.
	Rows     [][]any
	Warnings []Warning
}

// Warning is a warning of a statement.
type Warning struct {
	Level   string `json:"level"`
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// SQLError is an error with MySQL's or TiDB's number.
type SQLError struct {
	Code    int
	State   string
	Message string
}

// Error implements error.
func (e *SQLError) Error() string {
	return fmt.Sprintf("error %d (%s): %s", e.Code, e.State, e.Message)
}

var (
	// ErrLoginEnded is the error of requests by a log-in that holds no longer.
	ErrLoginEnded = errors.New("the log-in has ended: log in again")
	// ErrStopping is the error of requests to a server that stops.
	ErrStopping = errors.New("the server is stopping")
)

// objects returns the rows as one object each, whose keys are the names of the columns in lower case, with _ for spaces.
func (r *Result) objects() []Row {
	rows := make([]Row, 0, len(r.Rows))
	for _, values := range r.Rows {
		row := make(Row, len(values))
		for i, v := range values {
			row[strings.ReplaceAll(strings.ToLower(r.Columns[i]), " ", "_")] = v
		}
		rows = append(rows, row)
	}
	return rows
}

// Row is a row as a JSON object.
type Row map[string]any
