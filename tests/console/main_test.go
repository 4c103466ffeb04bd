package console

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) { os.Exit(servertest.Main(m, &binary)) }

// browsers are names of the program, Debian's first.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "chrome"}

// findBrowser returns the path of a Chromium, or skips the test.
func findBrowser(t *testing.T) string {
	t.Helper()
	for _, name := range browsers {
		found, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if out, err := exec.Command(found, "--version").CombinedOutput(); err != nil {
			t.Skipf("the console is not tested: %s does not start: %v: %s", found, err, out)
		}
		return found
	}
	t.Skip("the console is not tested: there is no Chromium on this machine (Debian: apt-get install chromium)")
	return ""
}

// site is a server with its tables and accounts.
type site struct {
	node *servertest.Node
	root *sql.DB
	// files is what IMPORT INTO may read.
	files string
}

// open starts the server of all tests.
func open(t *testing.T) *site {
	s := &site{files: t.TempDir()}
	s.node = servertest.Start(t, binary, t.TempDir(), "--secure-file-priv", s.files)
	s.root = s.node.Open("")
	s.exec(t,
		"CREATE DATABASE shop", "CREATE TABLE shop.orders (id BIGINT PRIMARY KEY AUTO_INCREMENT, customer BIGINT, note VARCHAR(64))",
		"INSERT INTO shop.orders (customer, note) VALUES (1, 'a'), (2, 'b'), (2, 'c'), (3, 'd')",
		"CREATE TABLE shop.stock (id BIGINT PRIMARY KEY, amount BIGINT)", "INSERT INTO shop.stock VALUES (1, 1)",
		"CREATE TABLE shop.loaded (id BIGINT PRIMARY KEY, note VARCHAR(64))",
		"CREATE USER dba IDENTIFIED BY 'secret'", "GRANT ALL ON *.* TO dba",
		"CREATE USER reader IDENTIFIED BY 'small'", "GRANT SELECT ON shop.orders TO reader",
		"CREATE USER clerk IDENTIFIED BY 'small'", "GRANT SELECT, ALTER, INDEX ON shop.stock TO clerk",
	)
	require.NoError(t, os.WriteFile(filepath.Join(s.files, "loaded.csv"), []byte("1,one\n2,two\n3,three\n"), 0o600))
	return s
}

func (s *site) exec(t *testing.T, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		_, err := s.root.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
}

// hold begins a transaction that builds on a table wait for. What it returns ends it.
func (s *site) hold(t *testing.T, table string) (release func()) {
	t.Helper()
	conn, err := s.root.Conn(context.Background())
	require.NoError(t, err)
	for _, statement := range []string{"BEGIN", "SELECT COUNT(*) FROM " + table} {
		_, err = conn.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	return func() {
		_, _ = conn.ExecContext(context.Background(), "ROLLBACK") // the page may have ended it
		_ = conn.Close()
	}
}
