package cluster

import (
	"net"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
)

// startTiDB adds a plain tidb-server to the cluster, of the version that fastddl is built
// from, and connects to a database there. Its addresses are those of SQL and of HTTP.
func startTiDB(t *testing.T, c cluster, database string) (db client, addr, status string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "tidb-server")
	out, err := exec.Command("go", "build", "-o", path, "github.com/pingcap/tidb/cmd/tidb-server").CombinedOutput()
	require.NoError(t, err, "%s", out)
	pd, err := c.Open()
	require.NoError(t, err)
	host, port, statusPort := host(t), freePort(t), freePort(t)
	addr, status = net.JoinHostPort(host, port), net.JoinHostPort(host, statusPort)
	log := &servertest.Buffer{}
	cmd := exec.Command(path, "-store", "tikv", "-path", pd.Addr, "-host", host, "-P", port, "-advertise-address", host,
		"-status-host", host, "-status", statusPort, "-socket", filepath.Join(dir, "s"), "-temp-dir", filepath.Join(dir, "tmp"),
		"-log-slow-query", filepath.Join(dir, "slow.log"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		if live != "" { // nobody should wait for it afterwards
			_ = cmd.Process.Signal(syscall.SIGTERM)
			killer := time.AfterFunc(stopTime, func() { _ = cmd.Process.Kill() })
			defer killer.Stop()
		} else {
			_ = cmd.Process.Kill() // it may have ended
		}
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of tidb-server:\n%s", log.String())
		}
	})
	db = connect(t, addr, database)
	eventually(t, "tidb-server is ready", func() bool { return db.Ping() == nil })
	return db, addr, status
}

// TestBesideTiDB: fastddl and a plain tidb-server are one cluster, whoever of them runs
// the DDL.
func TestBesideTiDB(t *testing.T) {
	t.Parallel()
	c := anyCluster(t)
	n := startNode(t, c)
	ours := n.open()
	theirs, addr, status := startTiDB(t, c, n.database)
	require.Len(t, ours.rows("SELECT * FROM information_schema.cluster_info WHERE type = 'tidb' AND instance IN (?, ?)", n.Addr, addr), 2)
	require.Len(t, theirs.rows("SELECT DISTINCT instance FROM information_schema.cluster_processlist WHERE instance IN (?, ?)", n.Status, status), 2)

	theirs.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
	changes := func() {
		ours.exec("ALTER TABLE t ADD INDEX ours (v)", "ADMIN CHECK TABLE t")
		theirs.exec("ALTER TABLE t ADD INDEX theirs (v)", "UPDATE t SET v = v + 1", "ADMIN CHECK TABLE t")
		require.Equal(t, theirs.value("SELECT SUM(v) FROM t USE INDEX (ours)"), ours.value("SELECT SUM(v) FROM t USE INDEX (theirs)"))
		ours.exec("ALTER TABLE t DROP INDEX ours, DROP INDEX theirs")
		testMetadataLock(t, ours, theirs)
		testKill(t, ours, theirs)
		testKill(t, theirs, ours)
	}
	changes()
	// When fastddl has stopped, the other runs what there is to do.
	require.Zero(t, n.Terminate())
	theirs.exec("ALTER TABLE t ADD INDEX alone (v)", "ADMIN CHECK TABLE t")
	n.start()
	ours = n.open()
	changes()
}
