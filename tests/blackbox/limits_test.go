package blackbox

import (
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// abort ends a connection by a TCP reset.
func abort(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.(*net.TCPConn).SetLinger(0))
	require.NoError(t, conn.Close())
}

// A client may go away in every phase of its life; the server and the others go on.
func TestClientsThatGoAwayDoNotStopTheServer(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	fill(t, db, "t", 2000)
	dial := func(addr string) net.Conn {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		return conn
	}
	for range 5 {
		for _, addr := range []string{n.addr, n.status} {
			abort(t, dial(addr)) // before a word
			half := dial(addr)
			_, err := half.Write([]byte{0xff, 0xff, 0xff, 0, 1}) // in a packet, or what is no request
			require.NoError(t, err)
			abort(t, half)
		}
		greeted := dial(n.addr)
		_, err := io.ReadFull(greeted, make([]byte, 20))
		require.NoError(t, err)
		abort(t, greeted)

		require.Error(t, n.openAs("root", "wrong", "").Ping())

		reading := n.terminal() // a large result is on its way
		done := reading.start("SELECT a.c, b.c FROM t a JOIN t b LIMIT 1000000")
		time.Sleep(20 * time.Millisecond)
		reading.reset()
		<-done

		writing := n.terminal()
		writing.exec("BEGIN")
		writing.exec("UPDATE t SET k = k + 1 WHERE id = 1")
		writing.reset()

		committing := n.terminal()
		committed := committing.start("UPDATE t SET k = k + 1 WHERE id > 100")
		committing.reset()
		<-committed

		scrape := dial(n.status)
		_, err = io.WriteString(scrape, "GET /debug/pprof/trace?seconds=1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic cm9vdDo=\r\n\r\n") // root without a password
		require.NoError(t, err)
		abort(t, scrape)
	}
	require.False(t, n.Exited())
	mustExec(t, db, "UPDATE t SET k = 0 WHERE id = 1") // no lock is left
	mustExec(t, db, "ADMIN CHECK TABLE t")
	require.NoError(t, db.Close())
	require.Eventually(t, func() bool { return n.connections() == 0 }, startTimeout, pollInterval)
	require.Zero(t, n.terminate())
}

func TestConnectionLimit(t *testing.T) {
	const limit = 5
	file := filepath.Join(t.TempDir(), "fastddl.toml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "max-connections = %d\n", limit), 0o600))
	n := startNode(t, t.TempDir(), "--config", file)
	var open []*terminal
	for range limit {
		open = append(open, n.terminal())
	}
	require.Eventually(t, func() bool {
		err := n.openAs("root", "", "").Ping()
		return err != nil && strings.Contains(err.Error(), "Error 1040") && strings.Contains(err.Error(), "Too many connections")
	}, startTimeout, pollInterval)
	require.Equal(t, "1", open[0].value("SELECT 1"), "those that are there go on")
	open[0].close()
	require.Eventually(t, func() bool { return n.openAs("root", "", "").Ping() == nil }, startTimeout, pollInterval)
}

func TestSilentConnectionsAreEnded(t *testing.T) {
	randtest.SkipShort(t)
	n := startNode(t, t.TempDir())
	stranger, err := net.Dial("tcp", n.addr)
	require.NoError(t, err)
	defer stranger.Close()

	idle, busy := n.terminal(), n.terminal()
	idle.exec("SET SESSION wait_timeout = 1")
	// The next statement must come in time. All this takes no longer than the time to log in.
	busy.exec("SET SESSION wait_timeout = 8")
	done := busy.start("SELECT SLEEP(10)")
	requireGone(t, n.db(), idle.id)
	require.Error(t, idle.try("SELECT 1"))
	require.NoError(t, requireEnds(t, done), "a statement is not idle")

	require.NoError(t, stranger.SetReadDeadline(time.Now().Add(startTimeout)))
	_, err = io.Copy(io.Discard, stranger) // the greeting, and then the end
	if err != nil {
		require.ErrorContains(t, err, "reset", "who does not log in is not kept")
	}
}

func TestMaxExecutionTime(t *testing.T) {
	n := startNode(t, t.TempDir())
	fill(t, n.db(), "t", 2000)
	c := n.terminal()
	c.exec("SET SESSION max_execution_time = 300")
	err := requireEnds(t, c.start("SELECT COUNT(*) FROM t a JOIN t b JOIN t c WHERE a.k + b.k + c.k < 0"))
	requireCode(t, err, 3024, "HY000", "maximum statement execution time exceeded")
	c.exec("UPDATE t SET k = k + 1") // statements that write are not meant
	c.exec("SET SESSION max_execution_time = 0")
	require.Equal(t, "1", c.value("SELECT 1"), "the session goes on")
}

// A statement that asks for more memory than it may have is ended, and not the
// server.
func TestMemoryOfStatements(t *testing.T) {
	randtest.SkipShort(t)
	n := startNode(t, t.TempDir())
	fill(t, n.db(), "t", 700)
	c := n.terminal()
	c.exec("SET SESSION tidb_mem_quota_query = 16777216")
	c.exec("SET SESSION cte_max_recursion_depth = 1000")
	for _, query := range []string{
		"SELECT LENGTH(LPAD('a', 1000000000000, 'b'))",
		"SELECT LENGTH(REPEAT('a', 1000000000000))",
		"SELECT id FROM t ORDER BY k LIMIT 1 OFFSET 4000000000",
		"SELECT COUNT(*) FROM (SELECT a.c, b.id FROM t a JOIN t b ORDER BY a.c, b.c DESC LIMIT 200000) x",
		"WITH RECURSIVE r (n, s) AS (SELECT 1, CAST('a' AS CHAR(1000000)) UNION ALL SELECT n + 1, CONCAT(s, s) FROM r WHERE n < 40) " +
			"SELECT MAX(LENGTH(s)) FROM r",
	} {
		_ = c.try(query) // an error, NULL or an answer
		require.False(t, n.Exited(), query)
		require.Equal(t, "1", n.terminal().value("SELECT 1"), query)
	}
}

// Profiles and TiDB's HTTP API need an account of the database.
func TestDebugRoutesNeedALogin(t *testing.T) {
	n := startNode(t, t.TempDir(), "--status-host", "0.0.0.0")
	_, port, err := net.SplitHostPort(n.status)
	require.NoError(t, err)
	status := func(account, path string) int {
		resp, err := http.Get("http://" + account + "127.0.0.1:" + port + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		return resp.StatusCode
	}
	for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof/profile?seconds=1", "/schema", "/settings", "/mvcc/key/mysql/stats_meta/1"} {
		require.Equal(t, http.StatusUnauthorized, status("", path), path)
		require.Equal(t, http.StatusOK, status("root:@", path), path)
	}
	require.Equal(t, http.StatusOK, status("", "/metrics"))
	require.Equal(t, http.StatusOK, status("", "/health"))
}

// What the server writes is its user's: rows and password hashes are in it.
func TestDataIsReadableByItsUserOnly(t *testing.T) {
	randtest.SkipShort(t)
	dir := filepath.Join(t.TempDir(), "data")
	n := startNodeAsIs(t, dir)
	fill(t, n.db(), "t", 1000)
	mustExec(t, n.db(), "ALTER TABLE t ADD INDEX k (k)")
	require.Zero(t, n.terminate())
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := d.Info()
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s %s", info.Mode(), path)
		if d.IsDir() && strings.HasPrefix(d.Name(), "fastddl-") {
			return fs.SkipDir // regardless of its files
		}
		return nil
	}))
}
