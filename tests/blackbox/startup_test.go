package blackbox

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireOneLine checks that a start failed as an operator wants it to: exit
// code 1 and one clear line beside what was logged. What TiDB logs in the background may
// come after it.
func requireOneLine(t *testing.T, code int, stderr, want string) {
	t.Helper()
	require.Equal(t, 1, code, stderr)
	var said []string
	for line := range strings.Lines(strings.TrimSpace(stderr)) {
		if !strings.HasPrefix(line, "[") {
			said = append(said, line)
		}
	}
	require.Len(t, said, 1, "the log and one line: %s", stderr)
	require.True(t, strings.HasPrefix(said[0], "fastddl: "), stderr)
	require.Contains(t, said[0], want)
}

// TestStatisticsLoadBeforeStatements: TiDB replaces its cache of statistics while it loads them, and a
// statement that meets that can end the process. Nothing of ours is executed before it is done.
func TestStatisticsLoadBeforeStatements(t *testing.T) {
	n := startNode(t, t.TempDir())
	require.Eventually(t, func() bool { return strings.Contains(n.Stderr.String(), "mysql.fastddl_") }, hangTimeout, pollInterval)
	log := n.Stderr.String()
	loaded, ours := strings.Index(log, "Init stats succeed"), strings.Index(log, "mysql.fastddl_")
	require.Positive(t, loaded, log)
	require.Positive(t, ours, log)
	require.Less(t, loaded, ours, log)
}

func TestRefusesAPathThatIsNoStore(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "holiday.jpg"), []byte("x"), 0o600))
	code, stderr := startAndFail(t, "--path", dir, "-P", "0", "--status-port", "0")
	requireOneLine(t, code, stderr, "does not hold a store")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing was left in the folder")
}

func TestRefusesAFileAsPath(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	code, stderr := startAndFail(t, "--path", file, "-P", "0", "--status-port", "0")
	requireOneLine(t, code, stderr, file)
}

func TestRefusesAStoreInUse(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	code, stderr := startAndFail(t, "--path", dir, "-P", "0", "--status-port", "0")
	requireOneLine(t, code, stderr, "in use by another process")
	require.Equal(t, "1", value(t, n.db(), "SELECT 1"), "the first one does not mind")
}

func TestRefusesATempDirThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	code, stderr := startAndFail(t, "--path", filepath.Join(dir, "data"), "--temp-dir", filepath.Join(file, "tmp"), "-P", "0", "--status-port", "0")
	requireOneLine(t, code, stderr, "temp-dir")

	if os.Geteuid() != 0 { // root may write anywhere
		locked := filepath.Join(dir, "locked")
		require.NoError(t, os.Mkdir(locked, 0o500))
		code, stderr = startAndFail(t, "--path", filepath.Join(dir, "data"), "--temp-dir", locked, "-P", "0", "--status-port", "0")
		requireOneLine(t, code, stderr, "temp-dir")
	}
}

func TestRefusesAPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "data")
	code, stderr := startAndFail(t, "--path", dir, "-P", port, "--status-port", "0")
	requireOneLine(t, code, stderr, "address already in use")
	code, stderr = startAndFail(t, "--path", dir, "-P", "0", "--status-port", port)
	requireOneLine(t, code, stderr, "status-port")
	require.False(t, fileExists(dir), "a start that must fail for its port touches no data")
}

func TestStatusServer(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	require.Equal(t, "1", value(t, db, "SELECT 1"))
	get := func(path string) string {
		resp, err := http.Get("http://" + n.status + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
		return string(body)
	}
	require.Equal(t, "ok\n", get("/health"))
	var status struct {
		Connections int
		Version     string
	}
	require.NoError(t, json.Unmarshal([]byte(get("/status")), &status))
	require.Equal(t, 1, status.Connections)
	require.Equal(t, status.Version, value(t, db, "SELECT VERSION()"))

	mustExec(t, db, "CREATE TABLE m (id INT PRIMARY KEY, a INT)")
	mustExec(t, db, "INSERT INTO m VALUES (1, 1), (2, 2)")
	mustExec(t, db, "ALTER TABLE m ADD INDEX a (a)")
	_, err := db.Exec("INSERT INTO m VALUES (1, 1)")
	require.Error(t, err)
	for _, want := range []string{
		`tidb_server_connections{resource_group="default"} 1`,
		`tidb_executor_statement_total{db="",resource_group="default",type="Insert"} 2`,
		`tidb_server_execute_error_total{db="",resource_group="default",type="kv:1062"} 1`,
		"fastddl_ddl_backfill_rows_total 2",
		"fastddl_ddl_running_jobs 0",
		"fastddl_store_write_stalled 0",
	} {
		require.Eventually(t, func() bool { return strings.Contains(get("/metrics"), want) }, hangTimeout, pollInterval, want)
	}
}

func TestSIGTERMLetsAStatementFinish(t *testing.T) {
	n := startNode(t, t.TempDir(), "--shutdown-timeout", "5m")
	db := n.db()
	mustExec(t, db, "CREATE TABLE s (id INT PRIMARY KEY)")
	mustExec(t, db, "INSERT INTO s VALUES (1)")
	holder, waiting := n.terminal(), n.terminal()
	holder.exec("BEGIN")
	holder.exec("DELETE FROM s")
	waiting.exec("SET innodb_lock_wait_timeout = 3600")
	done := waiting.start("UPDATE s SET id = 2 WHERE id = 1 AND SLEEP(0) = 0")
	running(t, db, waiting.id)
	require.NoError(t, n.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { return db.Ping() != nil }, hangTimeout, pollInterval, "no client is let in any more")
	requireWaits(t, done)
	requireDraining(t, n)
	holder.exec("ROLLBACK")
	require.NoError(t, requireEnds(t, done), "the client got its answer")
	require.Zero(t, n.wait())
}

// requireDraining checks that the status port says that the server is to end.
func requireDraining(t *testing.T, n *node) {
	t.Helper()
	resp, err := http.Get("http://" + n.status + "/health")
	require.NoError(t, err, "it answers as long as there is something to wait for")
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Contains(t, string(body), "draining")
}

// TestSIGTERMFailsHealthChecksFirst: clients are still accepted until load balancers have noticed.
func TestSIGTERMFailsHealthChecksFirst(t *testing.T) {
	config := filepath.Join(t.TempDir(), "fastddl.toml")
	require.NoError(t, os.WriteFile(config, []byte("[tidb]\ngraceful-wait-before-shutdown = 3600\n"), 0o600))
	n := startNode(t, t.TempDir(), "--config", config)
	require.NoError(t, n.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { return strings.Contains(n.Stderr.String(), "server is stopping") }, hangTimeout, pollInterval)
	requireDraining(t, n)
	require.Equal(t, "1", value(t, n.db(), "SELECT 1"), "a new connection works")
}

func TestSIGTERMKillsWhatTakesTooLong(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir, "--shutdown-timeout", "500ms")
	db := n.db()
	mustExec(t, db, "CREATE TABLE s (id INT PRIMARY KEY)")
	sleeper := n.terminal()
	done := sleeper.start("SELECT SLEEP(1000)")
	tx, err := db.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("INSERT INTO s VALUES (1)")
	require.NoError(t, err)
	running(t, db, sleeper.id)
	require.Zero(t, n.terminate())
	require.Error(t, <-done)
	require.Error(t, tx.Commit(), "an open transaction is rolled back")

	n = startNode(t, dir)
	require.Equal(t, "0", value(t, n.db(), "SELECT COUNT(*) FROM s"))
}
