package compare

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/execution"
	"fastddl/backfill/keyrange"
	"fastddl/kv"
)

// Parts of a table and of a comparison that are as large as they come fit into rows of a
// table, and together are everything.
func TestLargePartsFitIntoRows(t *testing.T) {
	const n, pieces, rowLimit = 3, 200_000, 6 << 20
	key := func(prefix string, i int) []byte { return fmt.Appendf(nil, "%s%040d", prefix, i) }
	c := new(comparison)
	for i := range pieces {
		c.rows = append(c.rows, keyrange.Weighted{KeyRange: kv.KeyRange{Start: key("r", i), End: key("r", i+1)}, Weight: 1})
		c.counts = append(c.counts, kv.KeyRange{Start: key("r", i), End: key("r", i+1)})
		c.entries = append(c.entries, keyrange.Indexed{KeyRange: kv.KeyRange{Start: key("i", i), End: key("i", i+1)}, Index: i * 2 / pieces})
		if i == pieces/2-1 { // two partitions; two indexes, which adjoin
			c.rows[i].End, c.counts[i].End = key("r", i), key("r", i)
		}
	}
	parts := c.cut(n, execution.CompareSpec{Buckets: minBuckets}, c.entries)
	require.Len(t, parts, n)
	var rows []keyrange.Weighted
	var counts []kv.KeyRange
	var entries []keyrange.Indexed
	for _, p := range parts {
		data, err := json.Marshal(p)
		require.NoError(t, err)
		require.Less(t, len(data), rowLimit/2)
		rows = append(rows, keyrange.Load(p.Ranges)...)
		for _, r := range p.Compare.Counts {
			counts = append(counts, kv.KeyRange{Start: r.Start, End: r.End})
		}
		for _, r := range p.Compare.Entries {
			entries = append(entries, keyrange.Indexed{KeyRange: kv.KeyRange{Start: r.Start, End: r.End}, Index: r.Index})
		}
	}
	require.Greater(t, len(rows), n*execution.MaxSubtaskRanges/2, "they can be read in parallel")
	require.Equal(t, keyrange.Merge(c.rows), keyrange.Merge(rows))
	require.Equal(t, keyrange.FewerRanges(c.counts, 1), keyrange.FewerRanges(counts, 1))
	require.Equal(t, keyrange.FewerIndexed(c.entries, 1), keyrange.FewerIndexed(entries, 1))
	require.Equal(t, []keyrange.Indexed{
		{KeyRange: kv.KeyRange{Start: key("i", 0), End: key("i", pieces/2)}, Index: 0}, {KeyRange: kv.KeyRange{Start: key("i", pieces/2), End: key("i", pieces)}, Index: 1},
	}, keyrange.FewerIndexed(entries, 1), "entries of one index are not taken for those of another")
}
