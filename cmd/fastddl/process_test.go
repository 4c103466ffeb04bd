package main

import (
	"context"
	"database/sql"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/internal/servertest"
)

// runMain makes the test binary be the program: what is tested is the process, and
// the program is linked once.
const runMain = "FASTDDL_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
		return
	}
	if err := os.Setenv(runMain, "1"); err != nil {
		panic(err)
	}
	os.Exit(servertest.Run(m))
}

func startNode(t *testing.T, args ...string) *servertest.Node {
	t.Helper()
	return servertest.Start(t, self(t), t.TempDir(), args...)
}

// self is the path of this program.
func self(t *testing.T) string {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	return binary
}

// lossyClient connects by a socket that the test holds.
func lossyClient(t *testing.T, n *servertest.Node) (*sql.DB, func() net.Conn) {
	t.Helper()
	var socket net.Conn
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", n.Addr, "root", "test"
	cfg.Logger = &mysql.NopLogger{}
	cfg.DialFunc = func(_ context.Context, network, addr string) (_ net.Conn, err error) {
		socket, err = net.Dial(network, addr)
		return socket, err
	}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db, func() net.Conn { return socket }
}

// TestClientsThatGoAwayDoNotEndTheServer: one that does not log in, one that reads a
// large result, one of the status port.
func TestClientsThatGoAwayDoNotEndTheServer(t *testing.T) {
	randtest.SkipShort(t)
	n := startNode(t)
	for range 3 {
		conn, err := net.Dial("tcp", n.Addr)
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
		require.NoError(t, conn.Close())

		db, socket := lossyClient(t, n)
		rows, err := db.Query("SELECT REPEAT('x', 100000) FROM information_schema.columns")
		require.NoError(t, err)
		require.True(t, rows.Next())
		require.NoError(t, socket().(*net.TCPConn).SetLinger(0))
		require.NoError(t, socket().Close())
		_ = rows.Close() // its connection is gone

		conn, err = net.Dial("tcp", n.Status)
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET /debug/pprof/trace?seconds=1 HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
		require.NoError(t, conn.Close())
	}
	time.Sleep(2 * time.Second) // the trace ends, and its answer has no reader
	require.False(t, n.Exited())
	require.NoError(t, n.Open("test").Ping())
	require.Zero(t, n.Terminate())
}

// TestReadersOfTheLogThatGoAwayDoNotEndTheServer: as with 2>&1 | head.
func TestReadersOfTheLogThatGoAwayDoNotEndTheServer(t *testing.T) {
	n := startNode(t, "--log-level", "warn")
	require.NoError(t, n.Cmd.Process.Signal(syscall.SIGPIPE))
	require.NoError(t, n.Open("test").Ping())

	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(self(t), "server", "--path", t.TempDir(), "-P", "0", "--report-status=false", "--log-level", "info")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = w
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	require.NoError(t, w.Close())
	require.NoError(t, r.Close()) // the log has no reader
	line := make([]byte, 9)
	_, err = io.ReadFull(stdout, line)
	require.NoError(t, err)
	require.Equal(t, "listening", string(line))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

// TestServersShareATempFolder: neither touches the files of the other, and a store
// that is there twice is told from another one.
func TestServersShareATempFolder(t *testing.T) {
	temp := t.TempDir()
	var foreign string
	for range 2 {
		n := servertest.StartAsIs(t, self(t), t.TempDir(), "--temp-dir", temp) // copies of one store have one name
		db := n.Open("test")
		for _, q := range []string{
			"CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1), (2, 2)",
			"ALTER TABLE t ADD INDEX a (a)", "ADMIN CHECK TABLE t",
		} {
			_, err := db.Exec(q)
			require.NoError(t, err, q)
		}
		folders, err := filepath.Glob(filepath.Join(temp, "*", "ddl"))
		require.NoError(t, err)
		if foreign == "" {
			require.Len(t, folders, 1)
			foreign = filepath.Join(folders[0], "job-1")
			require.NoError(t, os.Mkdir(foreign, 0o700))
			continue
		}
		require.Len(t, folders, 2)
		require.DirExists(t, foreign)
	}
}

func TestStacksAreDumpedOnSignal(t *testing.T) {
	n := startNode(t)
	require.NoError(t, n.Cmd.Process.Signal(syscall.SIGUSR1))
	require.Eventually(t, func() bool { return strings.Contains(n.Stderr.String(), "goroutine 1 [") }, time.Minute, time.Millisecond)
	require.NoError(t, n.Open("test").Ping())
}

// TestOrderlyEnd: each signal that asks for the end gets one.
func TestOrderlyEnd(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP} {
		if signal.Ignored(s) { // and so by the server: this runs under nohup, say
			t.Logf("%s is ignored here", s)
			continue
		}
		n := startNode(t)
		require.NoError(t, n.Cmd.Process.Signal(s))
		require.Zero(t, n.Wait(), "%s", s)
	}
}
