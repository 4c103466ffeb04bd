package blackbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// terminal is a client with one connection, like a user at a prompt.
type terminal struct {
	t *testing.T
	// id is what KILL takes.
	id   string
	conn *sql.Conn
	tcp  *net.TCPConn
}

// terminal opens a connection to the database test.
func (n *node) terminal() *terminal {
	n.t.Helper()
	c := &terminal{t: n.t}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", n.addr, "root", "test"
	cfg.InterpolateParams = true
	cfg.Logger = &mysql.NopLogger{}
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.tcp = conn.(*net.TCPConn)
		return conn, nil
	}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(n.t, err)
	db := sql.OpenDB(connector)
	n.t.Cleanup(func() { db.Close() })
	c.conn, err = db.Conn(context.Background())
	require.NoError(n.t, err)
	require.NoError(n.t, c.conn.QueryRowContext(context.Background(), "SELECT CONNECTION_ID()").Scan(&c.id))
	return c
}

func (c *terminal) try(query string, args ...any) error {
	_, err := c.conn.ExecContext(context.Background(), query, args...)
	return err
}

func (c *terminal) exec(query string, args ...any) {
	c.t.Helper()
	require.NoError(c.t, c.try(query, args...), "%s", query)
}

// value returns the only value of a result.
func (c *terminal) value(query string, args ...any) string {
	c.t.Helper()
	var v string
	require.NoError(c.t, c.conn.QueryRowContext(context.Background(), query, args...).Scan(&v), "%s", query)
	return v
}

// tryValue is value for a statement that may fail.
func (c *terminal) tryValue(query string) (v string, err error) {
	err = c.conn.QueryRowContext(context.Background(), query).Scan(&v)
	return v, err
}

// rows returns a result as one text.
func (c *terminal) rows(query string) string {
	c.t.Helper()
	return tableText(queryAll(c.t, c.conn, query))
}

// start runs a statement in the background and returns its result's channel.
func (c *terminal) start(query string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.try(query) }()
	return done
}

// close ends the connection in an orderly way.
func (c *terminal) close() {
	c.t.Helper()
	require.NoError(c.t, c.conn.Close())
	require.NoError(c.t, c.tcp.Close())
}

// reset ends the connection as a client's crash or a firewall does: by a TCP
// reset, without a word.
func (c *terminal) reset() {
	c.t.Helper()
	require.NoError(c.t, c.tcp.SetLinger(0))
	require.NoError(c.t, c.tcp.Close())
}

// hangTimeout is how long something may take that happens at once where the machine is
// not busy. What a test sees end by it would otherwise go on for longer than that, or
// for ever: nothing here depends on how fast something is.
const hangTimeout = 5 * time.Minute

// requireEnds returns the result of a statement that must end.
func requireEnds(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(hangTimeout):
		require.FailNow(t, "the statement did not end")
		return nil
	}
}

// requireWaits checks that a statement has not ended.
func requireWaits(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		require.FailNow(t, "the statement did not wait", "%v", err)
	default:
	}
}

// processList shows the connections, with their command in the fifth column.
const processList = "SHOW FULL PROCESSLIST"

// outlivesKillQuery says whether a session goes on whose statement KILL QUERY has ended. TiDB
// ends the read of the next statement, too, where that begins before KILL has returned: then
// the connection is lost.
func (c *terminal) outlivesKillQuery() bool {
	err := c.try("SELECT 1")
	if err != nil {
		c.t.Logf("KILL QUERY has ended the connection: %v", err)
	}
	return err == nil
}

// untilSpared plays a scenario until KILL QUERY leaves its session the connection, which it
// nearly always does.
func untilSpared(t *testing.T, scenario func(t *testing.T) (spared bool)) {
	t.Helper()
	for range 5 {
		if scenario(t) {
			return
		}
	}
	require.FailNow(t, "KILL QUERY ends the connection each time")
}

// running waits until the connection runs a statement that sleeps: the one before it may be
// in the list a moment longer than its answer is on the way.
func running(t *testing.T, db *sql.DB, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, p := range queryAll(t, db, processList) {
			if p[0] == id && p[4] == "Query" && strings.Contains(p[7], "SLEEP(") {
				return true
			}
		}
		return false
	}, startTimeout, pollInterval)
}

// connections is the number of connections that the server has.
func (n *node) connections() int {
	n.t.Helper()
	resp, err := http.Get("http://" + n.status + "/status")
	require.NoError(n.t, err)
	defer resp.Body.Close()
	var status struct{ Connections int }
	require.NoError(n.t, json.NewDecoder(resp.Body).Decode(&status))
	return status.Connections
}

// requireGone waits until the server has forgotten a connection.
func requireGone(t *testing.T, db *sql.DB, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, p := range queryAll(t, db, processList) {
			if p[0] == id {
				return false
			}
		}
		return true
	}, startTimeout, pollInterval, "connection %s", id)
}
