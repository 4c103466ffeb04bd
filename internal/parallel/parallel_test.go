package parallel_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/parallel"
)

func TestParallelRunsEachItemOnceWithinTheLimit(t *testing.T) {
	for _, n := range []int{0, 1, 2, 100} {
		for _, limit := range []int{0, 1, 3, 200} {
			done := make([]atomic.Int32, n)
			var running, peak atomic.Int32
			err := parallel.Do(context.Background(), n, func() int { return limit }, func(_ context.Context, i int) error {
				now := running.Add(1)
				for p := peak.Load(); now > p && !peak.CompareAndSwap(p, now); p = peak.Load() {
				}
				done[i].Add(1)
				time.Sleep(50 * time.Microsecond)
				running.Add(-1)
				return nil
			})
			require.NoError(t, err)
			for i := range done {
				require.EqualValues(t, 1, done[i].Load())
			}
			require.LessOrEqual(t, int(peak.Load()), max(1, limit))
		}
	}
}

func TestParallelFollowsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit, running atomic.Int32
		limit.Store(1)
		err := parallel.Do(t.Context(), 60, func() int { return int(limit.Load()) }, func(_ context.Context, i int) error {
			running.Add(1)
			defer running.Add(-1)
			switch i {
			case 10:
				limit.Store(8)
			case 25:
				synctest.Wait() // the others are in their items
				require.Greater(t, running.Load(), int32(1))
			case 40:
				limit.Store(1)
			}
			time.Sleep(2 * time.Millisecond)
			if i < 10 || i > 55 {
				require.EqualValues(t, 1, running.Load(), "item %d", i)
			}
			return nil
		})
		require.NoError(t, err)
	})
}

func TestParallelCancelsOnFirstError(t *testing.T) {
	failed := errors.New("failed")
	var calls atomic.Int32
	err := parallel.Do(context.Background(), 1000, func() int { return 4 }, func(ctx context.Context, i int) error {
		calls.Add(1)
		if i == 5 {
			return failed
		}
		if i > 5 {
			<-ctx.Done()
		}
		return nil
	})
	require.ErrorIs(t, err, failed)
	require.Less(t, calls.Load(), int32(20))
}

func TestParallelEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	err := parallel.Do(ctx, 10, func() int { return 1 }, func(context.Context, int) error {
		calls++
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, calls)
}
