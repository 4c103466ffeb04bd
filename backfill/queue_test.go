package backfill

import (
	"context"
	"sync"
	"testing"
	"time"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/keyrange"
	"fastddl/kv"
)

// TestQueueLosesNothing lets many workers take, split, give back and end, while
// the limit changes, and checks that everything is done exactly once.
func TestQueueLosesNothing(t *testing.T) {
	r := backfilltest.Rand(t)
	for range backfilltest.Rounds(20) {
		const rows = 10_000
		whole := kv.KeyRange{Start: encodeHandle(0), End: encodeHandle(rows)}
		q := newQueue(keyrange.Split(keyrange.Weighted{KeyRange: whole, Weight: rows}, 1+r.IntN(5)), 3)
		done := make([]int, rows)
		var mu sync.Mutex
		var wg sync.WaitGroup
		worker := func() {
			defer wg.Done()
			for {
				c, ok := q.take(context.Background())
				if !ok {
					return
				}
				at, end := decodeHandle(t, c.task.Start), decodeHandle(t, c.task.End)
				for batch := 0; ; batch++ {
					if at >= end {
						q.release(c)
						break
					}
					mu.Lock()
					for range min(10, end-at) {
						done[at]++
						at++
					}
					mu.Unlock()
					rest := keyrange.Weighted{KeyRange: kv.KeyRange{Start: encodeHandle(at), End: encodeHandle(end)}, Weight: float64(end - at)}
					if v := q.decide(); v == yield && at < end {
						q.release(c, rest)
						break
					} else if v == share && at < end {
						q.release(c, keyrange.Split(rest, 2)...)
						break
					}
				}
			}
		}
		start := func(n int) {
			wg.Add(n)
			for range n {
				go worker()
			}
		}
		start(3)
		for range 50 {
			q.setLimit(1+r.IntN(8), start)
			time.Sleep(time.Duration(r.IntN(50)) * time.Microsecond)
		}
		wg.Wait()
		require.Empty(t, q.remaining())
		q.setLimit(20, func(int) { t.Error("somebody is started when all is done") })
		for i, n := range done {
			require.Equal(t, 1, n, "row %d", i)
		}
	}
}

// TestWorkersAreStartedBeforeOthersEnd: a build that waits for its workers goes on when the last of
// them has ended, and none begins then.
func TestWorkersAreStartedBeforeOthersEnd(t *testing.T) {
	q := newQueue([]keyrange.Weighted{{}}, 1)
	started := 0
	q.setLimit(3, func(n int) {
		started += n
		require.False(t, q.mu.TryLock(), "a worker may end")
	})
	require.Equal(t, 2, started)
}

func TestQueueStops(t *testing.T) {
	whole := keyrange.Weighted{KeyRange: kv.KeyRange{Start: encodeHandle(0), End: encodeHandle(10)}, Weight: 10}
	q := newQueue([]keyrange.Weighted{whole}, 2)
	c, ok := q.take(context.Background())
	require.True(t, ok)
	require.Equal(t, []keyrange.Weighted{whole}, q.remaining(), "what a worker has is not done")

	waiting := make(chan bool)
	go func() {
		_, ok := q.take(context.Background())
		waiting <- ok
	}()
	q.stop()
	require.False(t, <-waiting)
	require.Equal(t, yield, q.decide())
	rest := keyrange.Weighted{KeyRange: kv.KeyRange{Start: encodeHandle(4), End: encodeHandle(10)}, Weight: 6}
	q.release(c, rest)
	_, ok = q.take(context.Background())
	require.False(t, ok)
	require.Equal(t, []keyrange.Weighted{rest}, q.remaining())
}

func TestQueueEndsWithItsContext(t *testing.T) {
	q := newQueue([]keyrange.Weighted{{}}, 2)
	_, ok := q.take(context.Background())
	require.True(t, ok)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(time.Millisecond, cancel)
	_, ok = q.take(ctx)
	require.False(t, ok)
}

func encodeHandle(h int) []byte {
	return tablecodec.EncodeRowKeyWithHandle(100, tkv.IntHandle(h))
}

func decodeHandle(t *testing.T, key []byte) int {
	h, err := tablecodec.DecodeRowKey(key)
	require.NoError(t, err)
	return int(h.IntValue())
}
