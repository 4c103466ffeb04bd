//go:build !linux

package server

import (
	"errors"
	"net/netip"
)

// socketsAreSeen says that clientSockets works on this system.
const socketsAreSeen = false

// clientSockets is not known on this operating system.
func clientSockets(uint16) (map[netip.AddrPort]socket, int, error) {
	return nil, 0, errors.New("unsupported operating system")
}
