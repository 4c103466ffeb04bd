package execution

import (
	"testing"

	tkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
	"fastddl/backfill/keyrange"
	"fastddl/kv"
)

// keyAt is the key of a row.
func keyAt[N int | uint64](handle N) []byte {
	return tablecodec.EncodeRowKeyWithHandle(100, tkv.IntHandle(handle))
}

// Regions that are no multiple of the parts are cut: no node has a third more to do than
// the others.
func TestCutPartsInsideTasks(t *testing.T) {
	var tasks []keyrange.Weighted
	for at := 0; at < 16_000; at += 1000 {
		tasks = append(tasks, keyrange.Weighted{KeyRange: kv.KeyRange{Start: keyAt(at), End: keyAt(at + 1000)}, Weight: 1})
	}
	parts := CutSubtasks(tasks, 3)
	require.Len(t, parts, 3)
	for _, p := range parts {
		require.InEpsilon(t, 16.0/3, keyrange.TotalWeight(keyrange.Load(p.Ranges)), tolerance)
		require.Len(t, p.Ranges, 6)
	}
	for _, p := range CutSubtasks(tasks, 4) {
		require.Len(t, p.Ranges, 4, "tasks that fit are not cut")
	}
}

// Parts are the tasks, in their order, in no more pieces than asked for, and of the same
// weight as far as the keys allow it.
func TestCutParts(t *testing.T) {
	r := backfilltest.Rand(t)
	for range 2000 {
		var tasks []keyrange.Weighted
		for at := uint64(0); len(tasks) < r.IntN(20); at += 1000 {
			weight := float64(r.IntN(5)) * 1e6
			tasks = append(tasks, keyrange.Weighted{KeyRange: kv.KeyRange{Start: keyAt(at), End: keyAt(at + 500 + r.Uint64N(501))}, Weight: weight})
		}
		n := 1 + r.IntN(12)
		parts := CutSubtasks(tasks, n)
		require.LessOrEqual(t, len(parts), n)
		var all []keyrange.Weighted
		for _, p := range parts {
			mine := keyrange.Load(p.Ranges)
			require.NotEmpty(t, mine)
			all = append(all, mine...)
			// A task has at least 500 keys: what cannot be cut off is less than that.
			require.LessOrEqual(t, keyrange.TotalWeight(mine), (1+2*tolerance)*keyrange.TotalWeight(tasks)/float64(n)+2*4e6/500)
		}
		require.InDelta(t, keyrange.TotalWeight(tasks), keyrange.TotalWeight(all), 1)
		merged, at := keyrange.Merge(all), 0
		for _, whole := range keyrange.Merge(tasks) {
			require.Less(t, at, len(merged), "a task is left out")
			require.Equal(t, whole.KeyRange, merged[at].KeyRange)
			at++
		}
		require.Len(t, merged, at)
	}
}
