package invariants

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	require.NotPanics(t, func() { Check(true, "all is well") })
	violated := func() { Check(false, "%d is not %d", 1, 2) }
	if Enabled {
		require.PanicsWithValue(t, Violation("invariant violated: 1 is not 2"), violated)
	} else {
		require.NotPanics(t, violated)
	}
}
