package flow

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
)

// The 99th percentile of random statements is right but for a fifth, of all and of those of the last minute.
func TestLatenciesOfTheLastMinute(t *testing.T) {
	rng := randtest.Rand(t)
	begin := time.Unix(1_700_000_000, 0)
	m := new(StatementMeter)
	type statement struct {
		end  time.Time
		took time.Duration
	}
	var all []statement
	p99 := func(of []statement) time.Duration {
		var took []time.Duration
		for _, s := range of {
			took = append(took, s.took)
		}
		slices.Sort(took)
		return took[(len(took)*99+99)/100-1]
	}
	right := func(want time.Duration, l Latencies) {
		got, ok := l.P99()
		require.True(t, ok)
		require.GreaterOrEqual(t, got, want-want/1000)
		require.LessOrEqual(t, got, want*6/5+leastLatency)
	}
	now := begin
	for range 20_000 {
		now = now.Add(time.Duration(rng.IntN(20)) * time.Millisecond)
		s := statement{now, time.Duration(1+rng.IntN(50)*rng.IntN(50)) * time.Millisecond}
		all = append(all, s)
		m.ended(now, s.took)
	}
	right(p99(all), m.Latencies())
	// Up to ten seconds less are in the last minute, by the spans.
	since := now.Sub(m.base) / latencySpan * latencySpan
	late := slices.DeleteFunc(slices.Clone(all), func(s statement) bool {
		return s.end.Before(m.base.Add(since - (latencySpans-1)*latencySpan))
	})
	require.Less(t, len(late), len(all))
	right(p99(late), m.LastMinute(now))

	before := m.Latencies()
	m.ended(now, time.Hour)
	got, ok := m.Latencies().Since(before).P99()
	require.True(t, ok)
	require.Greater(t, got, 4*time.Minute, "beyond the last bucket")
	_, ok = m.LastMinute(now.Add(2 * time.Minute)).P99()
	require.False(t, ok)
	_, ok = (*StatementMeter)(nil).LastMinute(now).P99()
	require.False(t, ok)
}
