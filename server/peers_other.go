//go:build !linux

package server

import (
	"errors"
	"net/netip"
)

// clientSockets is not known on this operating system.
func clientSockets(uint16) (map[netip.AddrPort]socket, error) {
	return nil, errors.New("unsupported operating system")
}
