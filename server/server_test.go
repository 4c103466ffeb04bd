package server

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/config"
	"fastddl/kv"
)

func testConfig(dir string) config.Config {
	cfg := config.Default()
	cfg.Path, cfg.Port, cfg.Status.StatusPort = dir, 0, 0
	cfg.EnsureDefaults()
	return cfg
}

func clientConfig(s *Server) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName = "tcp", s.Addr().String(), "root", "test"
	cfg.Logger = &mysql.NopLogger{}
	return cfg
}

func connect(t *testing.T, s *Server) *sql.DB {
	t.Helper()
	connector, err := mysql.NewConnector(clientConfig(s))
	require.NoError(t, err)
	return sql.OpenDB(connector)
}

func TestStartAndShutdownLeaveNothingBehind(t *testing.T) {
	dir := t.TempDir()
	run := func(statements ...string) {
		s, err := Start(t.Context(), Options{Config: testConfig(dir), Version: "test"})
		require.NoError(t, err)
		db := connect(t, s)
		for _, q := range statements {
			_, err := db.Exec(q)
			require.NoError(t, err, q)
		}
		var version string
		require.NoError(t, db.QueryRow("SELECT VERSION()").Scan(&version))
		require.Equal(t, s.Status().Version, version)
		require.Equal(t, 1, s.Status().Connections)
		require.NoError(t, s.Shutdown(context.Background()))
		require.Zero(t, s.Status().Connections)
		require.NoError(t, db.Close())
	}
	// The first run starts what libraries keep for the life of the process.
	run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
	before := goleak.IgnoreCurrent()
	run("ALTER TABLE t ADD INDEX a (a)", "ADMIN CHECK TABLE t")
	goleak.VerifyNone(t, before)
}

func TestFailedStartsCloseWhatTheyOpened(t *testing.T) {
	occupied, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer occupied.Close()
	port := occupied.Addr().(*net.TCPAddr).Port

	for name, tc := range map[string]struct {
		change func(*config.Config)
		want   string
	}{
		"port":        {func(c *config.Config) { c.Port = port }, "port: listen"},
		"status port": {func(c *config.Config) { c.Status.StatusPort = port }, "status-port: listen"},
		"temp-dir":    {func(c *config.Config) { c.TempDir = filepath.Join(c.Path, "CURRENT-is-a-file", "x") }, "temp-dir: "},
		"certificate": {func(c *config.Config) { c.Security = config.Security{SSLCert: "/no/cert", SSLKey: "/no/key"} }, "security: "},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t.TempDir())
			require.NoError(t, os.MkdirAll(cfg.Path, 0o700))
			tc.change(&cfg)
			if name == "temp-dir" {
				// A store must exist for its folder to hold other files.
				s, err := Start(t.Context(), Options{Config: testConfig(cfg.Path)})
				require.NoError(t, err)
				require.NoError(t, s.Shutdown(t.Context()))
				require.NoError(t, os.WriteFile(filepath.Dir(cfg.TempDir), nil, 0o600))
			}
			_, err := Start(t.Context(), Options{Config: cfg})
			require.ErrorContains(t, err, tc.want)

			s, err := Start(t.Context(), Options{Config: testConfig(cfg.Path)})
			require.NoError(t, err, "the store was closed again")
			require.NoError(t, s.Shutdown(t.Context()))
		})
	}
}

func TestStoreOpenedTwice(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(t.Context(), Options{Config: testConfig(dir)})
	require.NoError(t, err)
	_, err = Start(t.Context(), Options{Config: testConfig(dir)})
	require.ErrorIs(t, err, kv.ErrLocked)
	require.NoError(t, s.Shutdown(t.Context()))
}

func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(filepath.Join(dir, "data"))
	cfg.Security = config.Security{SSLCert: filepath.Join(dir, "cert.pem"), SSLKey: filepath.Join(dir, "key.pem"), RequireSecureTransport: true}
	writeCertificate(t, cfg.Security)
	s, err := Start(t.Context(), Options{Config: cfg})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Shutdown(context.Background())) }()

	plain := connect(t, s)
	defer plain.Close()
	require.Error(t, plain.Ping(), "without TLS")

	secure, err := sql.Open("mysql", fmt.Sprintf("root@tcp(%s)/test?tls=skip-verify", s.Addr()))
	require.NoError(t, err)
	defer secure.Close()
	require.NoError(t, secure.Ping())
}
