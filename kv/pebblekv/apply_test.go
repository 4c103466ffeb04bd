package pebblekv

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// TestTooLargeForABatch: a commit that the engine cannot take in one batch, where it would panic, is refused.
func TestTooLargeForABatch(t *testing.T) {
	s := open(t, "db", Options{FS: vfs.NewMem()})
	s.maxBatch = 1 << 10
	err := writeKeys(t.Context(), s, 400, "a", "b", "c")
	var large *kv.TxnTooLargeError
	require.ErrorAs(t, err, &large)
	require.ErrorIs(t, err, kv.ErrTxnTooLarge)
	require.Greater(t, large.Size, large.Limit)
	require.NotErrorIs(t, err, kv.ErrResultUndetermined)
	require.NoError(t, s.Healthy())
	require.NoError(t, writeKeys(t.Context(), s, 400, "a", "b"))
	requireReadable(t, s, true, "a", "b")
}
