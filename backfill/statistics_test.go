package backfill

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/indexstats"
)

// Statistics of an index that several rounds build have all its rows, and are known from the last checkpoint alone.
func TestStatisticsOfSeveralRounds(t *testing.T) {
	const rows = 3000
	f := newDuplicatesFixture(t, rows)
	opts := f.options()
	opts.BatchRows, opts.CheckpointInterval, opts.MaxWorkers = 64, time.Millisecond, 1
	opts.Store = &backfilltest.FaultyStore{Store: f.Store, OnScan: func(int64) error { time.Sleep(time.Millisecond); return nil }}
	var last []byte
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
		last = data
		return nil
	}
	spec := f.spec(backfilltest.IndexOn(9, true, 1))
	res, err := Run(f.Ctx, opts, spec)
	require.NoError(t, err)
	require.Greater(t, res.Flushes, 2)
	all, err := StatisticsOf(last, &spec.Task, indexstats.DefaultSettings)
	require.NoError(t, err)
	st := all[0].Parts[spec.Task.Table.ID]
	require.EqualValues(t, rows, st.Rows)
	require.InEpsilon(t, rows, st.Different, 0.05)
	require.Nil(t, all[0].All)
}
