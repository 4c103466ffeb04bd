package server

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// fdSocket is a socket by its file descriptor. The descriptor belongs to TiDB's
// connection: it may be closed, and reused for another file, at any time.
type fdSocket struct {
	fd   int
	peer netip.AddrPort
}

// socketsAreSeen says that clientSockets works on this system.
const socketsAreSeen = true

// clientSockets lists the connections of the process that were accepted at a port,
// and counts those that were reset: they have no peer any more.
func clientSockets(port uint16) (found map[netip.AddrPort]socket, reset int, err error) {
	const dir = "/proc/self/fd"
	f, err := os.Open(dir)
	if err != nil {
		return nil, 0, fmt.Errorf("list the file descriptors: %w", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, 0, fmt.Errorf("list the file descriptors: %w", err)
	}
	found = make(map[netip.AddrPort]socket)
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		// It fails for what is no socket.
		local, err := unix.Getsockname(fd)
		if err != nil || addrPort(local).Port() != port {
			continue
		}
		if peer, ok := peerAddr(fd); ok {
			found[peer] = fdSocket{fd: fd, peer: peer}
		} else if listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err == nil && listening == 0 {
			reset++
		}
	}
	return found, reset, nil
}

func peerAddr(fd int) (netip.AddrPort, bool) {
	remote, err := unix.Getpeername(fd)
	if err != nil {
		return netip.AddrPort{}, false
	}
	peer := addrPort(remote)
	return peer, peer.IsValid()
}

// addrPort converts an address; those that are not of TCP are invalid.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// peerGone implements socket. A connection that was reset has no peer any more.
func (s fdSocket) peerGone() bool {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(fds, 0)
	gone := err == nil && n > 0 && fds[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	if !gone {
		return false
	}
	peer, ok := peerAddr(s.fd)
	return !ok || peer == s.peer
}

// shutDown implements socket.
func (s fdSocket) shutDown() {
	if peer, ok := peerAddr(s.fd); ok && peer == s.peer {
		_ = unix.Shutdown(s.fd, unix.SHUT_RDWR) // it may have ended meanwhile
	}
}
