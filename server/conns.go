package server

import (
	"context"
	"sync"
	"time"

	"github.com/dolthub/vitess/go/mysql"
)

// errShutdown (1053) refuses statements of a server that is stopping.
var errShutdown = mysql.NewSQLError(mysql.ERServerShutdown, mysql.SSServerShutdown, "Server shutdown in progress")

// connections tracks the client connections and what they are doing, so that a
// shutdown can tell idle ones from those that owe their client an answer.
type connections struct {
	mu       sync.Mutex
	open     map[uint32]*connection
	draining bool
	// changed is closed and replaced whenever a connection goes or becomes idle.
	changed chan struct{}
}

type connection struct {
	conn *mysql.Conn
	// running is the kind of the statement being executed, "" when idle; began is
	// when it did.
	running string
	began   time.Time
}

func newConnections() *connections {
	return &connections{open: make(map[uint32]*connection), changed: make(chan struct{})}
}

func (c *connections) add(conn *mysql.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[conn.ConnectionID] = &connection{conn: conn}
	if c.draining {
		stopReading(conn)
	}
}

func (c *connections) remove(conn *mysql.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn.ConnectionID)
	c.notifyLocked()
}

func (c *connections) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// begin notes that conn executes a statement; it fails while draining.
func (c *connections) begin(conn *mysql.Conn, kind string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return errShutdown
	}
	if e, ok := c.open[conn.ConnectionID]; ok {
		e.running, e.began = kind, time.Now()
	}
	return nil
}

// end notes that the statement of conn is done. While draining, the connection
// closes itself once the answer is written.
func (c *connections) end(conn *mysql.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.open[conn.ConnectionID]; ok {
		e.running = ""
	}
	if c.draining {
		stopReading(conn)
		c.notifyLocked()
	}
}

// stopReading makes the connection's loop end when it waits for the next
// command. Unlike a close it does not cut off an answer being written.
func stopReading(conn *mysql.Conn) {
	// A failure means that the connection is closed already.
	_ = conn.Conn.SetReadDeadline(time.Unix(1, 0))
}

func (c *connections) notifyLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// drain lets no further statement begin and closes idle connections.
func (c *connections) drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = true
	for _, e := range c.open {
		if e.running == "" {
			stopReading(e.conn)
		}
	}
}

// wait returns when no connection is left of which keep is true, or with the
// error of ctx. It must not be called before drain.
func (c *connections) wait(ctx context.Context, keep func(running string) bool) error {
	for {
		c.mu.Lock()
		left, changed := 0, c.changed
		for _, e := range c.open {
			if keep(e.running) {
				left++
			}
		}
		c.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func anyConnection(string) bool { return true }

// exceptDDL leaves out sessions that wait for a DDL job: the job outlives them.
func exceptDDL(running string) bool { return !isDDL(running) }

// each calls fn for every open connection, without holding the lock.
func (c *connections) each(fn func(*mysql.Conn)) {
	c.mu.Lock()
	conns := make([]*mysql.Conn, 0, len(c.open))
	for _, e := range c.open {
		conns = append(conns, e.conn)
	}
	c.mu.Unlock()
	for _, conn := range conns {
		fn(conn)
	}
}
