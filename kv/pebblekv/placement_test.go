package pebblekv

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// TestImportLiesAtTheBottom: an import whose keys lie between those of one file
// goes to the bottom level beside it, where nothing has to be compacted.
func TestImportLiesAtTheBottom(t *testing.T) {
	s := inMemory(t)
	put(t, s, "a", "1", "z", "1")
	lower, upper := engineBounds(kv.KeyRange{})
	require.NoError(t, s.db.Compact(t.Context(), lower, upper, false))
	before := s.db.Metrics()
	require.EqualValues(t, 1, before.Levels[bottomLevel].TablesCount)

	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	units := []kv.ImportUnit{finishedUnit(t, s, version, "2", "i1", "i2"), finishedUnit(t, s, version, "2", "i3", "i4")}
	require.NoError(t, s.Import(t.Context(), units))

	require.Never(t, func() bool {
		m := s.db.Metrics()
		return m.Levels[bottomLevel].TablesIngested != 2 || m.Compact.Count != before.Compact.Count
	}, 100*time.Millisecond, 10*time.Millisecond, "not at the bottom, or compacted")
	var keys []string
	for _, v := range rawVersions(t, s) {
		keys = append(keys, v.key+v.value)
	}
	require.Equal(t, []string{"a1", "i12", "i22", "i32", "i42", "z1"}, keys)
}
