package server

import (
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestServerThatEndsBehindAnOpenListenerHasNotStarted: the system takes connections
// for a listener that does not accept.
func TestServerThatEndsBehindAnOpenListenerHasNotStarted(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	reason := errors.New("the socket's file is a directory")
	ended := make(chan error, 1)
	ended <- reason
	err = awaitListener(l.Addr().String(), ended)
	require.ErrorIs(t, err, errNotListening)
	require.ErrorIs(t, err, reason)
}
