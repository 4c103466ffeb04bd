package server

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShutdownWithIdleClients: they are ended while others look at the list of clients, as TiDB does all the time, and
// the process goes on.
func TestShutdownWithIdleClients(t *testing.T) {
	s := start(t, testConfig(t.TempDir()))
	db := connect(t, s)
	var idle []*sql.Conn
	for range 50 {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		require.NoError(t, conn.PingContext(t.Context()))
		idle = append(idle, conn)
	}
	clients := s.node.Domain().InfoSyncer().GetSessionManager()
	ctx, cancel := context.WithCancel(t.Context())
	var looks sync.WaitGroup
	for range 2 {
		looks.Go(func() {
			for ctx.Err() == nil {
				clients.ShowProcessList()
			}
		})
	}
	shutdown(t, s)
	cancel()
	looks.Wait()
	require.Empty(t, clients.ShowProcessList())
	for _, conn := range idle {
		require.Error(t, conn.PingContext(t.Context()))
	}
}
