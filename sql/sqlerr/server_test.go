package sqlerr_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"testing"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	gms "github.com/dolthub/go-mysql-server/sql"
	vitess "github.com/dolthub/vitess/go/mysql"
	"github.com/go-sql-driver/mysql"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"fastddl/sql/sqlerr"
)

// startServer runs a memory-backed server whose errors go through the package
// under test, and returns an open connection to its database "db".
func startServer(t *testing.T) *sql.DB {
	t.Helper()
	logrus.SetLevel(logrus.PanicLevel)
	db := memory.NewDatabase("db")
	pro := memory.NewDBProvider(db)
	engine := sqle.NewDefault(pro)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv, err := server.NewServer(server.Config{
		Protocol: "tcp",
		Listener: listener,
		Options:  []server.Option{sqlerr.ServerOption()},
	}, engine, gms.NewContext, func(ctx context.Context, c *vitess.Conn, addr string) (gms.Session, error) {
		base, err := gms.BaseSessionFromConnection(ctx, c, addr)
		if err != nil {
			return nil, err
		}
		return memory.NewSession(base, pro), nil
	}, nil)
	require.NoError(t, err)
	go func() { _ = srv.Start() }()
	conn, err := sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/db", listener.Addr()))
	require.NoError(t, err)
	conn.SetMaxOpenConns(1)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		require.NoError(t, srv.Close())
		srv.SessionManager().WaitForClosedConnections()
		require.NoError(t, engine.Close())
	})
	return conn
}

// TestWire checks number, SQLSTATE and text as a driver sees them.
func TestWire(t *testing.T) {
	conn := startServer(t)
	for _, q := range []string{
		"create table t (id int primary key, c tinyint not null, s varchar(3), d datetime, dec1 decimal(5,2), unique key us (s))",
		"create table u (id int primary key, tid int)",
		"insert into t values (1, 1, 'a', null, 1)",
	} {
		_, err := conn.Exec(q)
		require.NoError(t, err, q)
	}
	for _, tc := range []struct {
		query  string
		number uint16
		state  string
		text   string
	}{
		{"selec 1", 1064, "42000", "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near 'selec 1' at line 1"},
		{"select 1\nfrom where", 1064, "42000", "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near 'where' at line 2"},
		{"select * from t where", 1064, "42000", "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near '' at line 1"},
		{"select nope from t", 1054, "42S22", "Unknown column 'nope' in 'field list'"},
		{"select id from t where nope = 1", 1054, "42S22", "Unknown column 'nope' in 'where clause'"},
		{"select id from t order by nope", 1054, "42S22", "Unknown column 'nope' in 'order clause'"},
		{"select t.id from t join u on t.id = u.nope", 1054, "42S22", "Unknown column 'u.nope' in 'on clause'"},
		{"update t set nope = 1", 1054, "42S22", "Unknown column 'nope' in 'field list'"},
		{"insert into t (id, nope) values (1, 2)", 1054, "42S22", "Unknown column 'nope' in 'field list'"},
		{"select id from t join u", 1052, "23000", "Column 'id' in field list is ambiguous"},
		{"select * from missing", 1146, "42S02", "Table 'db.missing' doesn't exist"},
		{"select * from other.missing", 1049, "42000", "Unknown database 'other'"},
		{"select * from information_schema.missing", 1146, "42S02", "Table 'information_schema.missing' doesn't exist"},
		{"use other", 1049, "42000", "Unknown database 'other'"},
		{"insert into t values (1, 1, 'b', null, 1)", 1062, "23000", "Duplicate entry '1' for key 'PRIMARY'"},
		{"insert into t values (2, null, 'b', null, 1)", 1048, "23000", "Column 'c' cannot be null"},
		{"insert into t (id) values (2)", 1364, "HY000", "Field 'c' doesn't have a default value"},
		{"insert into t values (2, 300, 'b', null, 1)", 1264, "22003", "Out of range value: 300 for type tinyint"},
		{"insert into t values (2, 1, 'abcd', null, 1)", 1406, "22001", "Data too long for column 's' at row 1"},
		{"insert into t values (2, 'x', 'b', null, 1)", 1366, "HY000", "Incorrect integer value: 'x'"},
		{"insert into t values (2, 1, 'b', 'soon', 1)", 1292, "22007", "Incorrect datetime value: 'soon'"},
		{"insert into t values (2, 1)", 1136, "21S01", "Column count doesn't match value count at row 1"},
		{"select (select id from t union select 2)", 1242, "21000", "Subquery returns more than 1 row"},
		{"select 1 union select 1, 2", 1222, "21000", "The used SELECT statements have a different number of columns"},
		{"select nofunc(1)", 1305, "42000", "FUNCTION db.nofunc does not exist"},
		{"set global nope_var = 1", 1193, "HY000", "Unknown system variable 'nope_var'"},
		{"set nope_var = 1", 1193, "HY000", "Unknown system variable 'nope_var'"},
		{"set session max_connections = 1", 1229, "HY000", "Variable 'max_connections' is a GLOBAL variable and should be set with SET GLOBAL"},
		{"set global version = 'x'", 1238, "HY000", "Variable 'version' is a read only variable"},
		{"set session sql_select_limit = 'x'", 1231, "42000", "Variable 'sql_select_limit' can't be set to the value of 'x'"},
		{"set time_zone = 'Mars/Base'", 1298, "HY000", "Unknown or incorrect time zone: 'Mars/Base'"},
		{"set names nocharset", 1115, "42000", "Unknown character set: 'nocharset'"},
		{"execute nostmt", 1243, "HY000", "Unknown prepared statement handler (nostmt) given to EXECUTE"},
		{"select * from t a join t a", 1066, "42000", "Not unique table/alias: 'a'"},
	} {
		t.Run(tc.query, func(t *testing.T) {
			_, err := conn.Exec(tc.query)
			var got *mysql.MySQLError
			require.True(t, errors.As(err, &got), "%v", err)
			require.Equal(t, tc.text, got.Message)
			require.Equal(t, tc.number, got.Number)
			require.Equal(t, tc.state, string(got.SQLState[:]))
		})
	}
}
