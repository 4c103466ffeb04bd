package cluster

import (
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/keyspacepb"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"fastddl/internal/servertest"
	"fastddl/tests/cluster/standin"
)

// hangTimeout is how long a test waits for what takes a second or two on a quiet machine.
const hangTimeout = 3 * time.Minute

// inKeyspace has SQL servers over the stand-in work in a keyspace. Tests that reach the store past them, by the API without
// keyspaces, fail then.
var inKeyspace = os.Getenv("FASTDDL_STANDIN_KEYSPACE") != ""

// namesKeyspace says that the path of a SQL server has a keyspace behind the servers of PD.
func namesKeyspace(path string) bool { return strings.Contains(path, "?") }

// orders is their keyspace.
var orders = &keyspacepb.KeyspaceMeta{Id: 7, Name: "orders", State: keyspacepb.KeyspaceState_ENABLED}

// binary is the program under test, scratch a folder for what all tests share.
var binary, scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	// A node that is gone stops being the owner of the DDL after this many seconds, not
	// after a minute.
	if err := os.Setenv("tidb_manager_ttl", "3"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "fastddl-cluster-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch = dir
	return servertest.Main(m, &binary)
}

// startCluster starts a cluster that a node has bootstrapped, which ends with the test. Its
// log is printed if the test has failed.
func startCluster(t testing.TB, serve *tls.Config) *standin.Cluster {
	t.Helper()
	if inKeyspace {
		return startEmptyCluster(t)
	}
	needsStandIn(t, standInOnly)
	bootstrapped.Do(func() {
		fs := vfs.NewCrashableMem()
		dir := filepath.Join(scratch, "bootstrap")
		require.NoError(t, os.Mkdir(dir, 0o700))
		c, err := standin.Start(standin.Options{Dir: dir, FS: fs})
		require.NoError(t, err)
		require.Zero(t, startNode(t, c).Terminate())
		require.NoError(t, c.Close())
		bootstrapped.fs = fs
	})
	require.NotNil(t, bootstrapped.fs, "the cluster was not bootstrapped")
	all := vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 0))}
	return startStandIn(t, standin.Options{TLS: serve, FS: bootstrapped.fs.CrashClone(all)})
}

// bootstrapped has the data of a cluster in which a node was started and stopped. Each test gets a copy.
var bootstrapped struct {
	sync.Once
	fs *vfs.MemFS
}

// startEmptyCluster starts a cluster without data.
func startEmptyCluster(t testing.TB) *standin.Cluster {
	t.Helper()
	opts := standin.Options{}
	if inKeyspace {
		opts.Keyspaces, opts.Keyspace = []*keyspacepb.KeyspaceMeta{orders}, true
	}
	return startStandIn(t, opts)
}

// standInOnly is why tests with a cluster of their own are skipped on a live one.
const standInOnly = "it orders faults of the stand-in, or needs a cluster of its own"

// startStandIn starts a stand-in that ends with the test.
func startStandIn(t testing.TB, opts standin.Options) *standin.Cluster {
	t.Helper()
	needsStandIn(t, standInOnly)
	out := &servertest.Buffer{}
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()), zapcore.AddSync(out), zapcore.WarnLevel)
	opts.Dir, opts.Logger = t.TempDir(), zap.New(core)
	c, err := standin.Start(opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		if t.Failed() {
			t.Logf("log of the cluster:\n%s", out.String())
		}
	})
	return c
}

// node is a SQL server of a cluster.
type node struct {
	*servertest.Node
	// pd is the address of PD that no other node uses; nil on a live cluster.
	pd *standin.Endpoint
	// live is the live cluster, or nil.
	live *liveCluster
	// path is where it finds PD, database what its clients use, temp where it sorts.
	path, database, temp string
	args                 []string
	t                    testing.TB
}

// startNode adds a node to the cluster, with lines for its configuration file.
func startNode(t testing.TB, c cluster, settings ...string) *node {
	t.Helper()
	pd, err := c.Open()
	require.NoError(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "fastddl.toml")
	settings = append(settings, "[log]", fmt.Sprintf("slow-query-file = %q", filepath.Join(dir, "slow.log")))
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(settings, "\n")), 0o600))
	// It keeps its ports when it is started again: by them the others know that it is
	// the same node, and do not wait until the leases of its former life have run out.
	temp := filepath.Join(dir, "tmp")
	n := &node{t: t, pd: pd, path: pd.Path(), database: "test", temp: temp, args: []string{
		"--store", "tikv", "--temp-dir", temp, "--config", file, "--host", host(t), "--advertise-address", host(t),
		"--port", freePort(t), "--status-port", freePort(t),
	}}
	n.start()
	if l, ok := c.(*liveCluster); ok {
		n.pd, n.live = nil, l
		l.join(n)
	}
	if !roomToImport(t) {
		n.setGlobal("tidb_enable_dist_task", "OFF")
		n.setGlobal("tidb_ddl_enable_fast_reorg", "OFF")
	}
	return n
}

// roomToImport says whether TiDB builds indexes by import: it refuses on a disk of which
// less than a tenth is free.
func roomToImport(t testing.TB) bool {
	t.Helper()
	var disk syscall.Statfs_t
	require.NoError(t, syscall.Statfs(os.TempDir(), &disk))
	const part, margin = 10, 5 // other tests write as well
	return disk.Bavail*100 >= disk.Blocks*(part+margin)
}

// needsImport skips a test of TiDB's imports where there are none.
func needsImport(t testing.TB) {
	t.Helper()
	if !roomToImport(t) {
		t.Skip("TiDB imports nothing on a disk that is nearly full")
	}
}

// Ports that the system does not give to listeners at port 0, and the last of them that a
// test has taken. Another run begins somewhere else.
const firstPort, ports = 12_000, 18_000

var lastPort atomic.Int64

func init() { lastPort.Store(rand.Int64N(ports)) }

// freePort returns a port without a listener, which no other process gets.
func freePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := fmt.Sprint(firstPort + lastPort.Add(1)%ports)
		if l, err := net.Listen("tcp", net.JoinHostPort("", port)); err == nil {
			require.NoError(t, l.Close())
			return port
		}
	}
	require.FailNow(t, "no port is free")
	return ""
}

// start starts the node's process, which must not be running.
func (n *node) start() {
	n.t.Helper()
	n.Node = servertest.Start(n.t, binary, n.path, n.args...)
}
