package cluster

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
	"fastddl/tests/cluster/standin"
)

// tidbBinary builds the plain tidb-server of the version that fastddl is built from, once for all runs of the tests until make
// clean; FASTDDL_TIDB_BIN names one that is built already.
var tidbBinary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("FASTDDL_TIDB_BIN"); path != "" {
		return path, nil
	}
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", "tidb-server"))
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", path, "github.com/pingcap/tidb/cmd/tidb-server").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tidb-server: %w\n%s", err, out)
	}
	return path, nil
})

// plainServer is a tidb-server that knows nothing of fastddl.
type plainServer struct {
	client
	addr, status string            // of SQL and of HTTP
	pd           *standin.Endpoint // nil on a live cluster
	cmd          *exec.Cmd
	log          *servertest.Buffer
	dir          string
	args         []string
}

// startTiDB adds a plain tidb-server to the cluster and connects to a database there.
func startTiDB(t *testing.T, c cluster, database string) *plainServer {
	t.Helper()
	pd, err := c.Open()
	require.NoError(t, err)
	dir, host, port, statusPort := t.TempDir(), host(t), freePort(t), freePort(t)
	servers, keyspace, _ := strings.Cut(pd.Path(), "?keyspaceName=")
	p := &plainServer{
		addr: net.JoinHostPort(host, port), status: net.JoinHostPort(host, statusPort), pd: pd, log: &servertest.Buffer{}, dir: dir,
		args: []string{
			"-store", "tikv", "-path", servers, "-keyspace-name", keyspace, "-host", host, "-P", port, "-advertise-address", host,
			"-status-host", host, "-status", statusPort, "-socket", filepath.Join(dir, "s"), "-temp-dir", filepath.Join(dir, "tmp"),
			"-log-slow-query", filepath.Join(dir, "slow.log"),
		},
	}
	if _, ok := c.(*liveCluster); ok {
		p.pd = nil
	}
	p.client = connect(t, p.addr, database)
	t.Cleanup(func() {
		p.leave()
		if t.Failed() {
			t.Logf("log of tidb-server:\n%s", p.log.String())
		}
	})
	p.start()
	return p
}

// start starts the process, which must not be running, and waits until it is ready.
func (p *plainServer) start() {
	p.t.Helper()
	binary, err := tidbBinary()
	require.NoError(p.t, err)
	p.cmd = exec.Command(binary, p.args...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.dir, p.log, p.log
	require.NoError(p.t, p.cmd.Start())
	eventually(p.t, "tidb-server is ready", func() bool { return p.Ping() == nil })
}

// kill ends the process as a crash would.
func (p *plainServer) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
}

// leave ends the process: in good order on a live cluster, where no other node
// should wait for it afterwards.
func (p *plainServer) leave() {
	if p.cmd == nil {
		return
	}
	if live != "" {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		killer := time.AfterFunc(stopTime, func() { _ = p.cmd.Process.Kill() })
		defer killer.Stop()
		_ = p.cmd.Wait()
		return
	}
	p.kill()
}

// TestBesideTiDB: fastddl and a plain tidb-server are one cluster, with either of them
// running the DDL.
func TestBesideTiDB(t *testing.T) {
	t.Parallel()
	c := anyCluster(t)
	n := startNode(t, c)
	ours := n.open()
	plain := startTiDB(t, c, n.database)
	theirs, addr, status := plain.client, plain.addr, plain.status
	require.Len(t, ours.rows("SELECT * FROM information_schema.cluster_info WHERE type = 'tidb' AND instance IN (?, ?)", n.Addr, addr), 2)
	require.Len(t, theirs.rows("SELECT DISTINCT instance FROM information_schema.cluster_processlist WHERE instance IN (?, ?)", n.Status, status), 2)
	for _, reader := range []client{ours, theirs} {
		require.Len(t, reader.rows("SELECT DISTINCT instance FROM information_schema.cluster_config WHERE type = 'tidb' AND instance IN (?, ?)", n.Addr, addr), 2)
		require.Empty(t, reader.rows("SHOW WARNINGS"), "the settings of both are read over HTTP")
	}

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
	// When fastddl has stopped, the other runs the jobs.
	require.Zero(t, n.Terminate())
	theirs.exec("ALTER TABLE t ADD INDEX alone (v)", "ADMIN CHECK TABLE t")
	n.start()
	ours = n.open()
	changes()
}
