package server

import (
	"context"
	"crypto/tls"
	"database/sql"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/dolthub/vitess/go/mysql"
	driver "github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// tcpPair returns the two ends of a TCP connection.
func tcpPair(t *testing.T) (ours, theirs *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	server, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { client.Close(); server.Close() })
	return server.(*net.TCPConn), client.(*net.TCPConn)
}

func skipUnlessPeersAreWatched(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("lost clients are noticed during a statement on Linux only")
	}
}

func TestPeerGone(t *testing.T) {
	skipUnlessPeersAreWatched(t)
	for name, end := range map[string]func(*net.TCPConn) error{
		"close": (*net.TCPConn).Close,
		"reset": func(c *net.TCPConn) error {
			if err := c.SetLinger(0); err != nil {
				return err
			}
			return c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := tcpPair(t)
			_, err := theirs.Write([]byte("a command sent ahead"))
			require.NoError(t, err)
			require.False(t, peerGone(ours))
			require.NoError(t, end(theirs))
			gone := func() bool { return peerGone(tls.Server(ours, nil)) && peerGone(ours) }
			require.Eventually(t, gone, time.Second, time.Millisecond)
			require.NoError(t, ours.Close())
			require.False(t, peerGone(ours), "our own end is closed")
		})
	}
	ours, _ := pipeConn(t, 1)
	require.False(t, peerGone(ours.Conn), "not a socket")
}

func TestStatementsOfLostClientsAreEnded(t *testing.T) {
	skipUnlessPeersAreWatched(t)
	conns := newConnections()
	begin := func(id uint32, kind string) (client *net.TCPConn) {
		ours, theirs := tcpPair(t)
		conn := &mysql.Conn{Conn: ours, ConnectionID: id}
		conns.add(conn)
		if kind != "" {
			require.NoError(t, conns.begin(conn, kind))
		}
		return theirs
	}
	begin(1, "select") // its client stays
	lost := []*net.TCPConn{begin(2, "alter"), begin(3, "execute"), begin(4, ""), begin(5, "select")}

	ended := make(chan uint32, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		conns.watchClients(ctx, time.Millisecond, func(c *mysql.Conn) { ended <- c.ConnectionID })
	}()
	time.Sleep(5 * time.Millisecond)
	require.Empty(t, ended)
	for _, c := range lost {
		require.NoError(t, c.Close())
	}
	require.EqualValues(t, 5, <-ended)
	time.Sleep(5 * time.Millisecond)
	cancel()
	<-done
	close(ended)
	for id := range ended {
		require.EqualValues(t, 5, id, "jobs outlive their clients, and idle connections end by themselves")
	}
}

// A DDL statement whose client is gone keeps neither the shutdown nor anything
// of its own.
func TestShutdownAfterClientsWereLost(t *testing.T) {
	dir := t.TempDir()
	run := func(lose bool) {
		s, err := Start(t.Context(), Options{Config: testConfig(dir)})
		require.NoError(t, err)
		db := connect(t, s)
		if !lose {
			_, err := db.Exec("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
			require.NoError(t, err)
		} else {
			loseClients(t, s, db)
		}
		require.NoError(t, db.Close())
		require.NoError(t, s.Shutdown(context.Background()))
		require.Zero(t, s.Status().Connections)
	}
	run(false) // starts what libraries keep for the life of the process
	before := goleak.IgnoreCurrent()
	run(true)
	goleak.VerifyNone(t, before)
}

// loseClients leaves an ALTER that waits for a transaction, without its client.
func loseClients(t *testing.T, s *Server, db *sql.DB) {
	db.SetMaxOpenConns(1)
	for _, q := range []string{"BEGIN", "INSERT INTO t VALUES (1, 1)"} {
		_, err := db.Exec(q)
		require.NoError(t, err)
	}

	var socket net.Conn
	cfg := clientConfig(s)
	cfg.DialFunc = func(_ context.Context, network, addr string) (_ net.Conn, err error) {
		socket, err = net.Dial(network, addr)
		return socket, err
	}
	connector, err := driver.NewConnector(cfg)
	require.NoError(t, err)
	lost := sql.OpenDB(connector)
	require.NoError(t, lost.Ping())
	altered := make(chan error, 1)
	go func() {
		_, err := lost.Exec("ALTER TABLE t ADD INDEX a (a)")
		altered <- err
	}()
	require.Eventually(t, func() bool { return len(s.node.Locks.Blockers()) == 1 }, 10*time.Second, time.Millisecond)
	require.NoError(t, socket.Close())
	require.Error(t, <-altered)
	require.NoError(t, lost.Close())
	require.Len(t, s.node.Locks.Blockers(), 1, "the job still waits")
}
