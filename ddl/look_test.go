package ddl

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Each look has its own time: one that took all of it leaves as much for the next.
func TestEachLookHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := look(t.Context(), func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		n, err := look(t.Context(), func(ctx context.Context) (int, error) {
			time.Sleep(lookPatience / 2)
			return 7, ctx.Err()
		})
		require.NoError(t, err)
		require.Equal(t, 7, n)
	})
}
