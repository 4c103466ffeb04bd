package server

import (
	"context"
	"database/sql"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/config"
)

func TestServerKeepsDataAndStopsCleanly(t *testing.T) {
	dir := t.TempDir()
	s := start(t, testConfig(dir))
	db := connect(t, s)
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 10), (2, 20)", "ALTER TABLE t ADD INDEX a (a)", "ADMIN CHECK TABLE t")
	var version, comment string
	require.NoError(t, db.QueryRow("SELECT VERSION(), @@version_comment").Scan(&version, &comment))
	var ofServer string // as tools parse it: that of TiDB, as beside TiKV's and PD's
	require.NoError(t, db.QueryRow("SELECT version FROM information_schema.cluster_info WHERE type = 'tidb'").Scan(&ofServer))
	require.Equal(t, strings.TrimPrefix(releaseVersion, "v"), ofServer)
	require.Equal(t, Version(), version)
	require.True(t, strings.HasPrefix(comment, "fastddl test, TiDB Server"), comment)
	require.Equal(t, 1, s.Status().Connections)
	require.NoError(t, s.Health())
	shutdown(t, s)
	require.ErrorIs(t, s.Health(), errDraining)
	_, err := net.Dial("tcp", s.Addr().String())
	require.Error(t, err)

	s = start(t, testConfig(dir))
	db = connect(t, s)
	var sum int
	require.NoError(t, db.QueryRow("SELECT SUM(a) FROM t USE INDEX (a)").Scan(&sum))
	require.Equal(t, 30, sum)
	exec(t, db, "ADMIN CHECK TABLE t")
}

// TestSettingsReachTiDB: what the configuration says is what clients see.
func TestSettingsReachTiDB(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.MaxConnections = 77
	cfg.Log.SlowThreshold = 123
	cfg.MemoryLimit = 2 << 30
	cfg.TiDB = map[string]any{"token-limit": 7}
	s := start(t, cfg)
	db := connect(t, s)
	for query, want := range map[string]string{
		"SELECT @@max_connections":          "77",
		"SELECT @@tidb_slow_log_threshold":  "123",
		"SELECT @@tidb_server_memory_limit": "80%",
		"SELECT @@tidb_enable_1pc":          "1",
		"SELECT @@datadir":                  cfg.Path,
		"SELECT @@port":                     portText(s),
		"SELECT VALUE FROM information_schema.cluster_config WHERE `KEY` = 'token-limit'": "7",
		// TiDB takes less than 512 MiB for a mistake.
		"SELECT MEMORY_LIMIT BETWEEN 512 << 20 AND 2 << 30 FROM information_schema.memory_usage": "1",
	} {
		var got string
		require.NoError(t, db.QueryRow(query).Scan(&got), query)
		require.Equal(t, want, got, query)
	}
}

func portText(s *Server) string {
	_, port, _ := net.SplitHostPort(s.Addr().String())
	return port
}

func TestSlowLogHasSlowStatementsWithoutPasswords(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.Log.SlowThreshold = 1
	s := start(t, cfg)
	db := connect(t, s)
	exec(t, db, "SELECT SLEEP(0.01)", "CREATE USER u IDENTIFIED BY 'topsecret'")
	var text []byte
	require.Eventually(t, func() bool {
		text, _ = os.ReadFile(filepath.Join(cfg.Path, "slow.log"))
		return strings.Contains(string(text), "SLEEP(0.01)")
	}, hangTimeout, 10*time.Millisecond)
	require.NotContains(t, string(text), "topsecret")
	info, err := os.Stat(filepath.Join(cfg.Path, "slow.log"))
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077, "no other user may read it")

	var n int
	require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM information_schema.slow_query WHERE query LIKE '%SLEEP(0.01)%'").Scan(&n))
	require.Positive(t, n)
}

func TestFailedStartsCloseWhatTheyOpened(t *testing.T) {
	occupied, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer occupied.Close()
	port := occupied.Addr().(*net.TCPAddr).Port
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	dir := t.TempDir()

	for name, tc := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"port":        {func(c *config.Config) { c.Port = port }, "port: listen"},
		"status port": {func(c *config.Config) { c.Status.StatusPort = port }, "status-port: listen"},
		"host":        {func(c *config.Config) { c.Host = "192.0.2.1" }, "host: listen"}, // of no machine
		"no host":     {func(c *config.Config) { c.Host = "no host" }, "host: listen"},
		"status host": {func(c *config.Config) { c.Status.StatusHost = "192.0.2.1" }, "status-host: listen"},
		"path":        {func(c *config.Config) { c.Path = file }, "path: "},
		"temp-dir":    {func(c *config.Config) { c.TempDir = filepath.Join(file, "x") }, "temp-dir: "},
		"certificate": {func(c *config.Config) { c.Security = config.Security{SSLCert: file, SSLKey: file} }, "security: "},
		"duration":    {func(c *config.Config) { c.TiDB = map[string]any{"lease": "soon"} }, `tidb.lease: "soon" is not a duration`},
		"socket":      {func(c *config.Config) { c.Socket = filepath.Join(file, "s") }, "socket: the listener did not start"},
		"no socket":   {func(c *config.Config) { c.Socket = file }, "socket: the listener did not start"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(dir)
			tc.change(&cfg)
			_, err := Start(t.Context(), Options{Config: cfg, Log: testLog})
			require.ErrorContains(t, err, tc.want)
			require.False(t, running.Load())
		})
	}
	s := start(t, testConfig(dir))
	_, err = Start(t.Context(), Options{Config: testConfig(t.TempDir()), Log: testLog})
	require.ErrorIs(t, err, errSecondServer)
	exec(t, connect(t, s), "SELECT 1")
}

// TestShutdownLetsStatementsAnswer: a statement that runs gets its answer, as does
// the COMMIT of a transaction that is open.
func TestShutdownLetsStatementsAnswer(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	db := connect(t, s)
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")
	tx, err := db.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("INSERT INTO t VALUES (1)")
	require.NoError(t, err)
	// It waits for the transaction.
	const waits = "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE id = 2"
	answer := make(chan error, 1)
	go func() {
		_, err := db.Exec(waits)
		answer <- err
	}()
	require.Eventually(t, func() bool { return executing(t, db, waits) }, hangTimeout, time.Millisecond)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		shutdown(t, s)
	}()
	require.Eventually(t, func() bool { return !s.ready.Load() }, hangTimeout, time.Millisecond)
	require.Empty(t, answer)
	require.NoError(t, tx.Commit())
	require.NoError(t, <-answer)
	<-stopped
}

// TestShutdownIsBounded: what does not end within the time is ended.
func TestShutdownIsBounded(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.ShutdownTimeout = 0
	s := start(t, cfg)
	db := connect(t, s)
	tx, err := db.Begin()
	require.NoError(t, err)
	_, err = tx.Exec("SELECT 1")
	require.NoError(t, err)
	answer := make(chan error, 1)
	go func() {
		var slept sql.NullInt64
		answer <- db.QueryRow("SELECT SLEEP(1000)").Scan(&slept)
	}()
	require.Eventually(t, func() bool { return executing(t, db, "SELECT SLEEP(1000)") }, hangTimeout, time.Millisecond)
	shutdown(t, s)
	select {
	case <-answer:
	case <-time.After(hangTimeout):
		require.Fail(t, "the statement goes on")
	}
	require.Error(t, tx.Commit())
}

// startWithBuild starts a server with an ALTER TABLE t ADD UNIQUE INDEX a that waits for an
// open transaction, until the server is shut down; its error is sent then.
func startWithBuild(t *testing.T, cfg config.Config) (*Server, <-chan error, *sql.Tx) {
	t.Helper()
	s := start(t, cfg)
	db := connect(t, s)
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
	tx, err := db.Begin()
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // its connection is cut
	_, err = tx.Exec("INSERT INTO t VALUES (3, 3)")
	require.NoError(t, err)
	altered := make(chan error, 1)
	go func() {
		_, err := db.Exec("ALTER TABLE t ADD UNIQUE INDEX a (a)")
		altered <- err
	}()
	require.Eventually(t, func() bool { return buildWaits(t, db) }, hangTimeout, 10*time.Millisecond)
	return s, altered, tx
}

// TestBuildsGoOnAfterAShutdown: a shutdown does not wait for the transaction that a
// build waits for, and the statement says so; the index comes after the restart.
func TestBuildsGoOnAfterAShutdown(t *testing.T) {
	cfg := testConfig(t.TempDir())
	s, altered, tx := startWithBuild(t, cfg)
	shut := make(chan error, 1)
	go func() { shut <- s.Shutdown(context.Background()) }()
	err := <-altered // while the transaction is open
	require.NoError(t, tx.Rollback())
	require.NoError(t, <-shut)
	var stopped *mysql.MySQLError
	require.ErrorAs(t, err, &stopped)
	require.EqualValues(t, 1053, stopped.Number)

	db := connect(t, start(t, cfg))
	require.Eventually(t, func() bool {
		_, err := db.Exec("ADMIN CHECK INDEX t a")
		return err == nil
	}, hangTimeout, 10*time.Millisecond)
	var rows int
	require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM t").Scan(&rows))
	require.Equal(t, 2, rows)
}

// buildWaits reports whether the newest job waits for the metadata lock.
func buildWaits(t *testing.T, db *sql.DB) bool {
	t.Helper()
	rows, err := db.Query("ADMIN SHOW DDL JOBS 1")
	require.NoError(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	values, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	if !rows.Next() {
		return false
	}
	require.NoError(t, rows.Scan(targets...))
	return strings.Contains(values[len(values)-1].String, "waits for metadata lock")
}

// executing reports whether a session executes the statement.
func executing(t *testing.T, db *sql.DB, query string) bool {
	t.Helper()
	var n int
	require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE INFO = ?", query).Scan(&n))
	return n > 0
}

func TestTooManyConnections(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.MaxConnections = 2
	s := start(t, cfg)
	db := connect(t, s)
	// A connection counts from a moment after its client has read that it is
	// there.
	var err error
	for range 500 {
		var conn *sql.Conn
		if conn, err = db.Conn(t.Context()); err != nil {
			break
		}
		defer conn.Close()
		time.Sleep(10 * time.Millisecond)
	}
	var refused *mysql.MySQLError
	require.ErrorAs(t, err, &refused)
	require.EqualValues(t, 1040, refused.Number)
}

// TestShutdownEndsAnalyses: a server that stops waits for no statistics.
func TestShutdownEndsAnalyses(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	end, ended := s.node.store.endAnalyses, false
	s.node.store.endAnalyses = func() { ended = true; end() }
	require.NoError(t, s.Shutdown(t.Context()))
	require.True(t, ended)
}
