package randtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSeedsAreRepeatedByTheEnvironment(t *testing.T) {
	var first, second uint64
	t.Run("random", func(t *testing.T) {
		first, second = Seed(t), Seed(t)
		require.NotEqual(t, first, second)
	})
	t.Run("another", func(t *testing.T) { require.NotEqual(t, first, Seed(t)) })
	t.Setenv(seedVariable, "42")
	t.Run("fixed", func(t *testing.T) {
		require.EqualValues(t, 42, Seed(t))
		second = Seed(t)
	})
	t.Run("the same again", func(t *testing.T) {
		require.EqualValues(t, 42, Seed(t))
		require.Equal(t, second, Seed(t))
	})
	require.Empty(t, tests)
}

func TestTime(t *testing.T) {
	t.Setenv("FASTDDL_LONG", "")
	require.Equal(t, time.Second, Time(t, time.Second, time.Minute))
	t.Setenv("FASTDDL_LONG", "1")
	require.Equal(t, time.Minute, Time(t, time.Second, time.Minute))
	t.Setenv(timeVariable, "3s")
	require.Equal(t, 3*time.Second, Time(t, time.Second, time.Minute))
}
