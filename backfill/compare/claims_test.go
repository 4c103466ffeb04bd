package compare_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/backfill/backfilltest"
)

// TestCompareFindsSharedKeysThatHaveAnEntry: a key of a unique index that two rows
// claim is a difference, also if the index has the entry of one of them.
func TestCompareFindsSharedKeysThatHaveAnEntry(t *testing.T) {
	table, kinds := backfilltest.PlainTable()
	f := newFixture(t, table, kinds)
	idx := backfilltest.IndexOn(9, true, 1)
	f.Put(1, 7)
	f.Put(2, 7)
	key, value, _ := backfilltest.LibraryEntry(t, table, idx, f.RowWith(1).Values, f.RowWith(1).Handle)
	var c backfilltest.Changes
	c.Put(key, value)
	f.Commit(c)
	res := f.compare(idx)
	require.Len(t, res.Differences, 1)
	require.EqualValues(t, 2, res.Differences[0].Rows)
	require.Equal(t, []byte(value), res.Differences[0].Actual)
}
