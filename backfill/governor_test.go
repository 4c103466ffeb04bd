package backfill

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/config"
	"fastddl/event"
	"fastddl/flow/flowtest"
	"fastddl/ingest"
)

// TestBuildYieldsInEveryStage: a build beside a foreground that it hurts in one
// of the stages pauses there, ends all the same, and is right.
func TestBuildYieldsInEveryStage(t *testing.T) {
	const rows = 30_000
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	f.Load(rows)
	idx := backfilltest.IndexOn(9, false, 1)
	spec := f.spec(idx)
	for _, stage := range []string{"scan", "verify"} {
		t.Run(stage, func(t *testing.T) {
			defer f.DropIndex(idx)
			var paused atomic.Int64
			sampler := new(flowtest.Foreground)
			bus := &event.Bus{}
			bus.Subscribe(func(e event.Event) {
				switch e := e.(type) {
				case event.StageChanged:
					sampler.Hurt.Store(e.Stage == stage)
				case event.Throttled:
					if sampler.Hurt.Load() && e.Reason == "foreground: target latency" {
						paused.Add(int64(e.For))
						sampler.Hurt.Store(false) // that was enough
					}
				}
			})
			opts := f.options()
			opts.Bus, opts.Globals, opts.MaxWorkers, opts.BatchRows = bus, config.NewGlobals(), 2, 64
			require.NoError(t, opts.Globals.Update(config.TargetLatency, "10ms"))
			opts.Resources = ingest.NewResources(opts.Globals, 2)
			opts.Resources.Govern(sampler, nil)
			// A stage takes long enough for pauses in it to be reported before it ends.
			slow := func(n int64) error {
				if n%64 == 0 {
					time.Sleep(8 * time.Millisecond)
				}
				return nil
			}
			opts.Store = &backfilltest.FaultyStore{Store: f.Store, OnScan: func(int64) error { return slow(0) }, OnRead: slow}
			res, err := Run(f.Ctx, opts, spec)
			require.NoError(t, err)
			require.EqualValues(t, rows, res.Rows)
			f.RequireLoaded(rows, f.TS(), idx)
			require.Greater(t, time.Duration(paused.Load()), 5*time.Millisecond)
		})
	}
}
