package server

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/internal/servertest"
)

// testLog is the log of the process; what is below errors would drown the tests.
var testLog *Log

// hangTimeout is how long a test waits for what is bound to happen, so that it bounds only how long a test hangs: machines
// are busy, and the race detector takes ten times as long.
const hangTimeout = 5 * time.Minute

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	// TiDB calls some of its own races at start-up errors.
	if testLog, err = InitLogging(config.Log{Level: "fatal", Format: "text"}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer testLog.Close()
	defer func() {
		if err := bootstrapped.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	before := listing()
	code := m.Run()
	if after := listing(); after != before {
		fmt.Fprintf(os.Stderr, "servers wrote into the folder they ran in; before:\n%s\nafter:\n%s\n", before, after)
		return 1
	}
	return code
}

// listing is what is in the current folder.
func listing() string {
	entries, err := os.ReadDir(".")
	if err != nil {
		return err.Error()
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return strings.Join(names, "\n")
}

func testConfig(dir string) config.Config {
	cfg := config.Default()
	cfg.Path, cfg.Port, cfg.Status.StatusPort = dir, 0, 0
	cfg.EnsureDefaults()
	return cfg
}

// bootstrapped is the folder of a server that was started once.
var bootstrapped servertest.Template

// start starts a server that ends with the test, on a bootstrapped store if its folder is empty.
func start(t *testing.T, cfg config.Config) *Server {
	t.Helper()
	if entries, err := os.ReadDir(cfg.Path); err == nil && len(entries) == 0 {
		require.NoError(t, bootstrapped.CopyTo(cfg.Path, func(dir string) error {
			s, err := Start(t.Context(), Options{Config: testConfig(dir), Log: testLog, Version: "test"})
			if err != nil {
				return err
			}
			return s.Shutdown(context.Background())
		}))
	}
	require.NoError(t, cfg.Validate())
	var s *Server
	var err error
	for range 3 { // another process may get a port between its choice and its use
		if s, err = Start(t.Context(), Options{Config: cfg, Log: testLog, Version: "test"}); err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	require.NoError(t, err)
	t.Cleanup(func() { shutdown(t, s) })
	return s
}

// shutdown stops s, which may have been stopped already.
func shutdown(t *testing.T, s *Server) {
	t.Helper()
	if len(s.parts) > 0 {
		require.NoError(t, s.Shutdown(context.Background()))
	}
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
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, q := range statements {
		_, err := db.Exec(q)
		require.NoError(t, err, q)
	}
}
