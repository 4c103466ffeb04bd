package load

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/load/rows"
)

// A round that is due to end before it has begun reads something all the same: otherwise a load with a short interval would not end.
func TestEachRoundReadsSomething(t *testing.T) {
	ctx := context.Background()
	q := newQueue([]rows.Chunk{{File: "a"}, {File: "b"}, {File: "c"}}, 2)
	q.end()
	c, ok := q.take(ctx)
	require.True(t, ok)
	require.True(t, q.yields())
	_, ok = q.take(ctx)
	require.False(t, ok)
	q.giveBack(c)
	_, ok = q.take(ctx)
	require.False(t, ok)
	require.Equal(t, []rows.Chunk{{File: "a"}, {File: "b"}, {File: "c"}}, q.left())
}

// Workers come and go with the limit, as far as there are chunks.
func TestWorkersFollowTheLimit(t *testing.T) {
	ctx := context.Background()
	q := newQueue([]rows.Chunk{{File: "a"}, {File: "b"}, {File: "c"}}, 1)
	started := 0
	start := func(n int) { started += n }
	q.setLimit(9, start)
	require.Equal(t, 3, started)
	q.setLimit(1, start)
	for range 3 {
		_, ok := q.take(ctx)
		require.False(t, ok, "there are more workers than may be")
	}
	c, ok := q.take(ctx)
	require.True(t, ok)
	require.False(t, q.yields())
	q.stop()
	require.True(t, q.yields())
	q.giveBack(c)
	_, ok = q.take(ctx)
	require.False(t, ok)
	q.setLimit(9, start)
	require.Equal(t, 3, started, "a round that is over starts no workers")
	require.Len(t, q.left(), 3)
}
