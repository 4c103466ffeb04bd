package session

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShownNumbersAreShort: they have the digits that tell something, and what is not done is
// not shown as done.
func TestShownNumbersAreShort(t *testing.T) {
	for _, test := range []struct {
		value  float64
		digits int
		want   float64
	}{
		{3.9536095270000002, 3, 3.953}, {45.29472351214219, 2, 45.29}, {99.9999, 2, 99.99}, {100, 2, 100}, {0, 2, 0},
		{0.29, 2, 0.29}, {1.1, 1, 1.1}, {123456.789, 0, 123456}, {math.Inf(1), 1, math.Inf(1)},
	} {
		require.Equal(t, test.want, ShortNumber(test.value, test.digits), "%v", test.value)
	}
}
