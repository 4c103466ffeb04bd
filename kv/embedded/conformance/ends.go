package conformance

import (
	"math"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikvrpc"
)

var rollbackCases = []testCase{
	{"rollback/prewritten", testRollbackPrewritten},
	{"rollback/committed", testRollbackCommitted},
	{"rollback/repeated", testRollbackRepeated},
	{"rollback/cleanup", testCleanup},
	{"rollback/pessimistic", testPessimisticRollback},
	{"rollback/pessimistic_obeys_for_update_ts", testPessimisticRollbackForUpdateTS},
	{"rollback/pessimistic_leaves_prewritten_keys", testPessimisticRollbackPrewritten},
}

var statusCases = []testCase{
	{"status/locked", testStatusLocked},
	{"status/committed", testStatusCommitted},
	{"status/rolled_back", testStatusRolledBack},
	{"status/expired", testStatusExpired},
	{"status/expired_pessimistic", testStatusExpiredPessimistic},
	{"status/missing", testStatusMissing},
	{"status/missing_is_rolled_back", testStatusMissingRolledBack},
	{"status/missing_pessimistic", testStatusMissingPessimistic},
	{"status/push", testStatusPush},
	{"status/not_the_primary", testStatusNotPrimary},
	{"status/not_the_primary_and_pessimistic", testStatusNotPrimaryPessimistic},
	{"status/heartbeat", testHeartbeat},
	{"status/secondaries", testSecondaries},
}

var resolveCases = []testCase{
	{"resolve/scan_locks", testScanLocks},
	{"resolve/rollback", testResolveRollback},
	{"resolve/committed_by_the_primary", testResolveCommitted},
	{"resolve/lite", testResolveLite},
	{"resolve/several", testResolveSeveral},
}

func testRollbackPrewritten(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("a", "1"), put("b", "1"))
	require.Nil(t, c.rollback(start, "a", "b").Error)
	require.Empty(t, c.locks(c.ts()))
	require.Empty(t, c.read("a", c.ts()))
	c.write(put("a", "2"))
}

func testRollbackCommitted(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("k", "1"))
	c.mustCommit(start, c.ts(), "k")
	require.NotNil(t, c.rollback(start, "k").Error)
	require.Equal(t, "1", c.read("k", c.ts()))
}

func testRollbackRepeated(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("k", "1"))
	require.Nil(t, c.rollback(start, "k").Error)
	require.Nil(t, c.rollback(start, "k").Error)
}

func testCleanup(t *testing.T, c *cluster) {
	cleanup := func(start, current uint64) *kvrpcpb.CleanupResponse {
		return call[*kvrpcpb.CleanupResponse](c, tikvrpc.CmdCleanup, []byte("k"),
			&kvrpcpb.CleanupRequest{Key: []byte("k"), StartVersion: start, CurrentTs: current})
	}
	start := c.ts()
	c.mustPrewrite(start, put("k", "1"))
	require.NotNil(t, cleanup(start, c.ts()).Error.GetLocked(), "it has not expired")
	require.Nil(t, cleanup(start, 0).Error)
	require.Empty(t, c.locks(c.ts()))
	start = c.ts()
	c.mustPrewrite(start, put("k", "1"))
	commitTS := c.ts()
	c.mustCommit(start, commitTS, "k")
	require.Equal(t, commitTS, cleanup(start, 0).CommitVersion)
}

func testPessimisticRollback(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustLock(start, start, "a", "b")
	c.pessimisticRollback(start, start, "a")
	require.Len(t, c.locks(c.ts()), 1)
	c.mustLock(start, c.ts(), "a") // the transaction goes on
	c.pessimisticRollback(start, c.ts(), "a", "b")
	require.Empty(t, c.locks(c.ts()))
}

func testPessimisticRollbackForUpdateTS(t *testing.T, c *cluster) {
	start := c.ts()
	older := c.ts()
	newer := c.ts()
	c.mustLock(start, newer, "k")
	c.pessimisticRollback(start, older, "k")
	require.Len(t, c.locks(c.ts()), 1, "the lock is newer than the request")
	c.pessimisticRollback(start, newer, "k")
	require.Empty(t, c.locks(c.ts()))
}

func testPessimisticRollbackPrewritten(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustLock(start, start, "k")
	require.Empty(t, c.prewrite(start, pessimistic(start), put("k", "1")).Errors)
	c.pessimisticRollback(start, c.ts(), "k")
	c.mustCommit(start, c.ts(), "k")
	require.Equal(t, "1", c.read("k", c.ts()))
}

func testStatusLocked(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("p", "1"), put("s", "1"))
	resp := c.status("p", start, nil)
	require.Nil(t, resp.Error)
	require.EqualValues(t, lockTTL, resp.LockTtl)
	require.Zero(t, resp.CommitVersion)
	require.Equal(t, start, resp.LockInfo.GetLockVersion())
}

func testStatusCommitted(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("p", "1"))
	commitTS := c.ts()
	c.mustCommit(start, commitTS, "p")
	resp := c.status("p", start, nil)
	require.Nil(t, resp.Error)
	require.Zero(t, resp.LockTtl)
	require.Equal(t, commitTS, resp.CommitVersion)
}

func testStatusRolledBack(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("p", "1"))
	c.rollback(start, "p")
	resp := c.status("p", start, nil)
	require.Nil(t, resp.Error)
	require.Zero(t, resp.LockTtl)
	require.Zero(t, resp.CommitVersion)
}

func testStatusExpired(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("p", "1"), put("s", "1"))
	later := start + (2*lockTTL)<<18
	resp := c.status("p", start, func(r *kvrpcpb.CheckTxnStatusRequest) { r.CurrentTs = later })
	require.Equal(t, kvrpcpb.Action_TTLExpireRollback, resp.Action)
	require.Zero(t, resp.LockTtl)
	require.NotNil(t, c.commit(start, c.ts(), "p").Error)
	require.NotEmpty(t, c.prewrite(start, nil, put("p", "1")).Errors)
}

func testStatusExpiredPessimistic(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustLock(start, start, "p")
	later := start + (2*lockTTL)<<18
	resp := c.status("p", start, func(r *kvrpcpb.CheckTxnStatusRequest) {
		r.CurrentTs, r.ResolvingPessimisticLock = later, true
	})
	require.Equal(t, kvrpcpb.Action_TTLExpirePessimisticRollback, resp.Action)
	require.Empty(t, c.locks(c.ts()))
}

func testStatusMissing(t *testing.T, c *cluster) {
	start := c.ts()
	resp := c.status("p", start, nil)
	require.Equal(t, start, resp.Error.GetTxnNotFound().GetStartTs())
}

func testStatusMissingRolledBack(t *testing.T, c *cluster) {
	start := c.ts()
	resp := c.status("p", start, func(r *kvrpcpb.CheckTxnStatusRequest) { r.RollbackIfNotExist = true })
	require.Nil(t, resp.Error)
	require.Equal(t, kvrpcpb.Action_LockNotExistRollback, resp.Action)
	require.NotEmpty(t, c.prewrite(start, nil, put("p", "1")).Errors, "it was rolled back before it began")
}

func testStatusMissingPessimistic(t *testing.T, c *cluster) {
	start := c.ts()
	resp := c.status("p", start, func(r *kvrpcpb.CheckTxnStatusRequest) {
		r.RollbackIfNotExist, r.ResolvingPessimisticLock = true, true
	})
	require.Nil(t, resp.Error)
	require.Equal(t, kvrpcpb.Action_LockNotExistDoNothing, resp.Action)
	c.mustLock(start, c.ts(), "p")
}

func testStatusPush(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("p", "1"))
	early := c.ts()
	caller := c.ts()
	resp := c.status("p", start, func(r *kvrpcpb.CheckTxnStatusRequest) { r.CallerStartTs = caller })
	require.Equal(t, kvrpcpb.Action_MinCommitTSPushed, resp.Action)
	require.NotZero(t, resp.LockTtl)
	require.NotNil(t, c.commit(start, early, "p").Error.GetCommitTsExpired())
	resp = c.status("p", start, func(r *kvrpcpb.CheckTxnStatusRequest) { r.CallerStartTs = math.MaxUint64 })
	require.Equal(t, kvrpcpb.Action_MinCommitTSPushed, resp.Action)
	c.mustCommit(start, c.ts(), "p")
}

func testStatusNotPrimary(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("p", "1"), put("s", "1"))
	resp := c.status("s", start, nil)
	require.Equal(t, "p", string(resp.Error.GetPrimaryMismatch().GetLockInfo().GetPrimaryLock()))
}

// A client that has met a prewritten lock that names a key asks for that key, which has only a pessimistic lock that names
// another one. To that client the primary lock is missing.
func testStatusNotPrimaryPessimistic(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustLock(start, start, "p", "s")
	resp := c.status("s", start, func(r *kvrpcpb.CheckTxnStatusRequest) { r.ResolvingPessimisticLock = true })
	require.Equal(t, "p", string(resp.Error.GetPrimaryMismatch().GetLockInfo().GetPrimaryLock()))

	later := start + (2*lockTTL)<<18
	resp = c.status("s", start, func(r *kvrpcpb.CheckTxnStatusRequest) { r.CurrentTs = later })
	require.Equal(t, start, resp.Error.GetTxnNotFound().GetStartTs(), "the request did not ask to roll it back")
	require.Contains(t, byKey(c.locks(c.ts())), "p")
	require.Empty(t, c.prewrite(start, pessimistic(start), put("p", "1")).Errors)
	c.mustCommit(start, c.ts(), "p")

	start = c.ts()
	c.mustLock(start, start, "p", "s")
	resp = c.status("s", start, func(r *kvrpcpb.CheckTxnStatusRequest) { r.RollbackIfNotExist = true })
	require.Nil(t, resp.Error)
	require.Equal(t, kvrpcpb.Action_LockNotExistRollback, resp.Action)
	require.NotContains(t, byKey(c.locks(c.ts())), "s")
}

func byKey(locks []*kvrpcpb.LockInfo) map[string]*kvrpcpb.LockInfo {
	found := make(map[string]*kvrpcpb.LockInfo)
	for _, l := range locks {
		found[string(l.Key)] = l
	}
	return found
}

func testHeartbeat(t *testing.T, c *cluster) {
	beat := func(start, ttl uint64) *kvrpcpb.TxnHeartBeatResponse {
		return call[*kvrpcpb.TxnHeartBeatResponse](c, tikvrpc.CmdTxnHeartBeat, []byte("p"),
			&kvrpcpb.TxnHeartBeatRequest{PrimaryLock: []byte("p"), StartVersion: start, AdviseLockTtl: ttl})
	}
	start := c.ts()
	require.NotNil(t, beat(start, lockTTL).Error)
	c.mustLock(start, start, "p")
	require.EqualValues(t, 2*lockTTL, beat(start, 2*lockTTL).LockTtl)
	require.EqualValues(t, 2*lockTTL, beat(start, lockTTL).LockTtl, "it is never cut short")
	require.EqualValues(t, 2*lockTTL, c.status("p", start, nil).LockTtl)
	require.Empty(t, c.prewrite(start, pessimistic(start), put("p", "1")).Errors)
	require.EqualValues(t, 2*lockTTL, c.status("p", start, nil).LockTtl, "prewriting keeps it")
}

func testSecondaries(t *testing.T, c *cluster) {
	check := func(start uint64, keys ...string) *kvrpcpb.CheckSecondaryLocksResponse {
		return call[*kvrpcpb.CheckSecondaryLocksResponse](c, tikvrpc.CmdCheckSecondaryLocks, []byte(keys[0]),
			&kvrpcpb.CheckSecondaryLocksRequest{StartVersion: start, Keys: byteKeys(keys)})
	}
	start := c.ts()
	c.mustPrewrite(start, put("p", "1"), put("s", "1"))
	require.Len(t, check(start, "s").Locks, 1)
	commitTS := c.ts()
	c.mustCommit(start, commitTS, "p", "s")
	require.Equal(t, commitTS, check(start, "s").CommitTs)
	start = c.ts()
	resp := check(start, "x")
	require.Empty(t, resp.Locks)
	require.Zero(t, resp.CommitTs)
	require.NotEmpty(t, c.prewrite(start, nil, put("x", "1")).Errors)
}

func testScanLocks(t *testing.T, c *cluster) {
	first, second := c.ts(), c.ts()
	c.mustPrewrite(second, put("b", "1"), put("d", "1"))
	c.mustLock(first, first, "a")
	third := c.ts()
	c.mustLock(third, third, "c")
	var keys []string
	for _, l := range c.locks(second) {
		keys = append(keys, string(l.Key))
	}
	require.Equal(t, []string{"a", "b", "d"}, keys, "in order, those that began in time, pessimistic ones too")
	resp := call[*kvrpcpb.ScanLockResponse](c, tikvrpc.CmdScanLock, []byte("b"),
		&kvrpcpb.ScanLockRequest{MaxVersion: c.ts(), StartKey: []byte("b"), EndKey: []byte("d"), Limit: 100})
	require.Len(t, resp.Locks, 2)
	resp = call[*kvrpcpb.ScanLockResponse](c, tikvrpc.CmdScanLock, []byte("a"), &kvrpcpb.ScanLockRequest{MaxVersion: c.ts(), Limit: 1})
	require.Len(t, resp.Locks, 1)
}

func (c *cluster) resolve(req *kvrpcpb.ResolveLockRequest) {
	resp := call[*kvrpcpb.ResolveLockResponse](c, tikvrpc.CmdResolveLock, []byte("a"), req)
	require.Nil(c.t, resp.Error)
}

func testResolveRollback(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("a", "1"), put("b", "1"))
	c.resolve(&kvrpcpb.ResolveLockRequest{StartVersion: start})
	require.Empty(t, c.locks(c.ts()))
	require.NotNil(t, c.commit(start, c.ts(), "a").Error)
}

func testResolveCommitted(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("a", "1"), put("b", "2"))
	commitTS := c.ts()
	c.mustCommit(start, commitTS, "a")
	c.resolve(&kvrpcpb.ResolveLockRequest{StartVersion: start, CommitVersion: commitTS})
	require.Empty(t, c.locks(c.ts()))
	require.Equal(t, "2", c.read("b", commitTS))
}

func testResolveLite(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("a", "1"), put("b", "2"))
	commitTS := c.ts()
	c.mustCommit(start, commitTS, "a")
	c.resolve(&kvrpcpb.ResolveLockRequest{StartVersion: start, CommitVersion: commitTS, Keys: byteKeys([]string{"b"})})
	require.Equal(t, "2", c.read("b", c.ts()))
}

func testResolveSeveral(t *testing.T, c *cluster) {
	first, second := c.ts(), c.ts()
	c.mustPrewrite(first, put("a", "1"), put("b", "1"))
	c.mustPrewrite(second, put("c", "2"), put("d", "2"))
	commitTS := c.ts()
	c.mustCommit(second, commitTS, "c")
	c.resolve(&kvrpcpb.ResolveLockRequest{TxnInfos: []*kvrpcpb.TxnInfo{{Txn: first}, {Txn: second, Status: commitTS}}})
	require.Empty(t, c.locks(c.ts()))
	require.Empty(t, c.read("b", c.ts()))
	require.Equal(t, "2", c.read("d", c.ts()))
}
