package dist

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/ddl/records"
)

// lastingMember is a member whose lease lasts until it leaves.
type lastingMember struct {
	left atomic.Bool
	gone chan struct{}
}

func (m *lastingMember) Name() string          { return "node" }
func (m *lastingMember) Alive() bool           { return !m.left.Load() }
func (m *lastingMember) Gone() <-chan struct{} { return m.gone }
func (m *lastingMember) Leave(context.Context) error {
	m.left.Store(true)
	return nil
}

// TestDeafMemberLeaves: a node that etcd answers and the store does not keeps its jobs from others
// for storeTimeout only; one that the store answers stays.
func TestDeafMemberLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &lastingMember{gone: make(chan struct{})}
		l := NewNode(Options{Ctx: t.Context()}).Begin(m)
		stop, result := make(chan struct{}), make(chan error, 1)
		go func() { result <- l.watch(stop) }()
		for range 10 {
			time.Sleep(storeTimeout / 2)
			require.NoError(t, l.Permit())
			l.Renew()
		}
		began := time.Now()
		require.ErrorIs(t, <-result, errLeaseExpired)
		require.InDelta(t, storeTimeout, time.Since(began), float64(2*pollInterval))
		require.ErrorIs(t, l.Permit(), records.ErrLost)
		require.Error(t, l.Ctx.Err())
	})
	synctest.Test(t, func(t *testing.T) {
		m := &lastingMember{gone: make(chan struct{})}
		l := NewNode(Options{Ctx: t.Context()}).Begin(m)
		stop, result := make(chan struct{}), make(chan error, 1)
		go func() { result <- l.watch(stop) }()
		close(stop)
		require.NoError(t, <-result)
		require.Error(t, l.Ctx.Err())
		require.False(t, m.left.Load(), "that is up to who has stopped it")
	})
}
