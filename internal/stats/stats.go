package stats

import (
	"cmp"
	"math"
	"slices"
)

// Spread sums up repeated measurements.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// N is the number of measurements; the rest is zero where it is.
	N int `json:"n"`
}

// SpreadOf sums up values.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Median: Median(values), Min: slices.Min(values), Max: slices.Max(values), N: len(values)}
}

// Median is the middle value, or the mean of the two middle ones; 0 of none.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// Quantile is the smallest of the sorted values that at least the share q of
// all values does not exceed; the zero value of none. It is always one of the
// values: with fewer than 100, the 0.99 quantile is the highest one.
func Quantile[T cmp.Ordered](sorted []T, q float64) T {
	if len(sorted) == 0 {
		var none T
		return none
	}
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Ratio is a/b, or 0 where b is 0.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
