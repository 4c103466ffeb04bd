package backfill

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
)

func TestWorkersFollowTheVariable(t *testing.T) {
	r := backfilltest.Rand(t)
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(20_000)
	idx := backfilltest.IndexOn(9, false, 1)
	spec := f.spec(idx)
	opts := f.options()
	opts.Globals, opts.MaxWorkers, opts.BatchRows = config.NewGlobals(), 16, 64
	store := &backfilltest.FaultyStore{Store: f.Store, OnScan: func(int64) error { time.Sleep(200 * time.Microsecond); return nil }}
	opts.Store = store
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(r.IntN(5)) * time.Millisecond):
				set(t, opts.Globals, config.ReorgWorkerCount, strconv.Itoa(1+r.IntN(16)))
			}
		}
	})
	res, err := Run(f.Ctx, opts, spec)
	close(done)
	wg.Wait()
	require.NoError(t, err)
	require.EqualValues(t, 20_000, res.Rows)
	require.EqualValues(t, 20_000, res.Entries)
	f.RequireLoaded(20_000, f.TS(), idx)
}

// gauge counts workers that are at work at one time. Each stays where it is until the
// test lets one go on, so that no work is done while no test looks.
type gauge struct {
	now, peak atomic.Int64
	step      chan struct{}
	over      chan struct{}
}

func newGauge() *gauge { return &gauge{step: make(chan struct{}), over: make(chan struct{})} }

// hold is at work until it may go on, or all is over.
func (g *gauge) hold() {
	for n, peak := g.now.Add(1), g.peak.Load(); n > peak && !g.peak.CompareAndSwap(peak, n); peak = g.peak.Load() {
	}
	select {
	case <-g.step:
	case <-g.over:
	}
	g.now.Add(-1)
}

// await lets workers go on, one at a time, until so many are at work at one time. A worker
// that has gone on comes back soon, if it has not ended: until then there is one too few.
func (g *gauge) await(t *testing.T, workers int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		before := g.now.Load()
		if before == workers {
			return true
		}
		select {
		case g.step <- struct{}{}:
			for began := time.Now(); g.now.Load() < before && time.Since(began) < time.Second; {
				time.Sleep(time.Millisecond)
			}
		default:
		}
		return false
	}, time.Minute, 4*time.Millisecond, "%d workers", workers)
}

// peakOf is the most workers while one after the other goes on.
func (g *gauge) peakOf(t *testing.T, steps int) int64 {
	t.Helper()
	g.peak.Store(g.now.Load())
	for range steps {
		select {
		case g.step <- struct{}{}:
		case <-time.After(time.Minute):
			require.FailNow(t, "no worker is at work")
		}
	}
	return g.peak.Load()
}

// settle lets workers go on until no more than so many were at work over twenty steps. One
// that reads between two steps is not counted, so that the first such steps may be late.
func (g *gauge) settle(t *testing.T, workers int64) {
	t.Helper()
	for range 40 {
		if g.peakOf(t, 20) <= workers {
			return
		}
	}
	require.FailNow(t, "the workers stay more", "than %d", workers)
}

// The worker count of one job is lowered and raised in the middle of what it
// does: workers that are in a range of the table, which may take long, leave it,
// and others take the range over.
func TestWorkerCountIsLoweredMidJob(t *testing.T) {
	const rows = 20_000
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(rows)
	idx := backfilltest.IndexOn(9, false, 1)
	scan := func(s *backfilltest.FaultyStore, g *gauge) { s.OnScan = func(int64) error { g.hold(); return nil } }
	for _, tc := range []struct {
		name string
		slow func(*backfilltest.FaultyStore, *gauge)
	}{
		{"scan", scan},
		{"verify", func(s *backfilltest.FaultyStore, g *gauge) {
			s.OnRead = func(n int64) error {
				if n%16 == 0 {
					g.hold()
				}
				return nil
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defer f.DropIndex(idx)
			opts, work, settings := f.options(), newGauge(), new(ingest.LiveSettings)
			store := &backfilltest.FaultyStore{Store: f.Store}
			tc.slow(store, work)
			opts.Store, opts.MaxWorkers, opts.BatchRows, opts.Settings = store, 4, 32, settings
			settings.Set(ingest.Settings{Workers: 4})
			var res Result
			var err error
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				res, err = Run(f.Ctx, opts, f.spec(idx))
			}()
			end := sync.OnceFunc(func() { close(work.over); <-ended })
			defer end()
			work.await(t, 4)
			settings.Set(ingest.Settings{Workers: 1})
			work.settle(t, 1)
			if tc.name != "verify" { // its ranges may be too few by now
				settings.Set(ingest.Settings{Workers: 3})
				work.await(t, 3)
			}
			end()
			require.NoError(t, err)
			require.EqualValues(t, rows, res.Rows)
			require.EqualValues(t, rows, res.Entries)
			f.RequireLoaded(rows, f.TS(), idx)
		})
	}
}

func TestProgressNeverGoesBack(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(40_000)
	idx := backfilltest.IndexOn(9, false, 1)
	opts := f.options()
	opts.Bus = &event.Bus{}
	opts.Store = &backfilltest.FaultyStore{Store: f.Store, OnScan: func(int64) error { time.Sleep(5 * time.Millisecond); return nil }}
	opts.BatchRows, opts.MaxWorkers = 256, 2 // it takes longer than from one report to the next
	var seen []event.Progress
	opts.Bus.Subscribe(func(e event.Event) {
		if p, ok := e.(event.Progress); ok {
			seen = append(seen, p)
		}
	})
	_, err := Run(f.Ctx, opts, f.spec(idx))
	require.NoError(t, err)
	require.Greater(t, len(seen), 1)
	last := seen[len(seen)-1]
	require.EqualValues(t, 40_000, last.RowsDone)
	require.EqualValues(t, 40_000, last.RowsTotal)
	var rows int64
	var fraction float64
	for _, p := range seen {
		require.GreaterOrEqual(t, p.RowsDone, rows)
		require.GreaterOrEqual(t, p.RowsTotal, p.RowsDone)
		if p.RowsTotal > 0 {
			now := float64(p.RowsDone) / float64(p.RowsTotal)
			require.GreaterOrEqual(t, now, fraction-0.001)
			fraction = now
		}
		rows = p.RowsDone
	}
}
