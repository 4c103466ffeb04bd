package server

import (
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAServerThatEndsBehindAnOpenListenerHasNotStarted: the system takes connections
// for a listener that nobody accepts from.
func TestAServerThatEndsBehindAnOpenListenerHasNotStarted(t *testing.T) {
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
