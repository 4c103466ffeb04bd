package backfill

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCompareFindsSharedKeysThatHaveAnEntry: a key of a unique index that two rows
// claim is a difference, also if the index has the entry of one of them.
func TestCompareFindsSharedKeysThatHaveAnEntry(t *testing.T) {
	table, kinds := plainTable()
	f := newFixture(t, table, kinds)
	idx := indexOn(9, true, 1)
	f.put(1, 7)
	f.put(2, 7)
	key, value, _ := libraryEntry(t, table, idx, f.rowWith(1).values, f.rowWith(1).handle)
	var c changes
	c.put(key, value)
	f.commit(c)
	res := f.compare(idx)
	require.Len(t, res.Differences, 1)
	require.EqualValues(t, 2, res.Differences[0].Rows)
	require.Equal(t, []byte(value), res.Differences[0].Actual)
}
