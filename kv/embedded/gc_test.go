package embedded

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/tidb/pkg/store/gcworker"
	"github.com/stretchr/testify/require"
)

// TestGCWorker lets TiDB's GC worker do what it does in a round: it resolves what was left behind, and then old versions go.
func TestGCWorker(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	ctx := t.Context()
	for _, value := range []string{"1", "2", "3"} {
		set(t, s, "k", value, "other", value)
	}
	abandoned, err := s.Builds().CurrentTS(ctx)
	require.NoError(t, err)
	resp, err := s.service.KvPrewrite(ctx, &kvrpcpb.PrewriteRequest{
		Mutations:    []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: []byte("k"), Value: []byte("4")}},
		PrimaryLock:  []byte("k"),
		StartVersion: abandoned,
		LockTtl:      1,
	})
	require.NoError(t, err)
	require.Empty(t, resp.Errors)
	lock, err := s.service.KvPessimisticLock(ctx, &kvrpcpb.PessimisticLockRequest{
		Mutations:    []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_PessimisticLock, Key: []byte("p")}},
		PrimaryLock:  []byte("p"),
		StartVersion: abandoned + 1,
		ForUpdateTs:  abandoned + 1,
		LockTtl:      1,
	})
	require.NoError(t, err)
	require.Empty(t, lock.Errors)
	time.Sleep(5 * time.Millisecond) // for the locks to expire
	safePoint, err := s.Builds().CurrentTS(ctx)
	require.NoError(t, err)
	require.NoError(t, gcworker.RunResolveLocks(ctx, s.storage, s.PDClient(), safePoint, "test", 2))
	require.Zero(t, s.service.engine.Locks())
	_, err = s.PDClient().UpdateGCSafePoint(ctx, safePoint)
	require.NoError(t, err)
	for _, key := range []string{"k", "other"} {
		require.Eventually(t, func() bool {
			versions, err := s.pebble.Versions(ctx, []byte(key))
			return err == nil && len(versions) == 1 && string(versions[0].Value) == "3"
		}, time.Minute, time.Millisecond)
	}
}
