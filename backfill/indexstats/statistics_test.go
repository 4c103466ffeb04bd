package indexstats_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/statistics"
	"github.com/pingcap/tidb/pkg/types"
	"github.com/pingcap/tidb/pkg/util/codec"
	"github.com/pingcap/tidb/pkg/util/mock"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/indexstats"
	"fastddl/ingest/distribution"
	"fastddl/internal/randtest"
)

// values returns encoded values in order, each as often as rows have it.
func values(r *rand.Rand) (all [][]byte) {
	value := int64(0)
	for range r.IntN(1500) {
		value += 1 + r.Int64N(3)
		rows := 1
		switch r.IntN(6) {
		case 0:
			rows = 1 + r.IntN(5)
		case 1:
			if r.IntN(30) == 0 {
				rows = 1 + r.IntN(400)
			}
		}
		encoded, err := codec.EncodeKey(nil, nil, types.NewIntDatum(value))
		if err != nil {
			panic(err)
		}
		for range rows {
			all = append(all, encoded)
		}
	}
	return all
}

func summarize(t *testing.T, all [][]byte, nulls int) *distribution.Summary {
	t.Helper()
	c := distribution.New(distribution.Options{Columns: 1, BucketRows: 1})
	for range nulls {
		c.Add([]byte{codec.NilFlag}, 0)
	}
	for _, v := range all {
		c.Add(v, 0)
	}
	s, err := c.Finish()
	require.NoError(t, err)
	return s
}

// The statistics of a whole distribution are those that TiDB builds from all rows.
func TestBuildEqualsTiDB(t *testing.T) {
	r := randtest.Rand(t)
	for range 100 {
		all, nulls := values(r), r.IntN(2)*r.IntN(50)
		set := indexstats.Settings{Buckets: []int{256, 256, 1, 10, 0}[r.IntN(5)], TopN: []int{100, 100, 100, 0, 1, 7, 5000}[r.IntN(7)]}
		collector := &statistics.SampleCollector{NullCount: int64(nulls), Count: int64(len(all)), FMSketch: statistics.NewFMSketch(1 << 20)}
		ctx := mock.NewContext()
		for _, v := range all {
			d := types.NewBytesDatum(v)
			require.NoError(t, collector.FMSketch.InsertValue(ctx.GetSessionVars().StmtCtx, d))
			collector.Samples = append(collector.Samples, &statistics.SampleItem{Value: d})
		}
		hist, top, err := statistics.BuildHistAndTopN(ctx, set.Buckets, set.TopN, 1, collector, types.NewFieldType(mysql.TypeBlob), false, nil, false)
		require.NoError(t, err)

		st := indexstats.Build(summarize(t, all, nulls), set)
		require.Equal(t, hist.NDV, st.Different)
		require.Equal(t, hist.NullCount, st.Nulls)
		if top == nil {
			top = new(statistics.TopN)
		}
		require.Len(t, st.Top, len(top.TopN), "%+v", set)
		for i, v := range top.TopN {
			require.Equal(t, v.Encoded, st.Top[i].Key, "%+v", set)
			require.EqualValues(t, v.Count, st.Top[i].Rows)
		}
		require.Len(t, st.Buckets, hist.Len(), "%+v", set)
		for i, b := range st.Buckets {
			require.Equal(t, hist.GetLower(i).GetBytes(), b.Lower)
			require.Equal(t, hist.GetUpper(i).GetBytes(), b.Upper)
			require.Equal(t, hist.BucketCount(i), b.Rows)
			require.Equal(t, hist.Buckets[i].Repeat, b.Repeat)
		}
	}
}

// Statistics of a distribution that leaves values out have all rows, in buckets that are in order and do not overlap, and no more
// of them than asked for.
func TestBuildOfManyValues(t *testing.T) {
	r := randtest.Rand(t)
	for range 100 {
		all := values(r)
		set := indexstats.Settings{Buckets: 1 + r.IntN(64), TopN: 100}
		state, rows := new(indexstats.State), int64(0)
		streams := make([][][]byte, 1+r.IntN(4))
		for _, v := range all {
			i := r.IntN(len(streams))
			streams[i] = append(streams[i], v)
		}
		for _, stream := range streams {
			c := distribution.New(distribution.Options{Columns: 1, BucketRows: int64(1 + r.IntN(40)), Hashed: true})
			for _, v := range stream {
				c.Add(v, 0)
			}
			s, err := c.Finish()
			require.NoError(t, err)
			require.NoError(t, state.Add(indexstats.Written{Table: 7, Summary: s}, set))
			data, err := json.Marshal(state)
			require.NoError(t, err)
			state = new(indexstats.State)
			require.NoError(t, json.Unmarshal(data, state))
		}
		parts, union := state.Result([]int64{7, 8}, false, set)
		require.Nil(t, union)
		require.Equal(t, new(indexstats.Statistics), parts[8], "a table without rows")
		st := parts[7]
		require.EqualValues(t, len(all), st.Rows)
		require.LessOrEqual(t, len(st.Buckets), set.Buckets)
		for _, v := range st.Top {
			rows += v.Rows
		}
		for i, b := range st.Buckets {
			require.LessOrEqual(t, bytes.Compare(b.Lower, b.Upper), 0)
			require.True(t, i == 0 || bytes.Compare(st.Buckets[i-1].Upper, b.Lower) < 0)
			rows += b.Rows
		}
		require.InDelta(t, len(all), rows, float64(len(all))/20)
	}
}

// What is not wholly known has no statistics: entries of which nothing is known, a state that cannot be read, a part that is written twice.
func TestLost(t *testing.T) {
	r := randtest.Rand(t)
	all := values(r)
	lost := func(s *indexstats.State) {
		t.Helper()
		parts, _ := s.Result([]int64{7}, false, indexstats.DefaultSettings)
		require.Nil(t, parts)
	}
	s := new(indexstats.State)
	require.NoError(t, s.Add(indexstats.Written{Table: 7}, indexstats.DefaultSettings))
	lost(s)
	require.NoError(t, s.Add(indexstats.Written{Table: 7, Summary: summarize(t, all, 0), All: true}, indexstats.DefaultSettings))
	lost(s)
	s = new(indexstats.State)
	require.NoError(t, s.Add(indexstats.Written{Table: 7, Summary: summarize(t, all, 0), All: true}, indexstats.DefaultSettings))
	require.Error(t, s.Add(indexstats.Written{Table: 7, Summary: summarize(t, all, 0), All: true}, indexstats.DefaultSettings))
	lost(s)
	s = new(indexstats.State)
	require.NoError(t, s.Join(nil))
	lost(s)
	s = new(indexstats.State)
	require.NoError(t, s.Join(&indexstats.State{Lost: true}))
	lost(s)
	for _, text := range []string{`"AAAA"`, `7`, `"!"`, `{}`} {
		s = new(indexstats.State)
		require.NoError(t, json.Unmarshal([]byte(text), s))
		lost(s)
	}
}

// What stays of a summary has values of its own, not parts of what a collector has allocated for many.
func TestStateOwnsItsValues(t *testing.T) {
	for _, all := range []bool{true, false} {
		s := new(indexstats.State)
		summary := summarize(t, values(randtest.Rand(t)), 3)
		buckets, top := slices.Clone(summary.Buckets), slices.Clone(summary.Top)
		require.NoError(t, s.Add(indexstats.Written{Table: 7, Summary: summary, All: all}, indexstats.DefaultSettings))
		want, err := json.Marshal(s)
		require.NoError(t, err)
		for _, b := range buckets {
			clear(b.Lower)
			clear(b.Upper)
		}
		for _, v := range top {
			clear(v.Key)
		}
		have, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, want, have)
	}
}

// An encoding within a limit loses the largest states only, and is within it.
func TestEncodeWithin(t *testing.T) {
	r := randtest.Rand(t)
	for range 50 {
		var states []*indexstats.State
		for range r.IntN(5) {
			s := new(indexstats.State)
			require.NoError(t, s.Add(indexstats.Written{Table: 7, Summary: summarize(t, values(r), 0), All: true}, indexstats.DefaultSettings))
			states = append(states, s, nil)
		}
		limit := 200 + r.IntN(20_000)
		data, err := indexstats.EncodeWithin(limit, states, states)
		require.NoError(t, err)
		require.LessOrEqual(t, len(data), limit)
		var read []*indexstats.State
		require.NoError(t, json.Unmarshal(data, &read))
		for i, s := range states {
			require.True(t, s == nil || s.Lost == read[i].Lost)
		}
	}
}
