package cluster

import (
	"context"
	"database/sql"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// client runs statements, each within hangTimeout.
type client struct {
	*sql.DB
	t testing.TB
}

// open connects to the test's database, at a node.
func (n *node) open() client { return connect(n.t, n.Addr, n.database) }

// connect connects to a database at a server. The connections are closed at the end of
// the test.
func connect(t testing.TB, addr, database string) client {
	t.Helper()
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName, cfg.InterpolateParams = "tcp", addr, "root", database, true
	cfg.Logger = &mysql.NopLogger{} // broken connections are what some tests are about, and some dial before there is a server
	if live != "" {
		cfg.Passwd = os.Getenv("MYSQL_PWD")
	}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return client{db, t}
}

// in is the client for a part of the test.
func (c client) in(t testing.TB) client { return client{c.DB, t} }

// try runs a statement and returns its error.
func (c client) try(query string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	_, err := c.ExecContext(ctx, query, args...)
	return err
}

// exec runs statements that must succeed.
func (c client) exec(queries ...string) {
	c.t.Helper()
	for _, q := range queries {
		require.NoError(c.t, c.try(q), q)
	}
}

// rows returns an answer, each row by the names of its columns.
func (c client) rows(query string, args ...any) []map[string]string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	defer cancel()
	rows, err := c.QueryContext(ctx, query, args...)
	require.NoError(c.t, err, query)
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	require.NoError(c.t, err)
	var out []map[string]string
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		fields := make([]any, len(columns))
		for i := range values {
			fields[i] = &values[i]
		}
		require.NoError(c.t, rows.Scan(fields...))
		row := make(map[string]string, len(columns))
		for i, name := range columns {
			row[name] = values[i].String
		}
		out = append(out, row)
	}
	require.NoError(c.t, rows.Err(), query)
	return out
}

// value returns the only value of the only row of an answer.
func (c client) value(query string, args ...any) string {
	c.t.Helper()
	rows := c.rows(query, args...)
	require.Len(c.t, rows, 1, query)
	require.Len(c.t, rows[0], 1, query)
	for _, v := range rows[0] {
		return v
	}
	return ""
}

// session is a client with one connection.
func (c client) session() *sql.Conn {
	c.t.Helper()
	conn, err := c.Conn(context.Background())
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// must runs statements of a session, which must succeed.
func must(t testing.TB, conn *sql.Conn, queries ...string) {
	t.Helper()
	for _, q := range queries {
		ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
		_, err := conn.ExecContext(ctx, q)
		cancel()
		require.NoError(t, err, q)
	}
}

// later runs a statement beside the test and sends its error.
func (c client) later(query string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- c.try(query) }()
	return done
}

// await returns what later has sent.
func await(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(hangTimeout):
		require.FailNow(t, "the statement has not ended")
		return nil
	}
}
