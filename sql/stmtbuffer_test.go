package sql

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// A statement buffer that is flushed gives the transaction what writing to it
// directly would have given, whatever was reverted on the way; before that the
// transaction's iterators see nothing of it.
func TestStatementBuffer(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	store, err := pebblekv.Open("db", pebblekv.Options{FS: vfs.NewMem(), CacheBytes: 16 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	ctx := context.Background()
	for range 200 {
		direct, err := store.Begin(ctx)
		require.NoError(t, err)
		beneath, err := store.Begin(ctx)
		require.NoError(t, err)
		for i := range 5 {
			k := fmt.Appendf(nil, "k%d", i)
			require.NoError(t, errors.Join(direct.Set(k, k), beneath.Set(k, k)))
		}
		before := contents(t, beneath)
		buffer := newStatementBuffer(beneath)
		start := direct.Checkpoint()
		type point struct{ d, b kv.Checkpoint }
		points := []point{{start, buffer.Checkpoint()}}
		for range r.IntN(40) {
			k := fmt.Appendf(nil, "k%d", r.IntN(10))
			switch r.IntN(6) {
			case 5:
				require.NoError(t, errors.Join(direct.Delete(k, kv.Withdrawn), buffer.Delete(k, kv.Withdrawn)))
			case 0, 1:
				v := fmt.Appendf(nil, "v%d", r.IntN(1000))
				require.NoError(t, errors.Join(direct.Set(k, v, kv.NoConflictCheck), buffer.Set(k, v, kv.NoConflictCheck)))
			case 2:
				require.NoError(t, errors.Join(direct.Delete(k), buffer.Delete(k)))
			case 3:
				points = append(points, point{direct.Checkpoint(), buffer.Checkpoint()})
			case 4:
				i := r.IntN(len(points))
				direct.RevertTo(points[i].d)
				buffer.RevertTo(points[i].b)
				points = points[:i+1]
			}
			want, wantErr := direct.Get(ctx, k)
			got, gotErr := buffer.Get(ctx, k)
			require.Equal(t, wantErr, gotErr)
			require.Equal(t, want, got)
			require.Equal(t, direct.Written(k), buffer.Written(k))
		}
		require.Equal(t, before, contents(t, beneath))
		require.NoError(t, buffer.flush())
		require.Equal(t, contents(t, direct), contents(t, beneath))
		require.Equal(t, direct.Len(), beneath.Len(), "tombstones count")
		require.Zero(t, buffer.size)
		require.NoError(t, errors.Join(direct.Rollback(), beneath.Rollback()))
	}
}

func contents(t *testing.T, r kv.Retriever) map[string]string {
	it, err := r.Iter(kv.KeyRange{Start: []byte("k"), End: []byte("l")})
	require.NoError(t, err)
	defer func() { require.NoError(t, it.Close()) }()
	out := map[string]string{}
	for it.Valid() {
		out[string(it.Key())] = string(it.Value())
		require.NoError(t, it.Next())
	}
	return out
}

func TestStatementBufferRefusesWhatTransactionsRefuse(t *testing.T) {
	store, err := pebblekv.Open("db", pebblekv.Options{FS: vfs.NewMem(), CacheBytes: 16 << 20, TxnSizeLimit: 100})
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	txn, err := store.Begin(context.Background())
	require.NoError(t, err)
	defer func() { require.NoError(t, txn.Rollback()) }()
	b := newStatementBuffer(txn)
	require.ErrorIs(t, b.Set([]byte("k"), nil), kv.ErrEmptyValue)
	require.NoError(t, b.Set([]byte("k1"), []byte("v")))
	require.NoError(t, b.Set([]byte("k2"), make([]byte, 200)))
	require.ErrorIs(t, b.flush(), kv.ErrTxnTooLarge)
	require.Zero(t, txn.Len(), "a flush that fails leaves nothing")
}
