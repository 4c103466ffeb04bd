package ctl

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/stretchr/testify/require"
)

// otherServer is one that has no variable of fastddl.
type otherServer struct{ driver.Conn }

func (s otherServer) Connect(context.Context) (driver.Conn, error) { return s, nil }
func (s otherServer) Driver() driver.Driver                        { return nil }
func (s otherServer) Close() error                                 { return nil }

func (s otherServer) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	if query == "SELECT VERSION()" {
		return &oneValue{value: "11.8.1-MariaDB\x1b[2J"}, nil
	}
	return nil, &mysql.MySQLError{Number: errno.ErrUnknownSystemVariable, Message: "Unknown system variable"}
}

type oneValue struct {
	value string
	read  bool
}

func (r *oneValue) Columns() []string { return []string{"v"} }
func (r *oneValue) Close() error      { return nil }
func (r *oneValue) Next(row []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read, row[0] = true, r.value
	return nil
}

// TestAnotherServerIsNamed: what is neither fastddl nor reached is said in words.
func TestAnotherServerIsNamed(t *testing.T) {
	c := &Client{db: sql.OpenDB(otherServer{}), addr: "127.0.0.1:3306"}
	require.EqualError(t, c.identify(t.Context()), `the server at 127.0.0.1:3306 is 11.8.1-MariaDB\x1b[2J, not fastddl: name a fastddl node by --host and --port`)
	require.NoError(t, c.Close())
}

// TestMessagesHaveNoTraceOfTheDriver: MySQL's form of an error is the one that people search for.
func TestMessagesHaveNoTraceOfTheDriver(t *testing.T) {
	require.Equal(t, "ERROR 1062 (23000): Duplicate", message(&mysql.MySQLError{Number: 1062, SQLState: [5]byte{'2', '3', '0', '0', '0'}, Message: "Duplicate"}))
	require.Equal(t, "x", message(errors.New("x")))
}
