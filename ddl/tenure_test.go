package ddl

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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

// TestDeafMemberLeaves: a node that hears of etcd and not of the store keeps nobody from its
// jobs for longer than it hopes; one that hears of the store stays.
func TestDeafMemberLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &lastingMember{gone: make(chan struct{})}
		d := &DDL{ctx: t.Context()}
		in := d.begin(m)
		stop, result := make(chan struct{}), make(chan error, 1)
		go func() { result <- in.watch(stop) }()
		for range 10 {
			time.Sleep(storePatience / 2)
			require.NoError(t, in.permit())
			in.heard()
		}
		began := time.Now()
		require.ErrorIs(t, <-result, errDeaf)
		require.InDelta(t, storePatience, time.Since(began), float64(2*lookInterval))
		require.ErrorIs(t, in.permit(), errLost)
		require.Error(t, in.ctx.Err())
	})
	synctest.Test(t, func(t *testing.T) {
		m := &lastingMember{gone: make(chan struct{})}
		in := (&DDL{ctx: t.Context()}).begin(m)
		stop, result := make(chan struct{}), make(chan error, 1)
		go func() { result <- in.watch(stop) }()
		close(stop)
		require.NoError(t, <-result)
		require.Error(t, in.ctx.Err())
		require.False(t, m.left.Load(), "that is up to who has stopped it")
	})
}
