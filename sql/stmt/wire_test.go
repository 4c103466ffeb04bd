package stmt_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/stretchr/testify/require"

	"fastddl/sql/sqlerr"
	"fastddl/sql/stmt"
)

func open(t *testing.T, addr, params string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/test?%s", addr, params))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func requireNumber(t *testing.T, err error, number uint16, text string) {
	t.Helper()
	var got *mysql.MySQLError
	require.True(t, errors.As(err, &got), "%v", err)
	require.Equal(t, number, got.Number)
	require.Equal(t, text, got.Message)
}

// TestWire runs statements of ours through a driver, in every protocol that
// reaches the server.
func TestWire(t *testing.T) {
	f := newFixture(t)
	addr := f.serve(t)
	db := open(t, addr, "multiStatements=true")

	t.Run("text", func(t *testing.T) {
		_, err := db.Exec("alter table t add index i (a)")
		require.NoError(t, err)
		require.Contains(t, f.ddl.takeLog(), "ADD INDEX `i`(`a`)")
	})
	t.Run("several in one text", func(t *testing.T) {
		_, err := db.Exec("create table a (x int); drop table a; admin check table t")
		require.NoError(t, err)
		log := f.ddl.takeLog()
		require.Contains(t, log, "CREATE TABLE `a`")
		require.Contains(t, log, "DROP TABLE `a`")
		require.Contains(t, log, "check test.t")
	})
	t.Run("prepared", func(t *testing.T) {
		// Not multiStatements: what the driver prepares is one statement.
		ps, err := open(t, addr, "").Prepare("create table p (a int, b varchar(10), key (b))")
		require.NoError(t, err)
		for range 2 {
			_, err = ps.Exec()
			require.NoError(t, err)
			require.Contains(t, f.ddl.takeLog(), "CREATE TABLE `p` (`a` INT,`b` VARCHAR(10),INDEX(`b`))", "the tree is made anew")
		}
		require.NoError(t, ps.Close())
	})
	t.Run("rows", func(t *testing.T) {
		f.ddl.jobs = jobs()
		var table string
		var started sql.NullString
		var percent float64
		require.NoError(t, db.QueryRow("admin show ddl jobs where job_id = 4").Scan(
			new(any), new(any), &table, new(any), new(any), new(any), new(any), new(any), new(any), &started, new(any), new(any), new(any),
			&percent, new(any), new(any), new(any), new(any)))
		require.Equal(t, "t", table)
		require.Equal(t, "2026-01-02 03:04:10", started.String)
		require.EqualValues(t, 50, percent)
	})
	t.Run("error of ddl", func(t *testing.T) {
		f.ddl.err = sqlerr.New(errno.ErrDupKeyName, "i")
		_, err := db.Exec("alter table t add index i (a)")
		requireNumber(t, err, 1061, "Duplicate key name 'i'")
		f.ddl.err = nil
	})
	t.Run("syntax error", func(t *testing.T) {
		_, err := db.Exec("alter table t\nadd idx (a)")
		requireNumber(t, err, 1064, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near '(a)' at line 2")
		_, err = db.Exec("create temporary table t (a int)")
		requireNumber(t, err, 1235, "This version of fastddl doesn't yet support 'CREATE TEMPORARY TABLE'")
	})
	t.Run("warnings", func(t *testing.T) {
		conn, err := db.Conn(context.Background())
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		f.ddl.warnings = []stmt.Warning{{Level: stmt.LevelNote, Code: errno.ErrTableExists, Message: "Table 'test.t' already exists"}}
		_, err = conn.ExecContext(context.Background(), "create table if not exists t (a int)")
		require.NoError(t, err)
		f.ddl.warnings = nil
		var level, code, message string
		require.NoError(t, conn.QueryRowContext(context.Background(), "show warnings").Scan(&level, &code, &message))
		require.Equal(t, []string{"Note", "1050", "Table 'test.t' already exists"}, []string{level, code, message})
	})
	t.Run("mysql client", func(t *testing.T) {
		if _, err := exec.LookPath("mysql"); err != nil {
			t.Skip("no mysql client")
		}
		host, port, _ := strings.Cut(addr, ":")
		out, err := exec.Command("mysql", "-h"+host, "-P"+port, "-uroot", "test", "-e", "/* hint */ ADMIN SHOW DDL; CHECK TABLE t; ALTER TABLE t DROP INDEX i;").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "test.t\tcheck\tstatus\tOK")
		require.Contains(t, f.ddl.takeLog(), "DROP INDEX `i`")
	})
}

// TestKill: KILL QUERY ends the context of Execute, and the client sees 1317.
func TestKill(t *testing.T) {
	f := newFixture(t)
	db := open(t, f.serve(t), "")
	conn, err := db.Conn(context.Background())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	var id int
	require.NoError(t, conn.QueryRowContext(context.Background(), "select connection_id()").Scan(&id))

	f.ddl.running = make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(context.Background(), "alter table t add index i (a)")
		done <- err
	}()
	<-f.ddl.running
	_, err = db.Exec(fmt.Sprintf("kill query %d", id))
	require.NoError(t, err)
	select {
	case err := <-done:
		requireNumber(t, err, 1317, "Query execution was interrupted")
	case <-time.After(10 * time.Second):
		t.Fatal("the statement outlived KILL QUERY")
	}
	require.Contains(t, f.ddl.takeLog(), "ddl: cancelled")
}

// TestPrivileges: our statements ask for what TiDB and MySQL ask for.
func TestPrivileges(t *testing.T) {
	f := newFixture(t)
	users := f.engine.Analyzer.Catalog.MySQLDb
	users.SetPersister(&mysql_db.NoopPersister{})
	users.SetEnabled(true)
	ed := users.Editor()
	users.AddSuperUser(ed, "root", "localhost", "")
	ed.Close()
	root := f.newSession("root")
	root.SetCurrentDatabase("test")
	for _, q := range []string{
		"create user u@localhost",
		"grant select, index on test.t to u@localhost",
	} {
		_, err := f.run(root, q)
		require.NoError(t, err, q)
	}
	u := f.newSession("u")
	u.SetCurrentDatabase("test")
	for _, tc := range []struct {
		query  string
		number int
		text   string
	}{
		{"create index i on t (a)", 0, ""},
		{"drop index i on test.t", 0, ""},
		{"check table t", 0, ""},
		{"alter table t add index i (a)", 1142, "ALTER command denied to user 'u'@'localhost' for table 't'"},
		{"truncate table t", 1142, "DROP command denied to user 'u'@'localhost' for table 't'"},
		{"create table x (a int)", 1142, "CREATE command denied to user 'u'@'localhost' for table 'x'"},
		{"rename table t to x", 1142, "ALTER command denied to user 'u'@'localhost' for table 't'"},
		{"create database d", 1044, "Access denied for user 'u'@'localhost' to database 'd'"},
		{"drop database test", 1044, "Access denied for user 'u'@'localhost' to database 'test'"},
		{"admin show ddl", 1227, "Access denied; you need (at least one of) the SUPER privilege(s) for this operation"},
		{"admin cancel ddl jobs 1", 1227, "Access denied; you need (at least one of) the SUPER privilege(s) for this operation"},
	} {
		t.Run(tc.query, func(t *testing.T) {
			_, err := f.run(u, tc.query)
			if tc.number == 0 {
				require.NoError(t, err)
				return
			}
			e := sqlerr.Translate(err)
			require.Equal(t, tc.text, e.Message)
			require.Equal(t, tc.number, e.Num)
		})
	}
	require.NotContains(t, f.ddl.takeLog(), "ADD INDEX", "what is refused does not run")
	_, err := f.run(root, "alter table t add index i (a)")
	require.NoError(t, err)
}

// TestOptions lists what is missing.
func TestOptions(t *testing.T) {
	_, err := stmt.NewParser(stmt.Options{})
	require.ErrorContains(t, err, "DDL is missing")
	require.ErrorContains(t, err, "Checker is missing")
}
