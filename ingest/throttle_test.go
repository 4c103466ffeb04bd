package ingest

import (
	"context"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/event"
)

func TestThrottleHoldsTheSpeedAndFollowsTheVariable(t *testing.T) {
	g := config.NewGlobals()
	bus := &event.Bus{}
	var throttled []event.Throttled
	bus.Subscribe(func(e event.Event) { throttled = append(throttled, e.(event.Throttled)) })
	r := NewResources(g, 2)
	own := new(LiveSettings)
	s := join(t, r, ShareOptions{JobID: 5, Bus: bus, Settings: own})
	defer s.Leave()
	ctx := context.Background()

	start := time.Now()
	require.NoError(t, s.Wait(ctx, 1<<30))
	require.Less(t, time.Since(start), 10*time.Second, "no limit")
	require.Zero(t, r.Held(5).WriteSpeed)

	for name, limit := range map[string]func(string){
		config.ReorgMaxWriteSpeed: func(v string) { set(t, g, config.ReorgMaxWriteSpeed, v) },
		ownSpeed:                  func(v string) { own.Set(Settings{WriteSpeed: bytesOf(v)}) },
	} {
		limit("1000000")
		start = time.Now()
		require.NoError(t, s.Wait(ctx, 300_000))
		require.Greater(t, time.Since(start), 175*time.Millisecond)
		require.EqualValues(t, 1_000_000, r.Held(5).WriteSpeed)

		// A wait of minutes ends soon after the limit is lifted.
		start = time.Now()
		time.AfterFunc(50*time.Millisecond, func() { limit("0") })
		require.NoError(t, s.Wait(ctx, 100_000_000))
		require.Less(t, time.Since(start), 20*time.Second)

		limit("1")
		cancelled, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		require.ErrorIs(t, s.Wait(cancelled, 100_000), context.DeadlineExceeded)
		cancel()
		require.Equal(t, "throttled: "+name, r.Held(5).Wait)

		limit("100000")
		require.NoError(t, s.Wait(ctx, 100_000))
		require.NotEmpty(t, throttled)
		require.Equal(t, name, throttled[len(throttled)-1].Reason)
		require.EqualValues(t, 5, throttled[0].JobID())
		limit("0")
	}
	require.Eventually(t, func() bool { return r.Held(5).Wait == "" }, 5*time.Second, 10*time.Millisecond)
}

func bytesOf(s string) int64 {
	def, _ := config.LookupSysVar(config.ReorgMaxWriteSpeed)
	text, _, _ := def.Normalize(s)
	n := int64(0)
	for _, c := range text {
		n = 10*n + int64(c-'0')
	}
	return n
}

// writers lets jobs write as fast as they may for a while, and returns what each
// has written.
func writers(t *testing.T, shares []*Share, workers int, d time.Duration) []int64 {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	written := make([]atomic.Int64, len(shares))
	var wg sync.WaitGroup
	for i, s := range shares {
		for range workers {
			wg.Go(func() {
				for s.Wait(ctx, 2000) == nil {
					written[i].Add(2000)
				}
			})
		}
	}
	wg.Wait()
	out := make([]int64, len(shares))
	for i := range out {
		out[i] = written[i].Load()
	}
	return out
}

// TestWriteSpeedIsDividedByWeight: the limit is the node's. Each job has the
// part of its weight, however many workers write for it; one with a ceiling of
// its own keeps to that, and what it leaves is divided between the others.
func TestWriteSpeedIsDividedByWeight(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	g := config.NewGlobals()
	const speed = 4_000_000
	set(t, g, config.ReorgMaxWriteSpeed, "4000000")
	r := NewResources(g, 2)
	const ceiling = 200_000
	settings := []Settings{{Weight: 4, WriteSpeed: ceiling}}
	total := int64(0)
	for range 2 + rng.IntN(4) {
		weight := int64(1) << rng.IntN(3)
		settings = append(settings, Settings{Weight: weight})
		total += weight
	}
	var shares []*Share
	for i, set := range settings {
		l := new(LiveSettings)
		l.Set(set)
		s := join(t, r, ShareOptions{JobID: int64(i + 1), Settings: l})
		defer s.Leave()
		shares = append(shares, s)
	}
	near := func(want float64, got int64, tolerance float64) bool {
		return math.Abs(float64(got)-want) <= tolerance*want
	}
	divided := func() bool {
		start := time.Now()
		written := writers(t, shares, 1+rng.IntN(3), 2*time.Second)
		seconds := time.Since(start).Seconds()
		t.Log(settings, written, seconds)
		var sum int64
		for _, n := range written {
			sum += n
		}
		// Never more, however busy the machine is; less only if nobody lets them run.
		require.Less(t, written[0], int64(1.3*ceiling*seconds))
		require.Less(t, sum, int64(1.15*speed*seconds))
		ok := near(ceiling*seconds, written[0], 0.3) && near(speed*seconds, sum, 0.15)
		for i, s := range settings[1:] {
			ok = ok && near((speed-ceiling)*seconds*float64(s.Weight)/float64(total), written[i+1], 0.4)
		}
		return ok
	}
	for try := 1; !divided(); try++ {
		require.Less(t, try, 6, "never divided by weight")
	}
}

// TestThrottledJobLeavesItsCores: what a job that only waits could compute with
// is for others, until it has something to do again.
func TestThrottledJobLeavesItsCores(t *testing.T) {
	for _, writers := range []int{1, 4} {
		t.Run(strconv.Itoa(writers)+" writers", func(t *testing.T) { testThrottledJob(t, writers) })
	}
}

func testThrottledJob(t *testing.T, writers int) {
	g := config.NewGlobals()
	set(t, g, config.ReorgWorkerCount, "8")
	r := NewResources(g, 8)
	slow := new(LiveSettings)
	slow.Set(Settings{WriteSpeed: 1000})
	one, two := join(t, r, ShareOptions{JobID: 1, Settings: slow}), join(t, r, ShareOptions{JobID: 2})
	defer two.Leave()
	defer one.Leave()
	require.Equal(t, 4, two.Workers())
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range writers {
		wg.Go(func() { _ = one.Wait(ctx, 1<<30) })
	}
	require.Eventually(t, func() bool { return two.Workers() == 8 && one.Workers() == 1 }, 5*time.Second, 10*time.Millisecond)
	slow.Set(Settings{})
	require.Eventually(t, func() bool { return two.Workers() == 4 && one.Workers() == 4 }, 10*time.Second, 10*time.Millisecond)
}
