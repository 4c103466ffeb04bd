package server

import (
	"context"
	"time"

	"github.com/dolthub/vitess/go/mysql"
)

// lostClientInterval is how often running statements are checked for a client
// that is gone.
const lostClientInterval = 250 * time.Millisecond

// watchClients ends, until ctx does, the statements of clients that are gone.
// An idle connection notices by itself, since it waits for its client; one that
// runs a statement would keep its transaction, and hold up the DDL jobs that wait
// for it, until the statement ends. DDL jobs outlive their clients, as in TiDB:
// statements that may wait for one are left alone.
func (c *connections) watchClients(ctx context.Context, interval time.Duration, end func(*mysql.Conn)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			for _, conn := range c.runningSince(now.Add(-interval)) {
				if peerGone(conn.Conn) {
					end(conn)
				}
			}
		}
	}
}

// runningSince returns the connections whose statement began before a time and
// waits for no DDL job.
func (c *connections) runningSince(t time.Time) []*mysql.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	var conns []*mysql.Conn
	for _, e := range c.open {
		if e.running != "" && e.began.Before(t) && !mayRunDDL(e.running) {
			conns = append(conns, e.conn)
		}
	}
	return conns
}

// mayRunDDL reports whether statements of the kind may wait for a DDL job,
// themselves or by a statement that they execute.
func mayRunDDL(kind string) bool {
	return isDDL(kind) || kind == "execute" || kind == "call"
}
