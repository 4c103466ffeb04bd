package blackbox

import (
	"database/sql"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// slowTable makes a table whose index takes minutes to build, until speedUp.
func slowTable(t *testing.T, db *sql.DB) {
	t.Helper()
	fill(t, db, "t", 30_000)
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 8192")
}

func speedUp(t *testing.T, db *sql.DB) {
	t.Helper()
	mustExec(t, db, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
}

// requireCleanEnd checks that the server has kept no connection but that of db,
// and that it stops in an orderly way.
func requireCleanEnd(t *testing.T, n *node, db *sql.DB) {
	t.Helper()
	mustExec(t, db, "ADMIN CHECK TABLE t")
	require.Empty(t, blockers(t, db))
	require.NoError(t, db.Close())
	require.Eventually(t, func() bool { return n.connections() == 0 }, startTimeout, pollInterval, "no session is left")
	require.Zero(t, n.terminate())
}

func TestKillQueryCancelsTheJob(t *testing.T) {
	randtest.SkipShort(t)
	for name, prepare := range map[string]func(t *testing.T, n *node, db *sql.DB) (release func()){
		"while it backfills": func(t *testing.T, _ *node, db *sql.DB) func() {
			slowTable(t, db)
			return func() {}
		},
		"while it waits for the metadata lock": func(t *testing.T, n *node, db *sql.DB) func() {
			fill(t, db, "t", 200)
			writer := n.terminal()
			writer.exec("BEGIN")
			writer.exec("UPDATE t SET k = -1 WHERE id = 1")
			return func() {
				writer.exec("COMMIT")
				writer.close()
			}
		},
	} {
		for _, kill := range []string{"KILL QUERY ", "KILL "} {
			t.Run(name+" "+kill, func(t *testing.T) {
				n := startNode(t, t.TempDir())
				db := n.db()
				release := prepare(t, n, db)
				c := n.terminal()
				altered := c.start("ALTER TABLE t ADD INDEX k (k)")
				waitForRunningJob(t, db)
				mustExec(t, db, kill+c.id)
				err := requireEnds(t, altered)
				if kill == "KILL " {
					require.Error(t, err)
				} else {
					requireCode(t, err, 1317, "70100", "Query execution was interrupted")
					require.Equal(t, "1", c.value("SELECT 1"), "the session goes on")
					c.close()
				}
				release()
				waitForJobs(t, db)
				require.Equal(t, []string{"PRIMARY"}, indexNames(t, db, "t"))
				requireCleanEnd(t, n, db)
			})
		}
	}
}

// waitForRunningJob waits until a job backfills or waits.
func waitForRunningJob(t *testing.T, db *sql.DB) {
	t.Helper()
	require.Eventually(t, func() bool {
		if len(blockers(t, db)) > 0 {
			return true
		}
		for _, job := range jobs(t, db) {
			if job["STATE"] == "running" && job["SCHEMA_STATE"] == "write reorganization" {
				return true
			}
		}
		return false
	}, startTimeout, pollInterval)
}

// commandLine starts the mysql client with a statement.
func (n *node) commandLine(statement string) (*exec.Cmd, *lockedBuffer) {
	n.t.Helper()
	if _, err := exec.LookPath("mysql"); err != nil {
		n.t.Skip("there is no mysql client")
	}
	host, port, err := net.SplitHostPort(n.addr)
	require.NoError(n.t, err)
	cmd := exec.Command("mysql", "--no-defaults", "-h", host, "-P", port, "-u", "root", "-e", statement, "test")
	out := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(n.t, cmd.Start())
	n.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, out
}

func TestInterruptOfTheMySQLClientCancelsTheJob(t *testing.T) {
	n := startNode(t, t.TempDir())
	db := n.db()
	slowTable(t, db)
	cmd, out := n.commandLine("ALTER TABLE t ADD INDEX k (k)")
	waitForRunningJob(t, db)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	require.Error(t, requireEnds(t, ended))
	require.Contains(t, out.String(), "ERROR 1317 (70100)")
	waitForJobs(t, db)
	require.Equal(t, []string{"PRIMARY"}, indexNames(t, db, "t"))
	requireCleanEnd(t, n, db)
}

// A client that is lost has not asked to cancel: the job goes on to its end.
func TestJobOutlivesItsClient(t *testing.T) {
	randtest.SkipShort(t)
	t.Run("tcp reset", func(t *testing.T) {
		n := startNode(t, t.TempDir())
		db := n.db()
		slowTable(t, db)
		c := n.terminal()
		altered := c.start("ALTER TABLE t ADD INDEX k (k)")
		waitForRunningJob(t, db)
		c.reset()
		require.Error(t, <-altered)
		requireJobGoesOn(t, n, db)
	})
	t.Run("kill -9 of the mysql client", func(t *testing.T) {
		n := startNode(t, t.TempDir())
		db := n.db()
		slowTable(t, db)
		cmd, _ := n.commandLine("ALTER TABLE t ADD INDEX k (k)")
		waitForRunningJob(t, db)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		requireJobGoesOn(t, n, db)
	})
}

func requireJobGoesOn(t *testing.T, n *node, db *sql.DB) {
	t.Helper()
	// Longer than it takes to notice that a client is gone.
	time.Sleep(1500 * time.Millisecond)
	require.Equal(t, "running", jobs(t, db)[0]["STATE"])
	speedUp(t, db)
	waitForJobs(t, db)
	require.Equal(t, "synced", jobs(t, db)[0]["STATE"])
	require.Equal(t, []string{"PRIMARY", "k"}, indexNames(t, db, "t"))
	requireCleanEnd(t, n, db)
}

func TestShutdownWithAJobWhoseClientIsLost(t *testing.T) {
	randtest.SkipShort(t)
	dir := t.TempDir()
	n := startNode(t, dir)
	db := n.db()
	slowTable(t, db)
	c := n.terminal()
	altered := c.start("ALTER TABLE t ADD INDEX k (k)")
	waitForRunningJob(t, db)
	c.reset()
	require.Error(t, <-altered)
	require.Zero(t, n.terminate())

	n = startNode(t, dir)
	db = n.db()
	speedUp(t, db)
	waitForJobs(t, db)
	require.Equal(t, []string{"PRIMARY", "k"}, indexNames(t, db, "t"), "the job went on after the restart")
	requireCleanEnd(t, n, db)
}

// The lock of a client that is lost is free at once, also if the server is in
// the middle of a statement of it.
func TestLostClientFreesItsLocks(t *testing.T) {
	randtest.SkipShort(t)
	for name, statement := range map[string]string{
		"idle": "", "sleeping": "SELECT SLEEP(1000)", "sleeping over rows": "SELECT SLEEP(1000), id FROM t",
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, t.TempDir())
			writer, alter, _ := alterBehindWriter(t, n)
			db := n.db()
			if statement != "" {
				done := writer.start(statement)
				running(t, db, writer.id)
				defer func() { require.Error(t, <-done) }()
			}
			requireWaits(t, alter)
			writer.reset()
			require.NoError(t, requireEnds(t, alter))
			requireGone(t, db, writer.id)
			require.Equal(t, "0", value(t, db, "SELECT COUNT(*) FROM t WHERE k = -1"))
			mustExec(t, db, "ADMIN CHECK TABLE t")
		})
	}
}
