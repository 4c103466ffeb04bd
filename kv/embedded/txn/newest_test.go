package txn

import (
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// A commit that is durable is seen by readers of what is newest, though its lock has not been removed yet: readers at a
// timestamp may have seen it.
func TestNewestReadsSeeWhatIsDurable(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	start := b.ts()
	b.prewritten(prewriteOf(start, "k", "new"))
	l := b.engine.table.get([]byte("k"))
	require.Nil(t, b.commitKey(start, b.ts(), "k"))
	b.engine.table.put(l) // as it was a moment ago
	defer b.engine.table.remove(l, 0)
	for name, read := range reads {
		if name == "barrier" {
			continue
		}
		value, err := read(t.Context(), b.engine, math.MaxUint64)
		require.NoError(t, err)
		require.Equal(t, "new", value, "%s: a durable commit is not seen", name)
	}
}
