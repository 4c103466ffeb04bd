package backfill

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/indexstats"
	"fastddl/ingest/distribution"
	"fastddl/internal/randtest"
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

// Statistics of a global index that several groups of partitions have written have the rows of all of them.
func TestStatisticsOfAGlobalIndex(t *testing.T) {
	r := randtest.Rand(t)
	p := newPartitioned(t, r, 5*maxTargets, 0)
	var id int64
	for _, part := range p.parts {
		for range r.IntN(20) {
			id++
			part.Put(id, r.Int64N(100))
		}
	}
	global, local := backfilltest.IndexOn(9, true, 0), backfilltest.IndexOn(10, false, 1)
	global.Global = true
	var last []byte
	opts := p.options()
	opts.SaveCheckpoint = func(_ context.Context, data []byte) error {
		last = data
		return nil
	}
	spec := p.spec(global, local)
	require.Greater(t, Groups(spec.Task.Table, spec.Task.Indexes), 2)
	_, err := Run(p.Ctx, opts, spec)
	require.NoError(t, err)
	all, err := StatisticsOf(last, &spec.Task, indexstats.DefaultSettings)
	require.NoError(t, err)
	require.Len(t, all[0].Parts, 1)
	require.Equal(t, p.parts.Count(), all[0].Parts[spec.Task.Table.ID].Rows)
	require.Len(t, all[1].Parts, len(p.parts))
	require.Equal(t, p.parts.Count(), all[1].All.Rows)
}

// Statistics that make a checkpoint too long are lost, in the build as well: they are not encoded again.
func TestLongStatisticsAreLost(t *testing.T) {
	value := make([]byte, 4096)
	state := &indexstats.State{Parts: []indexstats.Part{{Table: 1, Once: &indexstats.Statistics{}}}}
	for range 64 {
		_, _ = rand.Read(value)
		state.Parts[0].Once.Top = append(state.Parts[0].Once.Top, distribution.Value{Key: slices.Clone(value), Rows: 1})
	}
	small := &indexstats.State{Parts: []indexstats.Part{{Table: 1, Once: &indexstats.Statistics{Rows: 7}}}}
	cp := &checkpoint{Indexes: []checkpointIndex{{ID: 1, Statistics: state}, {ID: 2, Statistics: small}, {ID: 3}}}
	data, err := cp.encodeWithin(indexstats.MaxSubtaskBytes)
	require.NoError(t, err)
	require.Less(t, len(data), indexstats.MaxSubtaskBytes)
	require.Equal(t, &indexstats.State{Lost: true}, state)
	require.False(t, small.Lost)
}
