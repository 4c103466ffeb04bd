package backoff

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExponential(t *testing.T) {
	for n, want := range map[int]time.Duration{
		-1: 50, 0: 50, 1: 50, 2: 100, 3: 200, 6: 1600, 7: 2000, 100: 2000, math.MaxInt: 2000,
	} {
		require.Equal(t, want*time.Millisecond, Exponential(n, 50*time.Millisecond, 2*time.Second), "%d failures", n)
	}
}
