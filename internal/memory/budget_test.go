package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/memory"
)

func TestDividedMemoryAddsUpToTheLimit(t *testing.T) {
	for _, limit := range []int64{memory.Least, 300<<20 + 7, 512 << 20, 4 << 30, 1 << 40} {
		b := memory.Divide(limit)
		require.Equal(t, limit, b.Limit)
		require.Equal(t, limit, b.BlockCache+4*b.MemTable+b.Sorting+b.Heap)
		for _, part := range []int64{b.BlockCache, b.MemTable, b.Sorting, b.Heap} {
			require.GreaterOrEqual(t, part, min(limit/64, 64<<20), "%+v", b)
		}
		require.LessOrEqual(t, b.MemTable, int64(64<<20))
		require.Greater(t, b.Heap, limit/2, "the SQL layer has most")
		require.Less(t, b.ServerLimit(), b.Heap)
		require.LessOrEqual(t, b.StatementQuota(), min(b.ServerLimit()/2, 1<<30))
		require.Greater(t, b.StatementQuota(), int64(32<<20))
	}
	small := memory.Divide(512 << 20)
	require.EqualValues(t, 128<<20, small.BlockCache)
	require.EqualValues(t, 8<<20, small.MemTable)
	require.EqualValues(t, 64<<20, small.Sorting)
	require.EqualValues(t, 288<<20, small.Heap)
}

func TestDefaultLimitIsAShareOfTheMachine(t *testing.T) {
	b := memory.Divide(0)
	require.InEpsilon(t, float64(memory.Machine())*0.75, float64(b.Limit), 0.01)
	require.Equal(t, memory.Divide(memory.Least), memory.Divide(1), "with less nothing works")
}
