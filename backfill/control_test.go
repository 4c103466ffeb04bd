package backfill

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/event"
)

func TestWorkersFollowTheVariable(t *testing.T) {
	r := newRand(t)
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(20_000)
	idx := indexOn(9, false, 1)
	spec := f.spec(idx)
	for name, run := range map[string]func(context.Context, Options, Spec) (Result, error){"fast": Run, "transactional": RunTransactional} {
		t.Run(name, func(t *testing.T) {
			defer f.dropIndex(idx)
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
			res, err := run(f.ctx, opts, spec)
			close(done)
			wg.Wait()
			require.NoError(t, err)
			require.EqualValues(t, 20_000, res.Rows)
			require.EqualValues(t, 20_000, res.Entries)
			f.requireLoaded(20_000, f.ts(), idx)
		})
	}
}

func TestProgressNeverGoesBack(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	f.load(40_000)
	idx := indexOn(9, false, 1)
	for name, run := range map[string]func(context.Context, Options, Spec) (Result, error){"fast": Run, "transactional": RunTransactional} {
		t.Run(name, func(t *testing.T) {
			defer f.dropIndex(idx)
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
			_, err := run(f.ctx, opts, f.spec(idx))
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
		})
	}
}
