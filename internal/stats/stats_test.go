package stats_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/stats"
)

func TestMedian(t *testing.T) {
	require.Zero(t, stats.Median(nil))
	require.Equal(t, 3.0, stats.Median([]float64{9, 1, 3}))
	require.Equal(t, 2.5, stats.Median([]float64{4, 1, 3, 2}))
	values := []float64{3, 1, 2}
	stats.Median(values)
	require.Equal(t, []float64{3, 1, 2}, values, "the caller's order stays")
}

func TestSpreadOf(t *testing.T) {
	require.Equal(t, stats.Spread{}, stats.SpreadOf(nil))
	require.Equal(t, stats.Spread{Median: 2, Min: 1, Max: 40, N: 3}, stats.SpreadOf([]float64{40, 1, 2}))
}

func TestQuantile(t *testing.T) {
	sorted := make([]time.Duration, 1000)
	for i := range sorted {
		sorted[i] = time.Duration(i + 1)
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 500, 0.99: 990, 0.9991: 1000, 1: 1000} {
		require.Equal(t, want, stats.Quantile(sorted, q), "%v", q)
	}
	require.Equal(t, time.Duration(7), stats.Quantile(sorted[:7], 0.99))
	require.Zero(t, stats.Quantile([]float64(nil), 0.5))
}

func TestRatioOfZeroIsZero(t *testing.T) {
	require.Equal(t, 0.5, stats.Ratio(1, 2))
	require.Zero(t, stats.Ratio(1, 0))
}
