package sleep

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.True(t, For(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		require.False(t, For(ctx, time.Minute), "ctx ends first")
		require.Equal(t, time.Second, time.Since(start))
		require.False(t, For(ctx, 0), "ctx has ended")
		require.True(t, For(t.Context(), 0))
	})
}

func TestUnless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(wake) })
		start := time.Now()
		require.True(t, Unless(t.Context(), time.Minute, wake))
		require.Equal(t, time.Second, time.Since(start))
	})
}
