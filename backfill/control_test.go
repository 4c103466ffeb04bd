package backfill

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
)

func TestWorkersFollowTheVariable(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(20_000)
	idx := indexOn(9, false, 1)
	spec := f.spec(idx)
	opts := f.options()
	opts.Globals, opts.MaxWorkers, opts.BatchRows = config.NewGlobals(), 16, 50
	store := &faultyStore{Store: f.store, onScan: func(int64) error { time.Sleep(200 * time.Microsecond); return nil }}
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
	res, err := Run(f.ctx, opts, spec)
	close(done)
	wg.Wait()
	require.NoError(t, err)
	require.EqualValues(t, 20_000, res.Rows)
	require.EqualValues(t, 20_000, res.Entries)
	f.requireLoaded(20_000, f.ts(), idx)
}

// gauge counts workers that are at work at one time.
type gauge struct {
	now, peak atomic.Int64
	// want is how many are to be at work at one time: each waits a while for the
	// others.
	want atomic.Int64
	over atomic.Bool
}

// hold is at work for a while, unless all is over.
func (g *gauge) hold(d time.Duration) {
	if g.over.Load() {
		return
	}
	for n, peak := g.now.Add(1), g.peak.Load(); n > peak && !g.peak.CompareAndSwap(peak, n); peak = g.peak.Load() {
	}
	for start := time.Now(); g.now.Load() < g.want.Load() && time.Since(start) < 300*time.Millisecond; {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(d)
	g.now.Add(-1)
}

// peakOf is the most workers during a time.
func (g *gauge) peakOf(d time.Duration) int64 {
	g.peak.Store(0)
	time.Sleep(d)
	return g.peak.Load()
}

// The worker count of one job is lowered and raised in the middle of what it
// does: workers that are in a range of the table, which may take long, leave it,
// and others take the range over.
func TestWorkerCountIsLoweredMidJob(t *testing.T) {
	const rows, step = 20_000, 4 * time.Millisecond
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(rows)
	idx := indexOn(9, false, 1)
	scan := func(s *faultyStore, g *gauge) { s.onScan = func(int64) error { g.hold(step); return nil } }
	for _, tc := range []struct {
		name string
		slow func(*faultyStore, *gauge)
	}{
		{"scan", scan},
		{"verify", func(s *faultyStore, g *gauge) {
			s.onRead = func(n int64) error {
				if n%16 == 0 {
					g.hold(step)
				}
				return nil
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			defer f.dropIndex(idx)
			opts, work, settings := f.options(), new(gauge), new(ingest.LiveSettings)
			store := &faultyStore{Store: f.store}
			tc.slow(store, work)
			opts.Store, opts.MaxWorkers, opts.BatchRows, opts.Settings = store, 4, 32, settings
			work.want.Store(4)
			settings.Set(ingest.Settings{Workers: 4})
			var res Result
			var err error
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				res, err = Run(f.ctx, opts, f.spec(idx))
			}()
			require.Eventually(t, func() bool { return work.peakOf(10*step) == 4 }, 30*time.Second, time.Millisecond)
			work.want.Store(1)
			settings.Set(ingest.Settings{Workers: 1})
			require.Eventually(t, func() bool { return work.peakOf(10*step) == 1 }, 10*time.Second, time.Millisecond, "lowered")
			require.LessOrEqual(t, work.peakOf(20*step), int64(1), "and kept")
			if tc.name != "verify" { // its ranges may be too few by now
				work.want.Store(3)
				settings.Set(ingest.Settings{Workers: 3})
				require.Eventually(t, func() bool { return work.peakOf(10*step) == 3 }, 10*time.Second, time.Millisecond)
			}
			work.over.Store(true)
			<-ended
			require.NoError(t, err)
			require.EqualValues(t, rows, res.Rows)
			require.EqualValues(t, rows, res.Entries)
			f.requireLoaded(rows, f.ts(), idx)
		})
	}
}

func TestProgressNeverGoesBack(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(40_000)
	idx := indexOn(9, false, 1)
	opts := f.options()
	opts.Bus = &event.Bus{}
	opts.Store = &faultyStore{Store: f.store, onScan: func(int64) error { time.Sleep(5 * time.Millisecond); return nil }}
	opts.BatchRows = 256
	var seen []event.Progress
	opts.Bus.Subscribe(func(e event.Event) {
		if p, ok := e.(event.Progress); ok {
			seen = append(seen, p)
		}
	})
	_, err := Run(f.ctx, opts, f.spec(idx))
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
