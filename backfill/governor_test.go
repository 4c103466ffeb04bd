package backfill

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/ingest/governor"
)

// hurtForeground is a sampler that sees a foreground which builds hurt, as long
// as it is set.
type hurtForeground struct{ atomic.Bool }

func (h *hurtForeground) Begin(now time.Time) governor.Signals { return h.Sample(now) }

func (h *hurtForeground) Sample(time.Time) governor.Signals {
	s := governor.Signals{Elapsed: governor.Interval, Processors: 2}
	if h.Load() {
		s.Statements = time.Second
		s.Foreground = governor.Threads{Run: governor.Interval / 2, Wait: 4 * governor.Interval}
		s.Builds, s.Busy = governor.Interval, 2*governor.Interval
	}
	return s
}

// TestBuildGivesWayInEveryStage: a build beside a foreground that it hurts in one
// of the stages pauses there, ends all the same, and is right.
func TestBuildGivesWayInEveryStage(t *testing.T) {
	const rows = 30_000
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(rows)
	idx := indexOn(9, false, 1)
	spec := f.spec(idx)
	for _, tc := range []struct {
		stage string
		run   func(context.Context, Options, Spec) (Result, error)
	}{{"scan", Run}, {"verify", Run}, {"transactions", RunTransactional}} {
		t.Run(tc.stage, func(t *testing.T) {
			defer f.dropIndex(idx)
			var paused atomic.Int64
			sampler := new(hurtForeground)
			bus := &event.Bus{}
			bus.Subscribe(func(e event.Event) {
				switch e := e.(type) {
				case event.StageChanged:
					sampler.Store(e.Stage == tc.stage)
				case event.Throttled:
					if sampler.Load() && e.Reason == "foreground: processors" {
						paused.Add(int64(e.For))
						sampler.Store(false) // that was enough
					}
				}
			})
			opts := f.options()
			opts.Bus, opts.Globals, opts.MaxWorkers, opts.BatchRows = bus, config.NewGlobals(), 2, 64
			set(t, opts.Globals, config.ReorgBatchSize, "64")
			opts.Resources = ingest.NewResources(opts.Globals, 2)
			opts.Resources.Govern(sampler, nil)
			// A stage takes long enough for pauses in it to be told of before it ends.
			slow := func(n int64) error {
				if n%64 == 0 {
					time.Sleep(8 * time.Millisecond)
				}
				return nil
			}
			opts.Store = &faultyStore{Store: f.store, onScan: func(int64) error { return slow(0) }, onRead: slow}
			res, err := tc.run(f.ctx, opts, spec)
			require.NoError(t, err)
			require.EqualValues(t, rows, res.Rows)
			f.requireLoaded(rows, f.ts(), idx)
			require.Greater(t, time.Duration(paused.Load()), 5*time.Millisecond)
		})
	}
}
