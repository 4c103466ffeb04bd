package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/tests/cluster/standin"
)

// live is the path of a TiKV cluster that is in use, as --path takes it (pd1:2379,...),
// or empty. If it is set the tests run over it as far as they need SQL and the processes
// of their nodes only; run.sh sets it, and has one test run at a time. On a live cluster
// there are other servers, databases and jobs: a test looks at its own, in a database that
// is dropped in the end, and a global variable that it changes gets its value back.
var live = os.Getenv("FASTDDL_CLUSTER")

// stopTime is how long a server of a live cluster may take to stop in good order.
const stopTime = time.Minute

// cluster is what nodes run over: a stand-in or the live cluster.
type cluster interface {
	// Open opens an address of PD for one more SQL server.
	Open() (*standin.Endpoint, error)
}

// liveCluster is the live cluster as one test uses it.
type liveCluster struct {
	database string
	first    *node             // which cleans up; nil before a node was started
	globals  map[string]string // the values that variables had before the test
}

// Open returns the address that all nodes have, of which none can be cut off.
func (*liveCluster) Open() (*standin.Endpoint, error) {
	e := &standin.Endpoint{}
	e.Addr = live
	return e, nil
}

// anyCluster is the live cluster if there is one, or a stand-in for this test.
func anyCluster(t testing.TB) cluster {
	t.Helper()
	if live == "" {
		return startCluster(t, nil)
	}
	return &liveCluster{database: fmt.Sprintf("fastddl_test_%08x", rand.Uint32()), globals: make(map[string]string)}
}

// needsStandIn skips a test that a live cluster cannot be used for, for a reason.
func needsStandIn(t testing.TB, why string) {
	t.Helper()
	if live != "" {
		t.Skip("not on a live cluster: " + why)
	}
}

// host returns the address of this machine at which servers of the cluster listen: the
// one by which it reaches PD, if that is the live cluster's.
func host(t testing.TB) string {
	t.Helper()
	const local = "127.0.0.1"
	if live == "" {
		return local
	}
	servers, _, _ := strings.Cut(live, "?")
	pd, _, _ := strings.Cut(servers, ",")
	conn, err := net.Dial("udp", pd) // which sends nothing
	require.NoError(t, err, "FASTDDL_CLUSTER")
	defer func() { require.NoError(t, conn.Close()) }()
	addr, _, err := net.SplitHostPort(conn.LocalAddr().String())
	require.NoError(t, err)
	return addr
}

// join has a node that has just been started for the first time use the test's database,
// and stop in good order when the test ends: for a server that disappears the DDL of all
// others would wait until its registration has run out.
func (l *liveCluster) join(n *node) {
	n.t.Helper()
	n.t.Cleanup(n.leave)
	n.database = l.database
	if l.first != nil {
		return
	}
	l.first = n
	n.t.Logf("database %s", l.database)
	connect(n.t, n.Addr, "mysql").exec("CREATE DATABASE " + l.database)
	n.t.Cleanup(l.cleanUp) // when the other nodes have left
}

// cleanUp drops the test's database and sets variables back.
func (l *liveCluster) cleanUp() {
	l.first.proceed()
	if l.first.Exited() {
		l.first.start()
	}
	db := connect(l.first.t, l.first.Addr, "mysql")
	for left := l.globals; len(left) > 0; { // some can be set only after others
		failed, why := make(map[string]string), make(map[string]error)
		for name, value := range left {
			if err := db.try("SET GLOBAL "+name+" = ?", value); err != nil {
				failed[name], why[name] = value, err
			}
		}
		if len(failed) == len(left) {
			l.first.t.Errorf("variables of the cluster are not set back, they were %v: %v", failed, why)
			break
		}
		left = failed
	}
	if err := db.try("DROP DATABASE " + l.database); err != nil {
		l.first.t.Errorf("database %s stays: %v", l.database, err)
	}
}

// proceed lets a process that was stopped by a signal go on.
func (n *node) proceed() { _ = n.Cmd.Process.Signal(syscall.SIGCONT) } // it may have ended

// leave stops the node in good order if that can be done. What is left of it is killed
// afterwards.
func (n *node) leave() {
	n.proceed()
	_ = n.Cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	for began := time.Now(); !n.Exited() && time.Since(began) < stopTime; {
		time.Sleep(10 * time.Millisecond)
	}
}

// setGlobal sets a global variable for the rest of the test.
func (n *node) setGlobal(name, value string) {
	n.t.Helper()
	db := n.open()
	if n.live != nil {
		if _, known := n.live.globals[name]; !known {
			n.live.globals[name] = db.value("SELECT @@global." + name)
			n.t.Logf("variable %s was %q", name, n.live.globals[name])
		}
	}
	db.exec(fmt.Sprintf("SET GLOBAL %s = %s", name, value))
}
