package cluster

import (
	"database/sql"
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
	"fastddl/tests/cluster/standin"
)

// startTiDB adds a plain tidb-server to the cluster, of the version that fastddl is built
// from, and connects to it.
func startTiDB(t *testing.T, c *standin.Cluster) client {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "tidb-server")
	out, err := exec.Command("go", "build", "-o", path, "github.com/pingcap/tidb/cmd/tidb-server").CombinedOutput()
	require.NoError(t, err, "%s", out)
	pd, err := c.Open()
	require.NoError(t, err)
	addr := freeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	_, status, err := net.SplitHostPort(freeAddr(t))
	require.NoError(t, err)
	log := &servertest.Buffer{}
	cmd := exec.Command(path, "-store", "tikv", "-path", pd.Addr, "-host", "127.0.0.1", "-P", port, "-advertise-address", "127.0.0.1",
		"-status-host", "127.0.0.1", "-status", status, "-socket", filepath.Join(dir, "s"), "-temp-dir", filepath.Join(dir, "tmp"),
		"-log-slow-query", filepath.Join(dir, "slow.log"))
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("log of tidb-server:\n%s", log.String())
		}
	})
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.DBName, cfg.InterpolateParams = "tcp", addr, "root", "test", true
	cfg.Logger = &mysql.NopLogger{} // it is dialled before it listens
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	eventually(t, "tidb-server is ready", func() bool { return db.Ping() == nil })
	return client{db, t}
}

// TestBesideTiDB: fastddl and a plain tidb-server are one cluster, whoever of them runs
// the DDL.
func TestBesideTiDB(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	n := startNode(t, c)
	ours, theirs := n.open(), startTiDB(t, c)
	require.Len(t, ours.rows("SELECT * FROM information_schema.cluster_info WHERE type = 'tidb'"), 2)
	require.Len(t, theirs.rows("SELECT DISTINCT instance FROM information_schema.cluster_processlist"), 2)

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
