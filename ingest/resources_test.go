package ingest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/config"
	"fastddl/internal/randtest"
	"fastddl/kv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func set(t testing.TB, g *config.Globals, name, value string) {
	_, _, err := g.Set(name, value)
	require.NoError(t, err)
}

// join opens a share that the test ends.
func join(t testing.TB, r *Resources, opts ShareOptions) *Share {
	t.Helper()
	s, err := r.Join(context.Background(), opts)
	require.NoError(t, err)
	return s
}

func weighted(weight int64) *LiveSettings {
	l := new(LiveSettings)
	l.Set(Settings{Weight: weight})
	return l
}

func TestDivide(t *testing.T) {
	const many = int64(1) << 50
	for _, c := range []struct {
		total  int64
		claims []claim
		want   []int64
	}{
		{8, nil, []int64{}},
		{8, []claim{{1, 1, many}}, []int64{8}},
		{8, []claim{{1, 1, 3}}, []int64{3}},
		{7, []claim{{1, 0, many}, {2, 0, many}, {4, 0, many}}, []int64{1, 2, 4}},
		{8, []claim{{1, 1, many}, {1, 1, many}}, []int64{4, 4}},
		{9, []claim{{1, 1, many}, {1, 1, many}}, []int64{5, 4}},
		{8, []claim{{1, 1, 4}, {4, 1, 4}}, []int64{4, 4}},
		{10, []claim{{1, 1, many}, {1, 1, many}, {1, 1, 2}}, []int64{4, 4, 2}},
		{2, []claim{{1, 1, many}, {4, 1, many}, {2, 1, many}}, []int64{1, 1, 1}},
	} {
		require.Equal(t, c.want, divide(c.total, c.claims), "%d between %v", c.total, c.claims)
	}
}

// TestWeightsDivide: for any claims, divide hands out the whole total within the
// bounds. Parts strictly between their bounds are proportional to their weights.
func TestWeightsDivide(t *testing.T) {
	rng := randtest.Rand(t)
	for range 3000 {
		total := rng.Int64N(1 << (1 + rng.IntN(40)))
		claims := make([]claim, 1+rng.IntN(60))
		var least, most int64
		for i := range claims {
			c := &claims[i]
			c.weight = int64(1) << rng.IntN(3)
			c.least = rng.Int64N(1 + total/int64(len(claims)))
			c.most = c.least + rng.Int64N(1+total)
			least += c.least
			most += c.most
		}
		parts := divide(total, claims)
		var sum int64
		lowest, highest := 1e18, 0.0
		for i, c := range claims {
			require.GreaterOrEqual(t, parts[i], c.least)
			require.LessOrEqual(t, parts[i], c.most)
			sum += parts[i]
			worth := float64(parts[i]) / float64(c.weight)
			if parts[i] < c.most {
				lowest = min(lowest, worth) // wants more, so no other claim may have more per weight
			}
			if parts[i] > c.least {
				highest = max(highest, worth)
			}
		}
		require.Equal(t, max(least, min(most, total)), sum)
		// Whole units make a difference of one for each of the two.
		require.LessOrEqual(t, highest, lowest+2, "a claim has more per weight than one that wants more")
	}
}

func TestMemoryIsDivided(t *testing.T) {
	g := config.NewGlobals()
	r := NewResources(g, 2)
	one := join(t, r, ShareOptions{})
	require.Positive(t, one.memoryLimit(), "the default is a part of the machine")

	set(t, g, config.MemoryQuota, "100000000")
	require.EqualValues(t, 70_000_000, one.memoryLimit())
	two := join(t, r, ShareOptions{Settings: weighted(4)})
	require.EqualValues(t, 14_000_000, one.memoryLimit())
	require.EqualValues(t, 56_000_000, two.memoryLimit())
	set(t, g, config.MemoryQuota, "200000000")
	require.EqualValues(t, 28_000_000, one.memoryLimit())
	two.opts.Settings.Set(Settings{})
	require.EqualValues(t, 70_000_000, one.memoryLimit())

	one.useMemory(150_000_000)
	require.EqualValues(t, indexMemory, two.memoryLimit(), "others hold more than their part")
	one.useMemory(-50_000_000)
	require.EqualValues(t, 40_000_000, two.memoryLimit())
	two.useMemory(300)
	one.useMemory(-99_999_900)
	require.Equal(t, Usage{Jobs: 2, MemoryBytes: 400, PeakMemoryBytes: 150_000_000}, r.Usage())
	one.Leave()
	two.Leave()
	require.Equal(t, Usage{PeakMemoryBytes: 150_000_000}, r.Usage())
}

func TestJobsWaitForMemory(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.MemoryQuota, "10000000") // for two indexes, and no more
	r := NewResources(g, 2)
	one, two := join(t, r, ShareOptions{JobID: 1}), join(t, r, ShareOptions{JobID: 2})
	joined := make(chan int64, 2)
	for id, weight := range map[int64]int64{3: 1, 4: 4} {
		go func() {
			s, err := r.Join(context.Background(), ShareOptions{JobID: id, Settings: weighted(weight)})
			if err == nil {
				joined <- id
				s.Leave()
			}
		}()
	}
	require.Eventually(t, func() bool { return r.Usage().Jobs == 4 }, time.Minute, time.Millisecond)
	require.Equal(t, "waiting for memory: fastddl_ddl_memory_quota", r.Allocation(3).Wait)
	require.Empty(t, r.Allocation(1).Wait)
	join(t, r, ShareOptions{JobID: 5, ReadOnly: true}).Leave()

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := r.Join(ctx, ShareOptions{JobID: 6})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, joined)

	one.Leave()
	require.EqualValues(t, 4, <-joined, "the weightiest first")
	require.EqualValues(t, 3, <-joined)
	two.Leave()
	require.Eventually(t, func() bool { return r.Usage().Jobs == 0 }, time.Minute, time.Millisecond)
}

// A job that holds what it had when it was alone, because it is slow to write
// it, leaves room for others.
func TestSlowJobLeavesRoom(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.MemoryQuota, "200000000")
	set(t, g, config.DiskQuota, "100000000")
	r := NewResources(g, 2)
	slow := join(t, r, ShareOptions{JobID: 1})
	slow.useMemory(slow.memoryLimit())
	for slow.TryAcquire(1 << 20) {
	}
	require.True(t, slow.tryAcquireRuns(50_000_000))
	for id := range int64(5) {
		s := join(t, r, ShareOptions{JobID: 2 + id})
		defer s.Leave()
		require.GreaterOrEqual(t, s.memoryLimit(), int64(indexMemory))
		s.useMemory(s.memoryLimit())
		require.True(t, s.TryAcquire(1<<20))
	}
	require.LessOrEqual(t, r.Usage().MemoryBytes, int64(200_000_000))
	require.LessOrEqual(t, r.Usage().TempBytes, int64(100_000_000))
	slow.Leave()
}

// TestOnWorkersEnds: cancel returns after a call that is under way has ended.
func TestOnWorkersEnds(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.ReorgWorkerCount, "16")
	r := NewResources(g, 8)
	one := join(t, r, ShareOptions{})
	defer one.Leave()
	calls, entered := 0, make(chan struct{})
	var ended atomic.Bool
	cancel := one.OnWorkers(func() {
		if calls++; calls == 2 {
			close(entered)
			time.Sleep(50 * time.Millisecond) // in which cancel would return if it did not wait
			ended.Store(true)
		}
	})
	go func() { join(t, r, ShareOptions{}).Leave() }()
	<-entered
	cancel()
	require.True(t, ended.Load())
}

func TestWorkersAreDivided(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.ReorgWorkerCount, "16")
	r := NewResources(g, 8)
	low, high := weighted(1), weighted(4)
	one := join(t, r, ShareOptions{Settings: low})
	require.Equal(t, 8, one.Workers(), "alone it has all")
	var told []int
	cancel := one.OnWorkers(func() { told = append(told, one.Workers()) })
	two := join(t, r, ShareOptions{Settings: high})
	require.Equal(t, 2, one.Workers())
	require.Equal(t, 6, two.Workers())

	high.Set(Settings{Weight: 4, Workers: 3})
	require.Equal(t, 5, one.Workers(), "what one does not take is for the other")
	require.Equal(t, 3, two.Workers())
	set(t, g, config.ReorgWorkerCount, "2")
	require.Equal(t, 2, one.Workers())
	require.Equal(t, 3, two.Workers(), "its own number goes before the variable")
	high.Set(Settings{Weight: 4})
	require.Equal(t, 2, two.Workers())

	set(t, g, config.ReorgWorkerCount, "100")
	many := make([]*Share, 20)
	for i := range many {
		many[i] = join(t, r, ShareOptions{})
	}
	require.Equal(t, 1, one.Workers(), "at least one each")
	reading := join(t, r, ShareOptions{ReadOnly: true})
	require.Equal(t, 1, reading.Workers(), "and one that needs no memory")
	reading.Leave()
	for _, s := range many {
		s.Leave()
	}
	cancel()
	two.Leave()
	require.Equal(t, []int{8, 2, 5, 2}, told[:4])
	require.Equal(t, 2, told[len(told)-1], "told last what it had last")
	one.Leave()
}

func TestRunsAndFilesHaveTheirOwnPart(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.DiskQuota, "100000000")
	r := NewResources(g, 2)
	s := join(t, r, ShareOptions{})
	require.False(t, s.tryAcquireRuns(50_000_001))
	require.True(t, s.tryAcquireRuns(50_000_000))
	require.False(t, s.tryAcquireRuns(1))
	require.True(t, s.TryAcquire(1))
	require.True(t, s.TryAcquire(33_749_999), "full runs leave room for files")
	require.False(t, s.TryAcquire(1), "some is for newcomers")
	require.False(t, s.runsExceeded())

	other := join(t, r, ShareOptions{})
	require.True(t, s.runsExceeded(), "the share has halved")
	require.False(t, other.tryAcquireRuns(1), "the pool is full, regardless of the share")
	s.releaseRuns(50_000_000)
	require.False(t, s.runsExceeded())
	require.True(t, other.tryAcquireRuns(25_000_000))
	require.False(t, other.tryAcquireRuns(1))
	require.True(t, s.tryAcquireRuns(25_000_000))
	require.True(t, other.TryAcquire(11_250_000), "a newcomer")
	require.False(t, other.TryAcquire(1))

	s.Release(33_750_000)
	require.EqualValues(t, 61_250_000, r.Usage().TempBytes)
	other.Leave()
	s.Leave()
	require.Zero(t, r.Usage().TempBytes)
	require.EqualValues(t, 95_000_000, r.Usage().PeakTempBytes)
}

// TestJobsKeepToTheRoom: however large the quota is, runs and files fit the disk, with those that
// are there already.
func TestJobsKeepToTheRoom(t *testing.T) {
	r := NewResources(config.NewGlobals(), 2)
	s := join(t, r, ShareOptions{})
	free := func(n uint64) { r.measured(vfs.DiskUsage{AvailBytes: kv.KeepFree(1<<40) + n, TotalBytes: 1 << 40}) }
	free(100_000_000)
	require.False(t, s.tryAcquireRuns(30_000_001))
	require.True(t, s.tryAcquireRuns(30_000_000))
	free(70_000_000)
	require.False(t, s.runsExceeded())
	require.False(t, s.tryAcquireRuns(1))
	require.False(t, s.TryAcquire(45_000_001))
	require.True(t, s.TryAcquire(45_000_000))
	s.Release(45_000_000)

	free(20_000_000)
	require.True(t, s.runsExceeded(), "others have taken the rest")
	s.releaseRuns(30_000_000)
	require.False(t, s.tryAcquireRuns(16_000_000))
	r.measured(vfs.DiskUsage{TotalBytes: 1 << 40})
	require.True(t, s.tryAcquireRuns(minRoom/100*30), "nothing is there, which writing will tell")
	free(1 << 40)
	require.True(t, s.tryAcquireRuns(40<<30))
	require.False(t, s.tryAcquireRuns(10<<30), "the quota")
	s.Leave()
}

// TestRefusalIsRemembered: jobs keep to what they had when the disk was full, for a while.
func TestRefusalIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewResources(config.NewGlobals(), 2)
		full := fmt.Errorf("write: %w", syscall.ENOSPC)
		s := join(t, r, ShareOptions{})
		require.True(t, s.tryAcquireRuns(10_000_000))
		require.True(t, s.refused(full))
		require.True(t, s.tryAcquireRuns(30_000_000), "it was not full of theirs")
		require.True(t, s.TryAcquire(30_000_000))
		require.False(t, s.refused(nil))
		require.False(t, s.refused(syscall.EMFILE))
		require.False(t, s.runsExceeded())
		require.True(t, s.refused(full))
		require.True(t, s.runsExceeded())
		s.Leave()

		s = join(t, r, ShareOptions{})
		require.False(t, s.tryAcquireRuns(21_000_001))
		require.True(t, s.tryAcquireRuns(21_000_000))
		require.True(t, s.refused(syscall.EDQUOT))
		require.True(t, s.runsExceeded(), "there was even less")
		time.Sleep(refusalAge)
		r.rebalance()
		require.True(t, s.tryAcquireRuns(1<<30), "somebody may have made room")
		s.Leave()
	})
}

func TestAJobWithoutFilesMayAlwaysBeginOne(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.DiskQuota, "100000000")
	r := NewResources(g, 2)
	shares := make([]*Share, 50)
	for i := range shares {
		shares[i] = join(t, r, ShareOptions{})
	}
	require.True(t, shares[0].TryAcquire(1<<20), "although the share is below a mebibyte")
	require.False(t, shares[0].TryAcquire(1<<20))
	require.True(t, shares[1].TryAcquire(1<<20))
	for _, s := range shares {
		s.Leave()
	}
	require.Zero(t, r.Usage().TempBytes)
}

func TestAcquireWaitsForRelease(t *testing.T) {
	g := config.NewGlobals()
	set(t, g, config.DiskQuota, "20000000")
	r := NewResources(g, 2)
	one, two := join(t, r, ShareOptions{JobID: 1}), join(t, r, ShareOptions{JobID: 2})
	require.True(t, one.TryAcquire(9_000_000))

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, two.Acquire(ctx, 1_000_000), context.DeadlineExceeded)

	limit := "tidb_ddl_disk_quota"
	acquired := func(then func()) {
		t.Helper()
		var wg sync.WaitGroup
		wg.Go(func() { require.NoError(t, two.Acquire(context.Background(), 1_000_000)) })
		require.Eventually(t, func() bool { return r.Allocation(2).Wait == "waiting for disk: "+limit }, time.Minute, time.Millisecond)
		then()
		wg.Wait()
		require.Empty(t, r.Allocation(2).Wait)
		two.Release(1_000_000)
	}
	acquired(func() { set(t, g, config.DiskQuota, "40000000") })
	set(t, g, config.DiskQuota, "20000000")
	acquired(func() { one.Release(4_000_000) })

	// Where the disk is the limit the reason names the disk, not the quota: raising the quota would change nothing.
	one.Overdraw(2_000_000)
	set(t, g, config.DiskQuota, "40000000")
	disk := vfs.DiskUsage{TotalBytes: 1 << 30}
	r.measured(disk)
	limit = "the temp folder's disk has room for 16 MiB of index builds"
	acquired(func() {
		disk.AvailBytes = 1 << 30
		r.measured(disk)
	})
	one.Leave()
	two.Leave()
}
