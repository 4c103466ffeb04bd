package records

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHistoryKeepsWhatEndedLast: by their ends and not by their IDs. What has ended a moment ago stays in any case.
func TestHistoryKeepsWhatEndedLast(t *testing.T) {
	minute := time.Minute.Microseconds()
	jobs := []ended{{1, 3 * minute}, {2, 9 * minute}, {3, 8 * minute}, {4, math.MaxInt64}, {5, math.MaxInt64}, {6, minute}}
	for _, test := range []struct {
		keep, grace int64
		last        int64
		past        []int64
	}{
		{2, 0, 5, []int64{4, 5, 2, 3}},
		{1, 120, 5, []int64{4, 5, 2, 3, 1}},
		{0, 120, 6, []int64{4, 5, 2, 3, 1}},
		{5, 0, 4, []int64{4}},
		{6, 0, 0, nil},
		{1024, 0, 0, nil},
	} {
		last, past := Trim{Keep: test.keep, GraceSeconds: test.grace}.past(jobs)
		require.Equal(t, test.past, past)
		require.Equal(t, test.last, last)
	}
}
