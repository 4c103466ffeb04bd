package sbtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

func TestSummaryCountsByArrivalAndByEnd(t *testing.T) {
	r := &Record{samples: []Sample{
		{Arrived: 5 * ms, Ended: 15 * ms},                        // ends in the interval only
		{Arrived: 10 * ms, Ended: 12 * ms, Retries: 2},           // in it
		{Arrived: 19 * ms, Ended: 49 * ms},                       // arrives in it only
		{Arrived: 18 * ms, Ended: 19 * ms, Outcome: Failed},      // in it
		{Arrived: 18 * ms, Ended: 20 * ms, Outcome: Unfinished},  // arrives in it only
		{Arrived: 20 * ms, Ended: 21 * ms},                       // after it
		{Arrived: 101 * ms, Ended: 102 * ms}, {Ended: 1000 * ms}, // in the second, after all
	}}
	f := r.Summary(Interval{From: 10 * ms, To: 20 * ms}, Interval{From: 100 * ms, To: 110 * ms})
	require.Equal(t, LatencySummary{
		Seconds: 0.02, Completed: 3, PerSecond: 150, Arrived: 5, Mean: 7.2, P50: 2, P99: 30, Max: 30, Retries: 2, Failed: 1, Unfinished: 1,
	}, f)
}

func TestTimeline(t *testing.T) {
	r := &Record{samples: []Sample{
		{Ended: 0}, {Ended: 99 * ms}, {Ended: 100 * ms}, {Ended: 120 * ms, Outcome: Failed}, {Ended: 249 * ms}, {Ended: 5 * time.Second},
	}}
	require.Equal(t, []int{2, 1}, r.Timeline(100*ms, 250*ms))
}

func TestTimetable(t *testing.T) {
	const perSecond = 250.0
	table := newTimetable(perSecond, 3)
	last := time.Duration(0)
	for i := range int64(1000) {
		at := table.at(i)
		require.GreaterOrEqual(t, at, last, "transactions arrive in order")
		require.GreaterOrEqual(t, at, time.Duration(i)*4*ms)
		require.Less(t, at, time.Duration(i+1)*4*ms, "one in each interval")
		last = at
	}
	require.Equal(t, int64(250), table.due(time.Second))
	require.NotEqual(t, table.at(5), newTimetable(perSecond, 4).at(5))
	require.Equal(t, table.at(5), newTimetable(perSecond, 3).at(5))
}
