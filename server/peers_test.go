package server

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

type fakeSocket struct{ gone, down bool }

func (s *fakeSocket) peerGone() bool { return s.gone }
func (s *fakeSocket) shutDown()      { s.down = true }

func TestPeerWatch(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	peer := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), port) }
	session := func(port, info string, command byte) *util.ProcessInfo {
		return &util.ProcessInfo{Host: "10.0.0.1", Port: port, Info: info, Command: command, Time: begin}
	}
	sockets := map[netip.AddrPort]socket{}
	for port := uint16(1); port <= 6; port++ {
		sockets[peer(port)] = &fakeSocket{gone: port > 1}
	}
	var killed []uint64
	reset, seen := 0, errors.New("no sockets")
	w := &peerWatch{
		sessions: func() map[uint64]*util.ProcessInfo {
			return map[uint64]*util.ProcessInfo{
				11: session("1", "SELECT 1", mysql.ComQuery), // its client is there
				12: session("2", "SELECT 2", mysql.ComQuery),
				13: session("3", "ALTER TABLE t ADD INDEX (a)", mysql.ComQuery), // jobs outlive their clients
				14: session("4", "", mysql.ComSleep),                            // it notices by itself
				15: session("7", "SELECT 1", mysql.ComQuery),                    // its socket is closed already
				16: session("", "SELECT 1", mysql.ComQuery),                     // on a Unix socket
			}
		},
		sockets: func() (map[netip.AddrPort]socket, int, error) { return sockets, reset, seen },
		kill:    func(id uint64) { killed = append(killed, id) },
		log:     zap.NewNop(),
	}
	zoned := session("5", "", mysql.ComSleep)
	zoned.Host = "fe80::1%lo"
	at, ok := peerOf(zoned)
	require.True(t, ok)
	require.Equal(t, netip.MustParseAddrPort("[fe80::1]:5"), at, "as sockets are listed")
	w.step(begin)
	seen = nil
	w.step(begin.Add(longStatement / 2))
	require.Empty(t, killed, "a statement may end by itself")
	w.step(begin.Add(longStatement))
	require.Equal(t, []uint64{12}, killed)
	killed, reset = nil, 1
	w.step(begin.Add(longStatement))
	require.ElementsMatch(t, []uint64{12, 15}, killed, "15 is the one whose connection was reset")
	reset = 0

	down := func() (ports []uint16) {
		for p, s := range sockets {
			if s.(*fakeSocket).down {
				ports = append(ports, p.Port())
			}
		}
		return ports
	}
	delete(sockets, peer(6))
	w.step(begin.Add(longStatement + time.Millisecond)) // 6 is gone
	sockets[peer(6)] = &fakeSocket{}
	w.step(begin.Add(2 * longStatement)) // it has come again
	require.Empty(t, down())
	w.step(begin.Add(longStatement/2 + loginTimeout))
	require.Equal(t, []uint16{5}, down(), "it had its time; 6 has still some")
}

func skipWithoutSockets(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the sockets of clients are seen on Linux only")
	}
}

func TestClientSockets(t *testing.T) {
	skipWithoutSockets(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	accepted, err := l.Accept()
	require.NoError(t, err)
	defer accepted.Close()

	sockets, reset, err := clientSockets(uint16(portOf(l)))
	require.NoError(t, err)
	require.Zero(t, reset)
	require.Len(t, sockets, 1, "neither the listener nor the client's end")
	peer := client.LocalAddr().(*net.TCPAddr).AddrPort()
	s := sockets[peer]
	require.NotNil(t, s)
	require.False(t, s.peerGone())
	s.shutDown()
	_, err = accepted.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)

	require.NoError(t, client.(*net.TCPConn).SetLinger(0))
	require.NoError(t, client.Close())
	require.Eventually(t, s.peerGone, hangTimeout, time.Millisecond)
	sockets, reset, err = clientSockets(uint16(portOf(l)))
	require.NoError(t, err)
	require.Empty(t, sockets)
	require.Equal(t, 1, reset)
}

// TestLostClientsEndTheirStatements: with a real server, and shows that a session is
// known before its first statement.
func TestLostClientsEndTheirStatements(t *testing.T) {
	skipWithoutSockets(t)
	s := start(t, testConfig(t.TempDir()))
	db := connect(t, s)
	var socket net.Conn
	cfg := clientConfig(s)
	cfg.DialFunc = func(_ context.Context, network, addr string) (_ net.Conn, err error) {
		socket, err = net.Dial(network, addr)
		return socket, err
	}
	connector, err := driver.NewConnector(cfg)
	require.NoError(t, err)
	lost := sql.OpenDB(connector)
	defer lost.Close()
	conn, err := lost.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	sessions := func() (n int) {
		require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM information_schema.processlist").Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return sessions() == 2 }, hangTimeout, time.Millisecond)

	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = conn.ExecContext(context.Background(), "SELECT SLEEP(1000)") // its connection breaks
	}()
	require.Eventually(t, func() bool { return executing(t, db, "SELECT SLEEP(1000)") }, hangTimeout, time.Millisecond)
	require.NoError(t, socket.Close())
	<-done
	require.Eventually(t, func() bool { return sessions() == 1 }, hangTimeout, 10*time.Millisecond)
}

// TestPeersThatHaveLoggedIn: a client that has logged in stays authenticated while its socket is there, though a
// session that was reset has no client's address.
func TestPeersThatHaveLoggedIn(t *testing.T) {
	begin := time.Now()
	peer := netip.MustParseAddrPort("10.0.0.1:5")
	socketOf := &fakeSocket{}
	sockets := map[netip.AddrPort]socket{peer: socketOf}
	w := &peerWatch{
		sessions: func() map[uint64]*util.ProcessInfo { return nil },
		sockets:  func() (map[netip.AddrPort]socket, int, error) { return sockets, 0, nil },
		log:      zap.NewNop(), peers: new(loggedIn),
	}
	w.peers.add(peer, 7)
	w.step(begin)
	w.step(begin.Add(2 * loginTimeout))
	require.False(t, socketOf.down)
	delete(sockets, peer)
	w.step(begin.Add(3 * loginTimeout))
	require.False(t, w.peers.has(peer))
	_, known := w.peers.of(7)
	require.False(t, known)
	sockets[peer] = socketOf // another client of that address
	w.step(begin.Add(4 * loginTimeout))
	w.step(begin.Add(5 * loginTimeout))
	require.True(t, socketOf.down)
}

// TestResetClientsAreLostToo: the session that a reset has left has no client's port.
func TestResetClientsAreLostToo(t *testing.T) {
	begin := time.Now()
	peer := netip.MustParseAddrPort("10.0.0.1:5")
	var killed []uint64
	w := &peerWatch{
		sessions: func() map[uint64]*util.ProcessInfo {
			return map[uint64]*util.ProcessInfo{7: {ID: 7, Host: "10.0.0.1", Info: "SELECT 1", Command: mysql.ComQuery, Time: begin}}
		},
		sockets: func() (map[netip.AddrPort]socket, int, error) { return nil, 1, nil }, // it was reset
		kill:    func(id uint64) { killed = append(killed, id) },
		log:     zap.NewNop(), peers: new(loggedIn),
	}
	w.peers.add(peer, 7)
	w.step(begin.Add(longStatement / 2))
	require.Empty(t, killed)
	w.step(begin.Add(longStatement))
	require.Equal(t, []uint64{7}, killed)
	w.sockets = func() (map[netip.AddrPort]socket, int, error) { return nil, 0, errors.New("no sockets") }
	for range unseenLimit - 1 {
		w.step(begin)
	}
	require.True(t, w.peers.has(peer))
	w.step(begin)
	w.peers.add(peer, 8)
	require.False(t, w.peers.has(peer), "there is no watch, which would forget it")
}

// command sends a command of the protocol and returns the first packet of the answer.
func command(t *testing.T, conn net.Conn, payload ...byte) []byte {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(hangTimeout)))
	_, err := conn.Write(append([]byte{byte(len(payload)), byte(len(payload) >> 8), 0, 0}, payload...))
	require.NoError(t, err)
	header := make([]byte, 4)
	_, err = io.ReadFull(conn, header)
	require.NoError(t, err)
	answer := make([]byte, int(header[0])|int(header[1])<<8)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	return answer
}

// rawClient logs a user in and returns the socket, on which the driver does nothing by itself.
func rawClient(t *testing.T, s *Server, user string) net.Conn {
	t.Helper()
	var socket net.Conn
	cfg := clientConfig(s)
	cfg.User = user
	cfg.DialFunc = func(_ context.Context, network, addr string) (_ net.Conn, err error) {
		socket, err = net.Dial(network, addr)
		return socket, err
	}
	connector, err := driver.NewConnector(cfg)
	require.NoError(t, err)
	conn, err := connector.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return socket
}

// TestConnectionWithoutUserEnds: a connection on which another user was refused has no user. It can do nothing, and ends.
// TiDB keeps it, with a session that may do everything.
func TestConnectionWithoutUserEnds(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	db := connect(t, s)
	exec(t, db, "CREATE USER u", "GRANT SELECT ON test.* TO u", "CREATE DATABASE app",
		"CREATE TABLE app.secrets (card VARCHAR(20), PRIMARY KEY (card))", "INSERT INTO app.secrets VALUES ('4111')")
	change := append([]byte{mysql.ComChangeUser}, "nobody\x00"...)
	change = append(append(change, 20), make([]byte, 20)...)
	change = append(change, "test\x00\x21\x00mysql_native_password\x00"...)
	after := [][]byte{
		append([]byte{mysql.ComStmtPrepare}, "SELECT * FROM mysql.user"...), append([]byte{mysql.ComFieldList}, "t\x00"...),
		append([]byte{mysql.ComInitDB}, "mysql"...), {mysql.ComResetConnection},
	}
	for _, query := range []string{
		"CREATE USER evil", "GRANT ALL ON *.* TO u", "SELECT * FROM mysql.user", "SET GLOBAL max_connections = 5", "PREPARE p FROM 'SELECT 1'", "DO 1",
		"BATCH ON app.secrets.card LIMIT 1 DRY RUN DELETE FROM app.secrets", "DO 1; DO 2",
	} {
		after = append(after, append([]byte{mysql.ComQuery}, query...))
	}
	for _, packet := range after {
		conn := rawClient(t, s, "u")
		require.Equal(t, []byte{0xff, 0x15, 0x04}, command(t, conn, change...)[:3]) // 1045
		// What is sent before the end is refused; the end itself is no answer.
		answers := answersUntilEnd(t, conn, packet)
		for _, answer := range answers {
			require.Equal(t, byte(0xff), answer[0], "%q: %q", packet, answers)
			require.NotContains(t, string(answer), "4111")
		}
	}
	var n int
	require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM mysql.user WHERE user = 'evil'").Scan(&n))
	require.Zero(t, n)
}

// answersUntilEnd sends a command and returns the packets that the server sends until it ends the connection.
func answersUntilEnd(t *testing.T, conn net.Conn, payload []byte) (answers [][]byte) {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(hangTimeout)))
	if _, err := conn.Write(append([]byte{byte(len(payload)), byte(len(payload) >> 8), 0, 0}, payload...)); err != nil {
		return nil // it has ended
	}
	for {
		header := make([]byte, 4)
		if _, err := io.ReadFull(conn, header); err != nil {
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection does not end")
			return answers
		}
		answer := make([]byte, int(header[0])|int(header[1])<<8)
		if _, err := io.ReadFull(conn, answer); err != nil {
			return answers
		}
		answers = append(answers, answer)
	}
}

// TestResetConnection: a session that was reset goes on, and its client stays known.
func TestResetConnection(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	conn := rawClient(t, s, "root")
	peer := netip.MustParseAddrPort(conn.LocalAddr().String())
	require.True(t, s.node.driver.peers.has(peer))
	require.Zero(t, command(t, conn, mysql.ComResetConnection)[0])
	require.Zero(t, command(t, conn, append([]byte{mysql.ComQuery}, "DO 1"...)...)[0])
	require.True(t, s.node.driver.peers.has(peer))
	sessions := s.tidb.ShowProcessList()
	require.Len(t, sessions, 1)
	for id, info := range sessions {
		require.Empty(t, info.Port)
		of, known := s.node.driver.peers.of(id)
		require.True(t, known, "the reset has kept the connection's ID")
		require.Equal(t, peer, of)
	}
}
