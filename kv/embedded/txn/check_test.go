package txn

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
)

// A belief about a key that is wrong because another transaction has changed it is a conflict, which the client can handle,
// also for keys that are not checked for conflicts.
func TestWrongAssertionsAreConflictsFirst(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	start := b.ts()
	b.write("k", "1")
	insert := func(change func(*kvrpcpb.PrewriteRequest)) *kvrpcpb.KeyError {
		req := prewriteOf(start, "k", "2")
		req.Mutations[0].Assertion = kvrpcpb.Assertion_NotExist
		req.AssertionLevel = kvrpcpb.AssertionLevel_Strict
		change(req)
		resp, err := b.engine.Prewrite(t.Context(), req)
		require.NoError(t, err)
		require.Len(t, resp.Errors, 1)
		return resp.Errors[0]
	}
	unlocked := insert(func(req *kvrpcpb.PrewriteRequest) {
		req.ForUpdateTs = start
		req.PessimisticActions = []kvrpcpb.PrewriteRequest_PessimisticAction{kvrpcpb.PrewriteRequest_SKIP_PESSIMISTIC_CHECK}
	})
	require.Contains(t, unlocked.Retryable, "NonLockKeyConflict", "%v", unlocked)
	unchecked := insert(func(req *kvrpcpb.PrewriteRequest) { req.SkipConstraintCheck = true })
	require.Equal(t, kvrpcpb.WriteConflict_Optimistic, unchecked.GetConflict().GetReason(), "%v", unchecked)

	start = b.ts()
	wrong := insert(func(req *kvrpcpb.PrewriteRequest) { req.SkipConstraintCheck = true })
	require.NotNil(t, wrong.AssertionFailed, "it is unchanged: %v", wrong)
}

// A pessimistic lock counts for a prewrite only if it is the one that the client knows, neither an older nor a newer one.
func TestConstraintsNameTheLock(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	start := b.ts()
	older, locked, newer := b.ts(), b.ts(), b.ts()
	lock, err := b.engine.PessimisticLock(t.Context(), &kvrpcpb.PessimisticLockRequest{
		Mutations:   []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_PessimisticLock, Key: []byte("k")}},
		PrimaryLock: []byte("k"), StartVersion: start, ForUpdateTs: locked, LockTtl: 60_000,
	})
	require.NoError(t, err)
	require.Empty(t, lock.Errors)
	for _, expected := range []uint64{older, newer, locked} {
		req := prewriteOf(start, "k", "1")
		req.ForUpdateTs = newer
		req.PessimisticActions = []kvrpcpb.PrewriteRequest_PessimisticAction{kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK}
		req.ForUpdateTsConstraints = []*kvrpcpb.PrewriteRequest_ForUpdateTSConstraint{{ExpectedForUpdateTs: expected}}
		resp, err := b.engine.Prewrite(t.Context(), req)
		require.NoError(t, err)
		if expected == locked {
			require.Empty(t, resp.Errors)
			continue
		}
		require.Len(t, resp.Errors, 1, "the lock is of %d and not of %d", locked, expected)
		require.Contains(t, resp.Errors[0].Retryable, "ForUpdateTsMismatch")
	}
}

// A request that locks in spite of a newer version gets that version to decide by, and not the error that the key exists.
func TestForcedLocksReportTheConflictFirst(t *testing.T) {
	b := openProtocol(t, vfs.NewMem())
	start := b.ts()
	newer := b.write("k", "1")
	resp, err := b.engine.PessimisticLock(t.Context(), &kvrpcpb.PessimisticLockRequest{
		Mutations:   []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_PessimisticLock, Key: []byte("k"), Assertion: kvrpcpb.Assertion_NotExist}},
		PrimaryLock: []byte("k"), StartVersion: start, ForUpdateTs: start, LockTtl: 60_000,
		WakeUpMode: kvrpcpb.PessimisticLockWakeUpMode_WakeUpModeForceLock,
	})
	require.NoError(t, err)
	require.Empty(t, resp.Errors, "the conflict is not reported")
	require.Len(t, resp.Results, 1)
	require.Equal(t, kvrpcpb.PessimisticLockKeyResultType_LockResultLockedWithConflict, resp.Results[0].Type)
	require.Equal(t, newer, resp.Results[0].LockedWithConflictTs)
}
