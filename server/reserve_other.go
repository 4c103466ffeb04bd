//go:build !linux

package server

import (
	"net"
	"strconv"
)

// reservation is an address that was free when the server began to open. Only on Linux can it be kept from others without
// a listener; with one, clients that connect would wait for a greeting, and their connections would break.
type reservation struct{ addr *net.TCPAddr }

// reserve tries the address; port 0 is a free one.
func reserve(host string, port int) (*reservation, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	return &reservation{addr: l.Addr().(*net.TCPAddr)}, l.Close()
}

func (r *reservation) share() error { return nil }

func (r *reservation) release() {}
