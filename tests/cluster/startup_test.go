package cluster

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/servertest"
	"fastddl/tests/cluster/standin"
)

// launch starts a server that is not expected to become ready.
func launch(t *testing.T, args ...string) (cmd *exec.Cmd, log *servertest.Buffer, exited <-chan error) {
	t.Helper()
	dir := t.TempDir()
	args = append([]string{"server", "--store", "tikv", "-P", "0", "--status-port", "0", "--temp-dir", filepath.Join(dir, "tmp")}, args...)
	cmd = exec.Command(binary, args...)
	cmd.Dir = dir
	log = &servertest.Buffer{}
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		if t.Failed() {
			t.Logf("log of the server:\n%s", log.String())
		}
	})
	return cmd, log, done
}

// refused is the log of a server that ends with an error instead of becoming ready.
func refused(t *testing.T, args ...string) (log string) {
	t.Helper()
	_, said, exited := launch(t, args...)
	require.Error(t, await(t, exited))
	return said.String()
}

// freeAddr is an address without a listener.
func freeAddr(t *testing.T) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", freePort(t))
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, hangTimeout, 10*time.Millisecond, what)
}

// TestStartWithoutPDNamesItAndRetries: a server whose PD cannot be reached says so, by its address, tries again, and
// ends when it is asked to.
func TestStartWithoutPDNamesItAndRetries(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	cmd, log, exited := launch(t, "--path", addr)
	eventually(t, "it says what it waits for", func() bool {
		return strings.Contains(log.String(), "connecting to the cluster") && strings.Count(log.String(), "failed to get cluster id") >= 2
	})
	require.Contains(t, log.String(), addr)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, await(t, exited))
	require.Contains(t, log.String(), "fastddl: interrupted")
}

// TestStartWaitsForASilentPD: a server whose PD does not answer becomes ready when it does.
func TestStartWaitsForASilentPD(t *testing.T) {
	t.Parallel()
	needsStandIn(t, "it cuts a node off from PD")
	c := startCluster(t, nil)
	pd, err := c.Open()
	require.NoError(t, err)
	pd.Cut()
	_, log, exited := launch(t, "--path", pd.Addr)
	eventually(t, "it says what it waits for", func() bool { return strings.Contains(log.String(), "failed to get cluster id") })
	pd.Heal()
	eventually(t, "it is ready", func() bool { return strings.Contains(log.String(), "server is ready") })
	select {
	case err := <-exited:
		require.FailNow(t, "it has ended", "%v", err)
	default:
	}
}

// TestAddressThatIsNoPDIsNamed: something that is no PD at the address is told from a cluster.
func TestAddressThatIsNoPDIsNamed(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	_, log, _ := launch(t, "--path", c.StoreAddr())
	eventually(t, "it says what is wrong", func() bool { return strings.Contains(log.String(), "unknown service pdpb.PD") })
}

// TestNodeWithoutAnAddressDoesNotStart: a node that its cluster would not tell from others does not start.
func TestNodeWithoutAnAddressDoesNotStart(t *testing.T) {
	t.Parallel()
	log := refused(t, "--path", "pd.invalid:2379")
	require.Contains(t, log, "advertise-address 127.0.0.1 does not tell this server from others")
}

// TestBadPathEndsTheStart: an address that cannot be one ends the server at once.
func TestBadPathEndsTheStart(t *testing.T) {
	t.Parallel()
	log := refused(t, "--path", "")
	require.Contains(t, log, "path is not set: name the PD servers with --path")
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, e := range entries {
		require.NotContains(t, e.Name(), ".log")
	}
}

// TestPDIsLostAtStart: a server that loses PD while it starts ends when it is asked to.
func TestPDIsLostAtStart(t *testing.T) {
	t.Parallel()
	needsStandIn(t, "it cuts a node off from PD")
	c := startCluster(t, nil)
	pd, err := c.Open()
	require.NoError(t, err)
	slow := c.Faults().Inject(standin.Fault{Delay: 100 * time.Millisecond})
	cmd, log, exited := launch(t, "--path", pd.Addr)
	eventually(t, "it reads what is there", func() bool { return slow.Hits() > 0 })
	pd.Cut()
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, await(t, exited))
	require.Contains(t, log.String(), "fastddl: interrupted")
}

// TestStopWithoutPD: a server that has lost PD ends when it is asked to, in the time that
// it has, and says that it could not do so in good order.
func TestStopWithoutPD(t *testing.T) {
	t.Parallel()
	if os.Getenv("FASTDDL_LONG") == "" {
		t.Skip("it waits for half a minute: set FASTDDL_LONG")
	}
	c := startCluster(t, nil)
	n := startNode(t, c)
	db := n.open()
	db.exec("CREATE TABLE t (id INT PRIMARY KEY)")
	n.pd.Cut()
	stuck := db.later("INSERT INTO t VALUES (1)")
	require.Equal(t, 1, n.Terminate())
	require.Error(t, await(t, stuck))
	require.Contains(t, n.Stderr.String(), "the server did not stop in time")
}
