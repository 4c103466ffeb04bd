package ingest

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/internal/randtest"
)

func TestThrottleHoldsTheSpeedAndFollowsTheVariable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		require.Zero(t, time.Since(start), "no limit")
		require.Zero(t, r.Allocation(5).WriteSpeed)

		for name, limit := range map[string]func(string){
			config.ReorgMaxWriteSpeed: func(v string) { set(t, g, config.ReorgMaxWriteSpeed, v) },
			ownSpeed:                  func(v string) { own.Set(Settings{WriteSpeed: bytesOf(v)}) },
		} {
			limit("1000000")
			start = time.Now()
			require.NoError(t, s.Wait(ctx, 300_000))
			require.InDelta(t, 300*time.Millisecond, time.Since(start), float64(2*flow.WriteSlice))
			require.EqualValues(t, 1_000_000, r.Allocation(5).WriteSpeed)

			// A wait of minutes ends soon after the limit is lifted.
			start = time.Now()
			time.AfterFunc(50*time.Millisecond, func() { limit("0") })
			require.NoError(t, s.Wait(ctx, 100_000_000))
			require.LessOrEqual(t, time.Since(start), 50*time.Millisecond+2*flow.WriteSlice)

			limit("1")
			cancelled, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			require.ErrorIs(t, s.Wait(cancelled, 100_000), context.DeadlineExceeded)
			cancel()
			require.Equal(t, "throttled: "+name, r.Allocation(5).Wait)

			limit("100000")
			require.NoError(t, s.Wait(ctx, 100_000))
			require.NotEmpty(t, throttled)
			require.Equal(t, name, throttled[len(throttled)-1].Reason)
			require.EqualValues(t, 5, throttled[0].JobID())
			limit("0")
		}
		time.Sleep(flow.ThrottledFor)
		require.Empty(t, r.Allocation(5).Wait)
	})
}

// TestGreatestSpeed: a speed that no disk has is none.
func TestGreatestSpeed(t *testing.T) {
	for _, speed := range []string{"500GiB", "1TiB", "1PiB"} {
		g, own := config.NewGlobals(), new(LiveSettings)
		s := join(t, NewResources(g, 2), ShareOptions{Settings: own})
		for name, limit := range map[string]func(string){
			config.ReorgMaxWriteSpeed: func(v string) { set(t, g, config.ReorgMaxWriteSpeed, v) },
			ownSpeed:                  func(v string) { own.Set(Settings{WriteSpeed: bytesOf(v)}) },
		} {
			limit(speed)
			const bytes = 1 << 20
			calls := 0
			require.NoError(t, s.throttle.Wait(t.Context(), bytes, func(int) { calls++ }))
			require.Equal(t, 1, calls, "%s of %s", name, speed)
			limit("0")
		}
		s.Leave()
	}
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
	seed := randtest.Seed(t)
	synctest.Test(t, func(t *testing.T) {
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
		const seconds = 2
		written := writers(t, shares, 1+rng.IntN(3), seconds*time.Second)
		t.Log(settings, written)
		var sum int64
		for _, n := range written {
			sum += n
		}
		// What a timer may come late for is made up for, once.
		require.InEpsilon(t, ceiling*seconds, written[0], 0.1)
		require.InEpsilon(t, speed*seconds, sum, 0.1)
		// Who comes first may have it for itself.
		for i, s := range settings[1:] {
			want := (speed - ceiling) * seconds * float64(s.Weight) / float64(total)
			require.InDelta(t, want, written[i+1], 0.15*want+speed*flow.WriteSlice.Seconds())
		}
	})
}

// TestThrottledJobLeavesItsCores: what a job that only waits could compute with
// is for others, until it has something to do again.
func TestThrottledJobLeavesItsCores(t *testing.T) {
	for _, writers := range []int{1, 4} {
		t.Run(strconv.Itoa(writers)+" writers", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testThrottledJob(t, writers) })
		})
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
	time.Sleep(2 * flow.ReportInterval)
	synctest.Wait()
	require.Equal(t, 8, two.Workers())
	require.Equal(t, 1, one.Workers())
	slow.Set(Settings{})
	time.Sleep(2 * flow.IdleFor)
	synctest.Wait()
	require.Equal(t, 4, two.Workers())
	require.Equal(t, 4, one.Workers())
}
