package ingest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/event"
	"fastddl/flow"
	"fastddl/flow/flowtest"
)

// work spins on a pacer until it is ended, and counts. Each round takes a
// millisecond.
func work(s *Share) (rounds *atomic.Int64, end func()) {
	rounds = new(atomic.Int64)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		pacer := s.flow.NewWallPacer(time.Sleep)
		for {
			select {
			case <-done:
				return
			default:
			}
			time.Sleep(time.Millisecond)
			rounds.Add(1)
			if pacer.Pace(context.Background()) != nil {
				return
			}
		}
	}()
	return rounds, sync.OnceFunc(func() { close(done); <-ended })
}

// during is how many rounds a second there are for a while.
func during(n *atomic.Int64, d time.Duration) float64 {
	before := n.Load()
	time.Sleep(d)
	return float64(n.Load()-before) / d.Seconds()
}

// decided waits until the governor has settled.
func decided() {
	time.Sleep(20 * flow.Interval)
	synctest.Wait()
}

func TestWorkersYieldAndComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told sync.Map
		bus := &event.Bus{}
		bus.Subscribe(func(e event.Event) { told.Store(e.(event.Throttled).Reason, e.JobID()) })
		g := config.NewGlobals()
		r := NewResources(g, 2)
		sampler := new(flowtest.Foreground)
		r.Govern(sampler, nil)
		set(t, g, config.TargetLatency, "10ms")
		s := join(t, r, ShareOptions{JobID: 7, Bus: bus})
		left := sync.OnceFunc(s.Leave)
		defer left()
		rounds, end := work(s)
		defer end()

		alone := during(rounds, 300*time.Millisecond)
		require.Empty(t, r.Allocation(7).Wait)
		sampler.Hurt.Store(true)
		decided()
		require.LessOrEqual(t, r.Governor().Share, flow.MinShare)
		beside := during(rounds, time.Second)
		require.Less(t, beside, alone/3)
		require.Positive(t, beside, "it goes on")
		require.Equal(t, "yielding to foreground: target latency", r.Allocation(7).Wait)

		set(t, g, config.Governor, "OFF")
		decided()
		require.Equal(t, flow.Full, r.Governor())
		require.Greater(t, during(rounds, 300*time.Millisecond), beside*2)
		set(t, g, config.Governor, "ON")
		decided()
		require.LessOrEqual(t, r.Governor().Share, flow.MinShare)

		sampler.Hurt.Store(false)
		decided()
		require.Equal(t, flow.Full, r.Governor())
		require.Greater(t, during(rounds, 300*time.Millisecond), beside*2)
		require.Empty(t, r.Allocation(7).Wait)

		end()
		left()
		id, ok := told.Load("foreground: target latency")
		require.True(t, ok, "nothing was reported")
		require.EqualValues(t, 7, id)
	})
}

func TestNothingIsSampledWithoutJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := config.NewGlobals()
		r := NewResources(g, 2)
		sampler := new(flowtest.Foreground)
		sampler.Hurt.Store(true)
		r.Govern(sampler, nil)
		set(t, g, config.TargetLatency, "10ms")
		time.Sleep(3 * flow.Interval)
		require.Zero(t, sampler.Samples.Load())

		one, two := join(t, r, ShareOptions{JobID: 1}), join(t, r, ShareOptions{JobID: 2})
		require.Positive(t, sampler.Samples.Load(), "the first decision is there before the job works")
		require.Less(t, r.Governor().Share, 1.0)
		one.Leave()
		n := sampler.Samples.Load()
		decided()
		require.Greater(t, sampler.Samples.Load(), n, "the other job still runs")
		two.Leave()
		require.Equal(t, flow.Full, r.Governor())
		n = sampler.Samples.Load()
		time.Sleep(3 * flow.Interval)
		require.Equal(t, n, sampler.Samples.Load())
	})
}

func TestPauseEndsWithTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := config.NewGlobals()
		r := NewResources(g, 2)
		sampler := new(flowtest.Foreground)
		sampler.Hurt.Store(true)
		r.Govern(sampler, nil)
		set(t, g, config.TargetLatency, "10ms")
		s := join(t, r, ShareOptions{JobID: 1})
		defer s.Leave()
		pacer := s.flow.NewWallPacer(nil)
		require.NoError(t, pacer.Pace(context.Background()))
		time.Sleep(time.Second) // which takes as long again to make up for, at least
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, pacer.Pace(ctx), context.DeadlineExceeded)
		require.Equal(t, 50*time.Millisecond, time.Since(start))
	})
}

// TestGovernorDoesNotRaiseCeilings: the governor reduces what the settings allow
// a job, and never adds to it.
func TestGovernorDoesNotRaiseCeilings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := config.NewGlobals()
		r := NewResources(g, 8)
		sampler := new(flowtest.Foreground)
		r.Govern(sampler, nil)
		set(t, g, config.TargetLatency, "10ms")
		set(t, g, config.ReorgWorkerCount, "3")
		set(t, g, config.ReorgMaxWriteSpeed, "1000000")
		s := join(t, r, ShareOptions{JobID: 1})
		defer s.Leave()
		for _, hurt := range []bool{false, true, false} {
			sampler.Hurt.Store(hurt)
			decided()
			require.Equal(t, hurt, r.Governor().Share < 0.5)
			require.Equal(t, 3, s.Workers())
			start := time.Now()
			require.NoError(t, s.Wait(context.Background(), 300_000))
			require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
			require.LessOrEqual(t, time.Since(start), 300*time.Millisecond)
		}
	})
}

// TestWorkersYieldToStatements: while as many statements run as there are
// processors, workers of another process have their least part, and all of it when they end or when
// the governor is switched off.
func TestWorkersYieldToStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := config.NewGlobals()
		r := NewResources(g, 2)
		var statements atomic.Int64
		r.Govern(nil, flow.NewMeterElsewhere(&statements))
		s := join(t, r, ShareOptions{JobID: 7})
		defer s.Leave()
		rounds, end := work(s)
		defer end()

		alone := during(rounds, 300*time.Millisecond)
		statements.Store(int64(flow.Cores()))
		require.Less(t, during(rounds, 500*time.Millisecond), alone/2)
		require.Positive(t, during(rounds, 500*time.Millisecond))
		require.Equal(t, "yielding to foreground: statements", r.Allocation(7).Wait)
		set(t, g, config.Governor, "OFF")
		require.Greater(t, during(rounds, 300*time.Millisecond), alone/2)
		set(t, g, config.Governor, "ON")
		require.Less(t, during(rounds, 500*time.Millisecond), alone/2)
		statements.Store(0)
		require.Greater(t, during(rounds, 300*time.Millisecond), alone/2)
		decided()
		require.Empty(t, r.Allocation(7).Wait)
	})
}

// panicking is a sampler that panics once it has begun.
type panicking struct{ flowtest.Foreground }

func (p *panicking) Sample(time.Time) flow.Signals { panic("sampler") }

func TestPanicOfTheSamplerIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewResources(config.NewGlobals(), 2)
		r.Govern(new(panicking), nil)
		var retries atomic.Int64
		bus := &event.Bus{}
		bus.Subscribe(func(e event.Event) {
			if retry, ok := e.(event.Retry); ok {
				assert.ErrorContains(t, retry.Err, "sampler")
				retries.Add(1)
			}
		})
		s := join(t, r, ShareOptions{Bus: bus})
		decided()
		require.EqualValues(t, 1, retries.Load())
		before := r.Governor()
		s.Leave()
		require.EqualValues(t, 1, retries.Load())
		require.Equal(t, flow.Full, before)
	})
}
