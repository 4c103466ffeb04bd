package blackbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"fastddl/internal/servertest"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// startTimeout is how long a server may take until it accepts statements.
const startTimeout = servertest.StartTimeout

// lockedBuffer collects output while a process writes it.
type lockedBuffer = servertest.Buffer

// node is one run of the server process.
type node struct {
	*servertest.Node
	t      *testing.T
	cmd    *exec.Cmd
	stderr *lockedBuffer
	// addr and status are host:port of the MySQL and the HTTP listener.
	addr, status string
}

// startNode starts a server on free ports over the store in dir and waits until
// it accepts statements. It is killed at the end of the test. An empty folder
// gets a copy of a store in which TiDB has made its system tables.
func startNode(t *testing.T, dir string, args ...string) *node {
	t.Helper()
	return newNode(t, servertest.Start(t, binary, dir, args...))
}

// startNodeAsIs is startNode for a test of what the server makes of the folder.
func startNodeAsIs(t *testing.T, dir string, args ...string) *node {
	t.Helper()
	return newNode(t, servertest.StartAsIs(t, binary, dir, args...))
}

func newNode(t *testing.T, n *servertest.Node) *node {
	return &node{Node: n, t: t, cmd: n.Cmd, stderr: n.Stderr, addr: n.Addr, status: n.Status}
}

// kill ends the process as a crash would.
func (n *node) kill() { n.Kill() }

// terminate asks the process to end and returns its exit code.
func (n *node) terminate() int {
	n.t.Helper()
	return n.Terminate()
}

func (n *node) wait() int {
	n.t.Helper()
	return n.Wait()
}

// open connects to a database of the node.
func (n *node) open(database string) *sql.DB {
	n.t.Helper()
	return n.Open(database)
}

// db connects to the database test.
func (n *node) db() *sql.DB {
	n.t.Helper()
	return n.open("test")
}

// startAndFail runs the server where it must not start, and returns its exit
// code and standard error.
func startAndFail(t *testing.T, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append([]string{"server"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	require.NoError(t, ctx.Err(), "the server did not end:\n%s", stderr.String())
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "the server must not start")
	return exit.ExitCode(), stderr.String()
}

func mustExec(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	_, err := db.Exec(query, args...)
	require.NoError(t, err, "%s", query)
}

// checkTable has TiDB compare a table with its indexes, in both its ways: the fast one does
// not look at what entries say of expressions.
func checkTable(t *testing.T, db *sql.DB, table string) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	for _, fast := range []string{"OFF", "ON"} { // it ends as it was
		for _, statement := range []string{"SET tidb_enable_fast_table_check = " + fast, "ADMIN CHECK TABLE " + table} {
			_, err := conn.ExecContext(t.Context(), statement)
			require.NoError(t, err, "%s, fast check %s", statement, fast)
		}
	}
}

// querier is a *sql.DB, *sql.Conn or *sql.Tx.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// queryAll returns a result set as rows of text; NULL is "NULL".
func queryAll(t *testing.T, db querier, query string, args ...any) [][]string {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), query, args...)
	require.NoError(t, err, "%s", query)
	all, err := servertest.ReadRows(rows, "NULL")
	require.NoError(t, err, "%s", query)
	return all
}

// value returns the only value of a result.
func value(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	rows := queryAll(t, db, query, args...)
	require.Len(t, rows, 1, "%s", query)
	require.Len(t, rows[0], 1, "%s", query)
	return rows[0][0]
}

// explain is the plan of a query as one text.
func explain(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	return tableText(queryAll(t, db, "EXPLAIN "+query))
}

func tableText(rows [][]string) string {
	var b strings.Builder
	for _, row := range rows {
		b.WriteString(strings.Join(row, " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// Numbers by which a server asks to run a transaction again.
func isConflict(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == 1205 || e.Number == 1213 || e.Number == 8022 || e.Number == 8028 || e.Number == 9007)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// longTests reports whether `make test-long` runs.
func longTests() bool { return os.Getenv("FASTDDL_LONG") != "" }
