package pebblekv

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	s, err := Open("db", Options{FS: vfs.NewMem()})
	require.NoError(t, err)
	txn, err := s.Begin(ctx)
	require.NoError(t, err)
	require.NoError(t, txn.Set([]byte("a"), []byte("1")))
	require.NoError(t, txn.Set([]byte("b"), []byte("2")))
	require.NoError(t, txn.Commit(ctx))
	txn, err = s.Begin(ctx)
	require.NoError(t, err)
	require.NoError(t, txn.Delete([]byte("a")))
	require.NoError(t, txn.Set([]byte("c"), []byte("3")))
	for _, rev := range []bool{false, true} {
		it, err := txn.Iter(kv.KeyRange{})
		if rev {
			require.NoError(t, it.Close())
			it, err = txn.IterReverse(kv.KeyRange{})
		}
		require.NoError(t, err)
		for it.Valid() {
			t.Logf("%v %s=%s", rev, it.Key(), it.Value())
			require.NoError(t, it.Next())
		}
		require.NoError(t, it.Close())
	}
	require.NoError(t, txn.Commit(ctx))
	require.NoError(t, s.Close())
}
