package blackbox

import (
	"net"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSysbench runs every oltp script small. The sizes that the project
// promises are run by `make test-long` with the same code.
func TestSysbench(t *testing.T) {
	if _, err := exec.LookPath("sysbench"); err != nil {
		t.Skip("sysbench is not installed")
	}
	size, seconds := "1000", "1"
	if longTests() {
		size, seconds = "250000", "60"
	}
	n := startNode(t, t.TempDir())
	mustExec(t, n.db(), "CREATE DATABASE sbtest")
	host, port, err := net.SplitHostPort(n.addr)
	require.NoError(t, err)
	sysbench := func(t *testing.T, script, command string, extra ...string) string {
		t.Helper()
		args := append([]string{script, "--db-driver=mysql", "--mysql-host=" + host, "--mysql-port=" + port, "--mysql-user=root",
			"--mysql-db=sbtest", "--tables=4", "--table-size=" + size, "--threads=8", "--time=" + seconds}, extra...)
		out, err := exec.Command("sysbench", append(args, command)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	sysbench(t, "oltp_read_write", "prepare")
	for _, script := range []string{
		"oltp_point_select", "oltp_read_only", "oltp_write_only", "oltp_read_write",
		"oltp_update_index", "oltp_insert", "oltp_delete",
	} {
		for _, mode := range []string{"auto", "disable"} {
			t.Run(script+"/"+mode, func(t *testing.T) {
				out := sysbench(t, script, "run", "--db-ps-mode="+mode)
				require.NotContains(t, out, "FATAL")
				events := regexp.MustCompile(`total number of events:\s+(\d+)`).FindStringSubmatch(out)
				require.NotNil(t, events, out)
				require.NotEqual(t, "0", events[1], out)
			})
		}
	}
	db := n.open("sbtest")
	for _, table := range []string{"sbtest1", "sbtest2", "sbtest3", "sbtest4"} {
		mustExec(t, db, "ADMIN CHECK TABLE "+table)
	}
	sysbench(t, "oltp_read_write", "cleanup")
}
