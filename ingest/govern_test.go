package ingest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest/governor"
	"fastddl/ingest/governor/governortest"
	"fastddl/internal/background"
	"fastddl/internal/foreground"
)

// work spins on a pacer until done is closed, and counts.
func work(t *testing.T, s *Share, done chan struct{}) *atomic.Int64 {
	var rounds atomic.Int64
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	wg.Go(func() {
		pacer := s.newWallPacer()
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
	})
	return &rounds
}

func during(n *atomic.Int64, d time.Duration) float64 {
	before, start := n.Load(), time.Now()
	time.Sleep(d)
	return float64(n.Load()-before) / time.Since(start).Seconds()
}

func TestWorkersGiveWayAndComeBack(t *testing.T) {
	var told sync.Map
	bus := &event.Bus{}
	bus.Subscribe(func(e event.Event) { told.Store(e.(event.Throttled).Reason, e.JobID()) })
	g := config.NewGlobals()
	r := NewResources(g, 2)
	sampler := new(governortest.Foreground)
	r.Govern(sampler, nil)
	s := join(t, r, ShareOptions{JobID: 7, Bus: bus})
	left := sync.OnceFunc(s.Leave)
	defer left()
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done) })
	defer end()
	rounds := work(t, s, done)

	alone := during(rounds, 300*time.Millisecond)
	require.Empty(t, r.Held(7).Wait)
	sampler.Hurt.Store(true)
	require.Eventually(t, func() bool { return r.Governor().Share <= governor.Floor }, 5*time.Second, 10*time.Millisecond)
	beside := during(rounds, time.Second)
	require.Less(t, beside, alone/3)
	require.Positive(t, beside, "it goes on")
	require.Equal(t, "giving way to foreground: processors", r.Held(7).Wait)

	set(t, g, config.Governor, "OFF")
	require.Eventually(t, func() bool { return r.Governor() == governor.Full }, 5*time.Second, 10*time.Millisecond)
	require.Greater(t, during(rounds, 300*time.Millisecond), beside*2)
	set(t, g, config.Governor, "ON")
	require.Eventually(t, func() bool { return r.Governor().Share <= governor.Floor }, 5*time.Second, 10*time.Millisecond)

	sampler.Hurt.Store(false)
	require.Eventually(t, func() bool { return r.Governor() == governor.Full }, 5*time.Second, 10*time.Millisecond)
	require.Greater(t, during(rounds, 300*time.Millisecond), beside*2)
	require.Empty(t, r.Held(7).Wait)

	end()
	left()
	id, ok := told.Load("foreground: processors")
	require.True(t, ok, "nobody was told")
	require.EqualValues(t, 7, id)
}

func TestNothingIsSampledWithoutJobs(t *testing.T) {
	r := NewResources(config.NewGlobals(), 2)
	sampler := new(governortest.Foreground)
	sampler.Hurt.Store(true)
	r.Govern(sampler, nil)
	time.Sleep(3 * governor.Interval)
	require.Zero(t, sampler.Samples.Load())

	one, two := join(t, r, ShareOptions{JobID: 1}), join(t, r, ShareOptions{JobID: 2})
	require.Positive(t, sampler.Samples.Load(), "the first decision is there before the job works")
	require.Less(t, r.Governor().Share, 1.0)
	one.Leave()
	n := sampler.Samples.Load()
	require.Eventually(t, func() bool { return sampler.Samples.Load() > n }, 5*time.Second, time.Millisecond, "the other job still runs")
	two.Leave()
	require.Equal(t, governor.Full, r.Governor())
	n = sampler.Samples.Load()
	time.Sleep(3 * governor.Interval)
	require.Equal(t, n, sampler.Samples.Load())
}

func TestPauseEndsWithTheJob(t *testing.T) {
	r := NewResources(config.NewGlobals(), 2)
	sampler := new(governortest.Foreground)
	sampler.Hurt.Store(true)
	r.Govern(sampler, nil)
	s := join(t, r, ShareOptions{JobID: 1})
	defer s.Leave()
	pacer := s.newWallPacer()
	require.NoError(t, pacer.Pace(context.Background()))
	time.Sleep(time.Second) // which takes as long again to make up for, at least
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	require.ErrorIs(t, pacer.Pace(ctx), context.DeadlineExceeded)
	require.Less(t, time.Since(start), 500*time.Millisecond)
}

func TestImportsWaitForTheStore(t *testing.T) {
	r := NewResources(config.NewGlobals(), 2)
	sampler := new(governortest.Foreground)
	sampler.Hurt.Store(true)
	sampler.Stalled.Store(true)
	r.Govern(sampler, nil)
	s := join(t, r, ShareOptions{JobID: 1})
	defer s.Leave()
	time.AfterFunc(200*time.Millisecond, func() { sampler.Stalled.Store(false) })
	start := time.Now()
	require.NoError(t, s.BeforeImport(context.Background()))
	require.Greater(t, time.Since(start), 150*time.Millisecond)
	require.Less(t, time.Since(start), maxHold)

	sampler.Stalled.Store(true)
	require.Eventually(t, func() bool { return r.Governor().HoldImports }, 5*time.Second, time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.BeforeImport(ctx), context.DeadlineExceeded)
	require.NotEmpty(t, r.Held(1).Wait)
}

// TestCeilingsHoldWhateverTheGovernorDecides: it takes from what the settings
// leave a job, and adds nothing.
func TestCeilingsHoldWhateverTheGovernorDecides(t *testing.T) {
	g := config.NewGlobals()
	r := NewResources(g, 8)
	sampler := new(governortest.Foreground)
	r.Govern(sampler, nil)
	set(t, g, config.ReorgWorkerCount, "3")
	set(t, g, config.ReorgMaxWriteSpeed, "1000000")
	s := join(t, r, ShareOptions{JobID: 1})
	defer s.Leave()
	for _, hurt := range []bool{false, true, false} {
		sampler.Hurt.Store(hurt)
		require.Eventually(t, func() bool { return r.Governor().Share < 0.5 == hurt }, 5*time.Second, 10*time.Millisecond)
		require.Equal(t, 3, s.Workers())
		start := time.Now()
		require.NoError(t, s.Wait(context.Background(), 300_000))
		require.Greater(t, time.Since(start), 200*time.Millisecond)
	}
}

// TestWorkersGiveWayToStatements: while as many statements run as there are
// processors, workers have their least part, and all of it when they end or when
// the governor is switched off.
func TestWorkersGiveWayToStatements(t *testing.T) {
	g := config.NewGlobals()
	r := NewResources(g, 2)
	meter := new(foreground.Meter)
	r.Govern(new(governortest.Foreground), meter)
	s := join(t, r, ShareOptions{JobID: 7})
	defer s.Leave()
	done := make(chan struct{})
	defer close(done)
	rounds := work(t, s, done)

	alone := during(rounds, 300*time.Millisecond)
	var ends []func()
	for range background.Cores() {
		ends = append(ends, meter.Begin())
	}
	require.Less(t, during(rounds, 500*time.Millisecond), alone/2)
	require.Positive(t, during(rounds, 500*time.Millisecond))
	require.Equal(t, "giving way to foreground: statements", r.Held(7).Wait)
	set(t, g, config.Governor, "OFF")
	require.Greater(t, during(rounds, 300*time.Millisecond), alone/2)
	set(t, g, config.Governor, "ON")
	require.Less(t, during(rounds, 500*time.Millisecond), alone/2)
	for _, end := range ends {
		end()
	}
	require.Greater(t, during(rounds, 300*time.Millisecond), alone/2)
	require.Eventually(t, func() bool { return r.Held(7).Wait == "" }, 5*time.Second, 10*time.Millisecond)
}

// panicking is a sampler that panics once it has begun.
type panicking struct{ governortest.Foreground }

func (p *panicking) Sample(time.Time) governor.Signals { panic("sampler") }

func TestPanicOfTheSamplerIsReportedOnce(t *testing.T) {
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
	require.Eventually(t, func() bool { return retries.Load() == 1 }, 30*time.Second, time.Millisecond)
	before := r.Governor()
	s.Leave()
	require.EqualValues(t, 1, retries.Load())
	require.Equal(t, governor.Full, before)
}
