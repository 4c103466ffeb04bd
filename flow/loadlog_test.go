package flow

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A LoadLog has what happened between two observations, and the last ten minutes of it.
func TestLoadLog(t *testing.T) {
	var l LoadLog
	var all Latencies
	now := time.Unix(1000, 0)
	all.add(time.Hour)
	l.Observe(now, all, 0, 0, 0)
	require.Empty(t, l.Points(), "what was before is not known")
	for i := range maxLoadPoints + 5 {
		now = now.Add(2 * time.Second)
		all.add(time.Millisecond)
		all.add(time.Millisecond)
		all.add(time.Second)
		l.Observe(now, all, i, 1, 7)
	}
	points := l.Points()
	require.Len(t, points, maxLoadPoints)
	require.Equal(t, now, points[maxLoadPoints-1].Until)
	for i, p := range points {
		require.Equal(t, 2*time.Second, p.Took)
		require.EqualValues(t, 3, p.Latencies.Count())
		require.Equal(t, i+5, p.Running)
		p50, ok := p.Latencies.Percentile(50)
		require.True(t, ok)
		require.InEpsilon(t, 0.001, p50.Seconds(), 0.2)
		p99, _ := p.Latencies.P99()
		require.InEpsilon(t, 1, p99.Seconds(), 0.2)
	}
}
