package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fastddl/internal/randtest"
)

// TestServerOutlivesALackOfFileDescriptors: connections that say nothing take all of
// them. Connected clients go on, and when descriptors are free again others can connect.
func TestServerOutlivesALackOfFileDescriptors(t *testing.T) {
	randtest.SkipShort(t)
	n := startNode(t, "--log-level", "error")
	db := n.Open("test")
	db.SetMaxOpenConns(1)
	_, err := db.Exec("CREATE TABLE t (id INT PRIMARY KEY)")
	require.NoError(t, err)

	limit := unix.Rlimit{Cur: 200, Max: 200}
	require.NoError(t, unix.Prlimit(n.Cmd.Process.Pid, unix.RLIMIT_NOFILE, &limit, nil))
	var silent []net.Conn
	defer func() {
		for _, c := range silent {
			_ = c.Close()
		}
	}()
	require.Eventually(t, func() bool {
		if c, err := net.DialTimeout("tcp", n.Addr, time.Second); err == nil {
			silent = append(silent, c)
		}
		return strings.Contains(n.Stderr.String(), "no clients can be accepted")
	}, 2*time.Minute, time.Millisecond)
	_, err = db.Exec("INSERT INTO t VALUES (1)")
	require.NoError(t, err)

	// Those that say nothing are ended, without closing them here.
	other := n.Open("test")
	require.Eventually(t, func() bool { return other.Ping() == nil }, 2*time.Minute, 100*time.Millisecond)
	require.False(t, n.Exited())
	require.Zero(t, n.Terminate())
}
