package crash

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

// errNodeGone ends what a worker does when the server has been killed.
var errNodeGone = errors.New("the server is gone")

// errFaultInjected ends a connection whose last error an injected fault explains.
var errFaultInjected = errors.New("a fault was injected into the server")

// wrongResult is an error that no crash, and nothing else that is done to the server,
// explains.
type wrongResult struct{ error }

func wrongf(format string, args ...any) error { return wrongResult{fmt.Errorf(format, args...)} }

// A kind of fault is injected into a server that goes on running.
type kind string

const (
	killed      kind = "KILLs"
	clockJump   kind = "clock jumps"
	diskFull    kind = "full disks"
	readErrors  kind = "windows of read errors"
	writeErrors kind = "windows of write errors"
	noFiles     kind = "windows without file descriptors"
	tempLost    kind = "losses of the temp folder"
)

// explains says whether statements may fail with err because of this kind of fault.
func (k kind) explains(err error) bool {
	number := errorNumber(err)
	switch k {
	case killed:
		// Where TiDB finds out after a commit, by a panic, it hands that on as it is.
		handedOn := strings.Contains(err.Error(), "[executor:1317]")
		return number == 1317 || number == 1105 && handedOn || isDisconnected(err)
	case clockJump:
		// Schema, locks, snapshot or transaction are too old; and TiDB measures the wait for
		// a lock by the wall clock (StmtCtx.GetLockWaitStartTime).
		return slices.Contains([]uint16{8027, 8028, 8229, 8055, 9006}, number) || number == 1105 && strings.Contains(err.Error(), "lock wait timeout")
	case diskFull:
		return number != 0
	case readErrors, writeErrors, noFiles:
		return true
	}
	return false
}

// panicked finds what a process says when it does not end in its own way.
var panicked = regexp.MustCompile(`(?m)^(?:panic|fatal error): .*`)

// cutShort finds a panic with an error of a file that the process did not live to print.
var cutShort = regexp.MustCompile(`(?m)^panic: \(\*fs\.PathError\) 0x[0-9a-f]+\n\s*fatal error: sync: unlock of unlocked mutex$`)

// rotating is in the trace of a process that could not create its next log.
const rotating = "github.com/cockroachdb/pebble/v2.(*DB).rotateWAL("

// ends says what is wrong with the end of a server, by its exit code and its log, that this
// kind of fault may have. Pebble gives up by a log line and exit code 1, or panics, when it
// does not know what is on disk: then it names the error that the test has caused, by its number
// or not at all, by an address, if unlocking what is not locked ends the process in the middle of the panic; then the
// log has it, unless the process had no time for that either.
func (k kind) ends(code int, log string) error {
	what := panicked.FindString(log)
	caused := syscall.EIO
	if k == noFiles {
		caused = syscall.EMFILE
	}
	named := strings.Contains(what, caused.Error()) || what == fmt.Sprintf("panic: syscall.Errno(%d)", caused) ||
		cutShort.MatchString(log) && (strings.Contains(log, caused.Error()) || strings.Contains(log, rotating))
	switch {
	case strings.Contains(log, violated):
		return wrongf("%s: the server has ended by an assertion", k)
	case what != "" && (k == readErrors || !named):
		return wrongf("%s: the server has ended by a panic: %s", k, what)
	case what == "" && code != 1:
		return wrongf("%s: the server has ended with exit code %d", k, code)
	}
	return nil
}

// violated is what a failed assertion says (package invariants).
const violated = "invariant violated"

// isDisconnected says that the server, or its end, has closed the connection.
func isDisconnected(err error) bool {
	var op *net.OpError
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op)
}

// fault lasts from one time to another, which is zero while it does.
type fault struct {
	kind     kind
	from, to time.Time
}

// faults are all that were injected into a server.
type faults struct {
	mu    sync.Mutex
	all   []*fault
	count map[kind]int
}

// begin notes a fault that lasts from now on, until end is called.
func (ts *faults) begin(k kind) (end func()) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := &fault{kind: k, from: time.Now()}
	ts.all = append(ts.all, t)
	if ts.count == nil {
		ts.count = make(map[kind]int)
	}
	ts.count[k]++
	return func() {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		t.to = time.Now()
	}
}

// explain says whether any fault since a time explains an error.
func (ts *faults) explain(since time.Time, err error) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return slices.ContainsFunc(ts.all, func(t *fault) bool {
		return (t.to.IsZero() || !t.to.Before(since)) && t.kind.explains(err)
	})
}

// tally counts the faults of each kind.
func (ts *faults) tally() tally {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	var t tally
	for _, k := range []kind{killed, clockJump, diskFull, readErrors, writeErrors, noFiles, tempLost} {
		t = append(t, count{string(k), ts.count[k]})
	}
	return t
}

// inconsistencies are the errors by which TiDB says that rows and indexes differ: an
// assertion has failed at a commit, or a statement or ADMIN CHECK TABLE has seen it.
var inconsistencies = []uint16{8133, 8134, 8141, 8223}

// gone returns errNodeGone for an error that the end of the server explains, and
// errFaultInjected for one that a fault since a time explains. A
// wrong result is explained by nothing.
func (r *run) gone(since time.Time, err error) error {
	switch {
	case err == nil || errors.As(err, new(wrongResult)):
		return err
	case slices.Contains(inconsistencies, errorNumber(err)):
		return wrongResult{err}
	case r.ending.Load():
		return errNodeGone
	case r.faults.explain(since, err):
		return errFaultInjected
	}
	return err
}

// connection is one that a worker uses until it breaks.
type connection struct {
	*sql.Conn
	id int64
	// since is when the last statement but one began: a client that is disconnected
	// between two statements learns it from the second.
	since, last time.Time
}

func connect(ctx context.Context, db *sql.DB) (*connection, error) {
	c := &connection{since: time.Now(), last: time.Now()}
	var err error
	if c.Conn, err = db.Conn(ctx); err != nil {
		return c, err
	}
	return c, c.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&c.id)
}

// begins notes that a transaction begins.
func (c *connection) begins() { c.since, c.last = c.last, time.Now() }

// abandon closes a connection, and does not give it back to the pool.
func (c *connection) abandon() {
	if c.Conn != nil {
		_ = c.Raw(func(any) error { return driver.ErrBadConn })
		_ = c.Close()
	}
}

// keepWorking calls fn with a connection, and with another whenever something has
// been done to the server. In between, when the one before can do nothing any more,
// it calls recover until that succeeds.
func (r *run) keepWorking(ctx context.Context, db *sql.DB, fn func(c *connection) error, recover func() error) error {
	for !r.ending.Load() {
		c, err := connect(ctx, db)
		if err == nil {
			err = fn(c)
		}
		err = r.gone(c.since, err)
		c.abandon()
		if errors.Is(err, errFaultInjected) {
			r.faultsNoticed.Add(1)
			err = r.recovered(ctx, db, c.id, recover)
		}
		if errors.Is(err, errNodeGone) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recovered waits until a connection that broke is gone, with what it may still have
// been doing, and calls recover, again while a fault lasts.
func (r *run) recovered(ctx context.Context, db *sql.DB, id int64, recover func() error) error {
	for since := time.Now(); !r.ending.Load(); {
		time.Sleep(5 * time.Millisecond)
		begun := time.Now()
		var there int
		err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?", id).Scan(&there)
		if err == nil && there == 0 {
			if err = recover(); err == nil {
				return nil
			}
		}
		if err = r.gone(since, err); err != nil && !errors.Is(err, errFaultInjected) {
			return err
		}
		since = begun
	}
	return errNodeGone
}
