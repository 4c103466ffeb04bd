package ddl

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestCloseWaits: what goes on beside the jobs has ended when Close returns, and nothing begins
// afterwards.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(DDL)
		d.ctx, d.cancel = context.WithCancelCause(t.Context())
		ending, ended := make(chan struct{}), false
		require.True(t, d.inside(func() {
			<-d.ctx.Done()
			<-ending
			ended = true
		}))
		var closed atomic.Bool
		go func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			closed.Store(true)
		}()
		synctest.Wait()
		require.False(t, closed.Load(), "Close does not wait")
		close(ending)
		synctest.Wait()
		require.True(t, closed.Load())
		require.True(t, ended)
		require.False(t, d.inside(func() { t.Error("begun after Close") }))
	})
}
