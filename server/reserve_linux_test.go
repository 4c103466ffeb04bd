package server

import (
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReservedPortRefusesClientsAndListeners: until it is shared, and from then on no other process can take it.
func TestReservedPortRefusesClientsAndListeners(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "", "::1", "::"} {
		t.Run(host, func(t *testing.T) {
			if host == "::1" {
				l, err := net.Listen("tcp", "[::1]:0")
				if err != nil {
					t.Skip("no IPv6 here")
				}
				require.NoError(t, l.Close())
			}
			r, err := reservePort("host", "port", host, 0)
			require.NoError(t, err)
			defer r.release()
			require.NotZero(t, r.addr.Port)
			addr := net.JoinHostPort(host, strconv.Itoa(r.addr.Port))
			_, err = net.Dial("tcp", addr)
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			_, err = net.Listen("tcp", addr)
			require.ErrorIs(t, err, syscall.EADDRINUSE)
			_, err = reservePort("host", "port", host, r.addr.Port)
			require.ErrorIs(t, err, syscall.EADDRINUSE)
			require.ErrorContains(t, err, "port: ")

			require.NoError(t, r.share())
			l, err := net.Listen("tcp", addr)
			require.NoError(t, err)
			defer l.Close()
			r.release()
			conn, err := net.Dial("tcp", addr)
			require.NoError(t, err)
			require.NoError(t, conn.Close())
			_, err = reservePort("host", "port", host, r.addr.Port)
			require.ErrorIs(t, err, syscall.EADDRINUSE, "somebody listens")
		})
	}
}

// TestLingeringConnectionDoesNotBlockThePort: a server that is started again takes its port although connections of the one before linger.
func TestLingeringConnectionDoesNotBlockThePort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	accepted, err := l.Accept()
	require.NoError(t, err)
	require.NoError(t, accepted.Close()) // this end is the one that lingers
	require.NoError(t, conn.Close())
	require.NoError(t, l.Close())
	r, err := reservePort("host", "port", "127.0.0.1", l.Addr().(*net.TCPAddr).Port)
	require.NoError(t, err)
	r.release()
	r.release()
}

func TestAddressOfAnotherMachineNamesTheHostSetting(t *testing.T) {
	_, err := reservePort("host", "port", "203.0.113.1", 0)
	require.ErrorContains(t, err, "host: ")
	require.ErrorIs(t, err, syscall.EADDRNOTAVAIL)
}
