package ingest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/config"
	"fastddl/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func set(t testing.TB, g *config.Globals, name, value string) {
	_, _, err := g.Set(name, value)
	require.NoError(t, err)
}

func TestMemoryIsSharedBetweenJobs(t *testing.T) {
	g := config.NewGlobals()
	r := NewResources(g)
	one := r.join()
	require.Positive(t, one.memoryLimit(), "the default is a part of the machine")

	set(t, g, config.MemoryQuota, "1000000")
	require.EqualValues(t, 800_000, one.memoryLimit())
	two := r.join()
	require.EqualValues(t, 400_000, one.memoryLimit())
	set(t, g, config.MemoryQuota, "2000000")
	require.EqualValues(t, 800_000, two.memoryLimit())

	one.useMemory(500)
	two.useMemory(300)
	one.useMemory(-400)
	require.Equal(t, Usage{Jobs: 2, MemoryBytes: 400, PeakMemoryBytes: 800}, r.Usage())
	one.leave()
	two.leave()
	require.Equal(t, Usage{PeakMemoryBytes: 800}, r.Usage())
}

func TestRunsAndFilesHaveTheirOwnPart(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.DiskQuota, "100000000")
	r := NewResources(g)
	s := r.join()
	require.False(t, s.tryAcquireRuns(50_000_001))
	require.True(t, s.tryAcquireRuns(50_000_000))
	require.False(t, s.tryAcquireRuns(1))
	require.True(t, s.TryAcquire(45_000_000), "full runs leave room for files")
	require.False(t, s.TryAcquire(1))
	require.False(t, s.runsExceeded())

	other := r.join()
	require.True(t, s.runsExceeded(), "the share has halved")
	require.False(t, other.tryAcquireRuns(1), "the pool is full, whatever the share")
	s.releaseRuns(50_000_000)
	require.False(t, s.runsExceeded())
	require.True(t, other.tryAcquireRuns(25_000_000))
	require.False(t, other.tryAcquireRuns(1))
	require.True(t, s.tryAcquireRuns(25_000_000))

	s.Release(45_000_000)
	require.EqualValues(t, 50_000_000, r.Usage().TempBytes)
	other.leave()
	s.leave()
	require.Zero(t, r.Usage().TempBytes)
	require.EqualValues(t, 95_000_000, r.Usage().PeakTempBytes)
}

func TestAJobWithoutFilesMayAlwaysBeginOne(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.DiskQuota, "100000000")
	r := NewResources(g)
	shares := make([]*share, 50)
	for i := range shares {
		shares[i] = r.join()
	}
	require.True(t, shares[0].TryAcquire(1<<20), "although the share is below a mebibyte")
	require.False(t, shares[0].TryAcquire(1<<20))
	require.True(t, shares[1].TryAcquire(1<<20))
	for _, s := range shares {
		s.leave()
	}
	require.Zero(t, r.Usage().TempBytes)
}

func TestAcquireWaitsForRelease(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.DiskQuota, "20000000")
	r := NewResources(g)
	one, two := r.join(), r.join()
	require.True(t, one.TryAcquire(9_000_000))

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, two.Acquire(ctx, 1_000_000), context.DeadlineExceeded)

	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(t, two.Acquire(context.Background(), 1_000_000)) })
	time.Sleep(5 * time.Millisecond)
	one.Release(4_000_000)
	wg.Wait()
	one.leave()
	two.leave()
}

func TestThrottleHoldsTheSpeedAndFollowsTheVariable(t *testing.T) {
	g := config.NewGlobals()
	bus := &event.Bus{}
	var throttled []event.Throttled
	bus.Subscribe(func(e event.Event) { throttled = append(throttled, e.(event.Throttled)) })
	th := newThrottle(g, bus, 5)
	ctx := context.Background()

	start := time.Now()
	require.NoError(t, th.Wait(ctx, 1<<30))
	require.Less(t, time.Since(start), 100*time.Millisecond, "no limit")

	set(t, g, config.ReorgMaxWriteSpeed, "1000000")
	start = time.Now()
	require.NoError(t, th.Wait(ctx, 300_000))
	require.InDelta(t, 0.275, time.Since(start).Seconds(), 0.1)

	// A wait of minutes ends soon after the limit is lifted.
	start = time.Now()
	time.AfterFunc(50*time.Millisecond, func() { _, _, _ = g.Set(config.ReorgMaxWriteSpeed, "0") })
	require.NoError(t, th.Wait(ctx, 100_000_000))
	require.Less(t, time.Since(start), time.Second)

	set(t, g, config.ReorgMaxWriteSpeed, "1000")
	cancelled, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, th.Wait(cancelled, 100_000), context.DeadlineExceeded)

	set(t, g, config.ReorgMaxWriteSpeed, "100000")
	require.NoError(t, th.Wait(ctx, 100_000))
	require.NotEmpty(t, throttled)
	require.Equal(t, config.ReorgMaxWriteSpeed, throttled[0].Reason)
	require.EqualValues(t, 5, throttled[0].JobID())
}
