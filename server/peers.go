package server

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/util"
	"go.uber.org/zap"
)

const (
	// watchInterval is how often the sockets of clients are looked at.
	watchInterval = time.Second
	// loginTimeout is how long a client may take to log in, as MySQL's
	// connect_timeout.
	loginTimeout = 10 * time.Second
	// longStatement is how long a statement has to run until its client is looked
	// for.
	longStatement = time.Second
	// unseenLimit is how many looks in a row have to fail for the watch to end.
	unseenLimit = 60
)

// peerWatch does what TiDB does not: it ends connections that do not log in, which
// would keep their file descriptors for ever, and statements whose client is gone,
// which would keep their transaction and what waits for it. An idle connection
// notices by itself.
//
// TiDB keeps its connections to itself, so the sockets of the process are looked at
// instead; where the operating system does not show them nothing is watched.
type peerWatch struct {
	sessions func() map[uint64]*util.ProcessInfo
	// sockets lists those of clients by their peer, and counts those that have none
	// any more.
	sockets func() (listed map[netip.AddrPort]socket, reset int, err error)
	kill    func(connID uint64)
	log     *zap.Logger

	// peers are those that have logged in; if nil, only those that sessions lists.
	peers *loggedIn
	// unseen counts the looks in a row that have failed.
	unseen int
	// unauthenticated are the peers that have not logged in, with the time when they were
	// first seen.
	unauthenticated map[netip.AddrPort]time.Time
}

// socket is the server's end of a connection of a client.
type socket interface {
	// peerGone reports whether the other end is closed.
	peerGone() bool
	// shutDown makes both ends see the end of the connection. It does nothing if
	// the connection is not there any more.
	shutDown()
}

// run watches until ctx ends.
func (w *peerWatch) run(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			w.step(now)
		}
	}
}

// step looks once.
func (w *peerWatch) step(now time.Time) {
	listed := time.Now()
	// The sockets first: a session whose socket is seen here was opened before the
	// list of sessions is made, or has not logged in yet.
	sockets, reset, err := w.sockets()
	if err != nil {
		w.log.Debug("the sockets of clients cannot be seen", zap.Error(err))
		w.unseen++
		if w.unseen == unseenLimit && w.peers != nil {
			w.log.Warn("the sockets of clients cannot be seen: clients that are lost are not noticed any more", zap.Error(err))
			w.peers.leaveUnwatched()
		}
		return
	}
	if w.unseen >= unseenLimit {
		return // which peers have logged in is no longer known
	}
	w.unseen = 0
	sessions := w.sessions()
	unauthenticated := make(map[netip.AddrPort]time.Time)
	known := make(map[netip.AddrPort]bool, len(sessions))
	for id, info := range sessions {
		peer, ok := peerOf(info)
		if !ok {
			if peer, ok = w.peers.of(id); !ok {
				continue
			}
		}
		known[peer] = true
		s := sockets[peer]
		// A statement that runs long has begun before the sockets were listed. Without a
		// socket it is one of those that were reset.
		gone := s == nil && reset > 0 || s != nil && s.peerGone()
		if gone && runsLong(info, now) {
			w.log.Info("client is gone, its statement is ended", zap.Uint64("conn", id), zap.Stringer("client", peer))
			w.kill(id)
		}
	}
	for peer, s := range sockets {
		if known[peer] || w.peers.has(peer) {
			continue
		}
		since, seen := w.unauthenticated[peer]
		if !seen {
			since = now
		}
		if now.Sub(since) < loginTimeout {
			unauthenticated[peer] = since
			continue
		}
		w.log.Info("client did not log in, its connection is ended", zap.Stringer("client", peer))
		s.shutDown()
	}
	w.unauthenticated = unauthenticated
	// A session whose socket was reset is still to be ended, when its statement has run for long enough.
	w.peers.forget(listed, func(peer netip.AddrPort) bool { return sockets[peer] != nil || known[peer] })
}

// loggedIn are the peers that have logged in. A session that COM_RESET_CONNECTION has
// made anew does not know its client's address, but keeps the connection's ID.
type loggedIn struct {
	mu    sync.Mutex
	peers map[netip.AddrPort]login
	conns map[uint64]netip.AddrPort
	// unwatched says that there is no watch, which would forget them.
	unwatched bool
}

// login is when a peer has logged in, and on which connection.
type login struct {
	at   time.Time
	conn uint64
}

func (l *loggedIn) add(peer netip.AddrPort, conn uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unwatched {
		return
	}
	if l.peers == nil {
		l.peers, l.conns = make(map[netip.AddrPort]login), make(map[uint64]netip.AddrPort)
	}
	l.remove(peer)
	l.peers[peer] = login{time.Now(), conn}
	l.conns[conn] = peer
}

// remove forgets a peer. The caller holds mu.
func (l *loggedIn) remove(peer netip.AddrPort) {
	if conn := l.peers[peer].conn; l.conns[conn] == peer {
		delete(l.conns, conn)
	}
	delete(l.peers, peer)
}

// of is the peer of a connection.
func (l *loggedIn) of(conn uint64) (netip.AddrPort, bool) {
	if l == nil {
		return netip.AddrPort{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	peer, ok := l.conns[conn]
	return peer, ok
}

// leaveUnwatched forgets all peers, those to come as well.
func (l *loggedIn) leaveUnwatched() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers, l.conns, l.unwatched = nil, nil, true
}

func (l *loggedIn) has(peer netip.AddrPort) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.peers[peer]
	return ok
}

// forget forgets the peers that have logged in before a time and are not there any more.
func (l *loggedIn) forget(before time.Time, there func(netip.AddrPort) bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for peer, login := range l.peers {
		if login.at.Before(before) && !there(peer) {
			l.remove(peer)
		}
	}
}

// peerOf is the address that a session's client has.
func peerOf(info *util.ProcessInfo) (netip.AddrPort, bool) {
	port, err := strconv.ParseUint(info.Port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, false
	}
	addr, err := netip.ParseAddr(info.Host)
	return netip.AddrPortFrom(addr.Unmap().WithZone(""), uint16(port)), err == nil // sockets are listed without zones
}

// runsLong reports whether a session executes a statement that a lost client would
// leave running. DDL jobs outlive their clients, as in TiDB, so statements that may
// wait for one are left out.
func runsLong(info *util.ProcessInfo, now time.Time) bool {
	return info.Command != mysql.ComSleep && now.Sub(info.Time) >= longStatement && !mayRunDDL(info.Info)
}

// mayRunDDL reports whether a statement may wait for a DDL job, by its first word:
// everything but the statements that read and write rows.
func mayRunDDL(query string) bool {
	for _, verb := range []string{"select", "insert", "update", "delete", "replace", "with", "table", "values", "load", "commit"} {
		if len(query) >= len(verb) && strings.EqualFold(query[:len(verb)], verb) {
			return false
		}
	}
	return true
}

// SetPort shows a session in the process list as soon as its client has logged
// in, and not only after its first statement.
//
// TiDB's server calls it then (pkg/server/conn.go,
// openSessionAndDoAuth).
func (s *guardedSession) SetPort(port string) {
	s.Session.SetPort(port)
	s.SetProcessInfo("", time.Now(), mysql.ComSleep, 0)
	if info := s.ShowProcess(); info != nil {
		if peer, ok := peerOf(info); ok {
			s.guard.peers.add(peer, info.ID)
		}
	}
}

// watchPeers starts the watch over clients at a listener's address.
func (s *Server) watchPeers(proxied bool) {
	port := uint16(s.addr.(*net.TCPAddr).Port)
	if proxied || !socketsAreSeen {
		// What a session has for an address behind a proxy is that of the proxy's client.
		s.node.driver.peers.leaveUnwatched()
		return
	}
	w := &peerWatch{
		sessions: s.tidb.ShowProcessList,
		sockets:  func() (map[netip.AddrPort]socket, int, error) { return clientSockets(port) },
		kill:     func(id uint64) { s.tidb.Kill(id, false, false, false) },
		log:      s.log.Logger,
		peers:    &s.node.driver.peers,
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				w.peers.leaveUnwatched()
				w.log.Error("the watch over clients has ended", zap.Any("panic", r), zap.Stack("stack"))
			}
		}()
		w.run(ctx)
	}()
	s.parts.add(func() error {
		cancel()
		<-done
		return nil
	})
}
