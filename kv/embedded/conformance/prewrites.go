package conformance

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
)

var prewriteCases = []testCase{
	{"prewrite/conflict", testPrewriteConflict},
	{"prewrite/conflict_with_a_lock_record", testPrewriteConflictLockRecord},
	{"prewrite/locked", testPrewriteLocked},
	{"prewrite/all_or_nothing", testPrewriteAllOrNothing},
	{"prewrite/repeated", testPrewriteRepeated},
	{"prewrite/repeated_after_commit", testPrewriteAfterCommit},
	{"prewrite/after_rollback", testPrewriteAfterRollback},
	{"prewrite/insert", testInsert},
	{"prewrite/check_not_exists", testCheckNotExists},
	{"prewrite/delete_leaves_a_tombstone", testDeleteLeavesTombstone},
	{"prewrite/assertions", testAssertions},
	{"prewrite/async_commit_is_optional", testAsyncCommit},
	{"prewrite/pessimistic_lock_missing", testPessimisticLockMissing},
	{"prewrite/pessimistic_amended", testPessimisticAmended},
	{"prewrite/pessimistic_unlocked_key", testPessimisticUnlockedKey},
	{"prewrite/pessimistic_constraint_check", testPessimisticConstraintCheck},
	{"prewrite/pessimistic_for_update_ts_constraint", testForUpdateTSConstraint},
	{"prewrite/optimistic_over_a_pessimistic_lock_of_its_own", testOptimisticOverPessimistic},
	{"prewrite/retry_of_unlocked_keys_is_checked", testRetryIsChecked},
}

func testPrewriteConflict(t *testing.T, c *cluster) {
	start := c.ts()
	commitTS := c.write(put("k", "1"))
	conflict := refused(t, c.prewrite(start, nil, put("k", "2"))).GetConflict()
	require.NotNil(t, conflict)
	require.Equal(t, start, conflict.StartTs)
	require.Equal(t, commitTS, conflict.ConflictCommitTs)
	require.Equal(t, "k", string(conflict.Key))
	require.Equal(t, kvrpcpb.WriteConflict_Optimistic, conflict.Reason)
	c.mustPrewrite(c.ts(), put("k", "2"))
}

func testPrewriteConflictLockRecord(t *testing.T, c *cluster) {
	start := c.ts()
	commitTS := c.write(lockOnly("k"))
	require.Equal(t, commitTS, refused(t, c.prewrite(start, nil, put("k", "2"))).GetConflict().GetConflictCommitTs())
	require.Empty(t, c.read("k", c.ts()))
}

func testPrewriteLocked(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("p", "1"), put("k", "1"))
	locked := refused(t, c.prewrite(c.ts(), nil, put("k", "2"))).GetLocked()
	require.NotNil(t, locked)
	require.Equal(t, start, locked.LockVersion)
	require.Equal(t, "p", string(locked.PrimaryLock))
	require.Equal(t, "k", string(locked.Key))
	require.EqualValues(t, lockTTL, locked.LockTtl)
	require.Equal(t, kvrpcpb.Op_Put, locked.LockType)
}

func testPrewriteAllOrNothing(t *testing.T, c *cluster) {
	c.mustPrewrite(c.ts(), put("b", "1"))
	require.NotNil(t, refused(t, c.prewrite(c.ts(), nil, put("a", "2"), put("b", "2"), put("c", "2"))).GetLocked())
	c.mustPrewrite(c.ts(), put("a", "3"), put("c", "3"))
}

func testPrewriteRepeated(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("k", "1"))
	c.mustPrewrite(start, put("k", "1"))
	c.mustCommit(start, c.ts(), "k")
	require.Equal(t, "1", c.read("k", c.ts()))
}

func testPrewriteAfterCommit(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("k", "1"))
	c.mustCommit(start, c.ts(), "k")
	// The answer may have been lost: the second copy must not lock; its answer does not matter.
	c.prewrite(start, nil, put("k", "1"))
	require.Empty(t, c.locks(c.ts()))
	require.Equal(t, "1", c.read("k", c.ts()))
}

func testPrewriteAfterRollback(t *testing.T, c *cluster) {
	start := c.ts()
	require.Nil(t, c.rollback(start, "k").Error)
	conflict := refused(t, c.prewrite(start, nil, put("k", "1"))).GetConflict()
	require.NotNil(t, conflict)
	require.Equal(t, kvrpcpb.WriteConflict_SelfRolledBack, conflict.Reason)
	require.Empty(t, c.locks(c.ts()))
}

func testInsert(t *testing.T, c *cluster) {
	c.write(insert("k", "1"))
	require.Equal(t, "k", string(refused(t, c.prewrite(c.ts(), nil, insert("k", "2"))).GetAlreadyExist().GetKey()))
	c.write(del("k"))
	c.write(insert("k", "3"))
	require.Equal(t, "3", c.read("k", c.ts()))
}

func testCheckNotExists(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	require.NotNil(t, refused(t, c.prewrite(c.ts(), nil, put("p", "1"), checkNotExists("k"))).GetAlreadyExist())
	start := c.ts()
	c.mustPrewrite(start, put("p", "1"), checkNotExists("free"))
	require.Len(t, c.locks(c.ts()), 1, "the checked key is not locked")
	c.mustCommit(start, c.ts(), "p")
}

func testDeleteLeavesTombstone(t *testing.T, c *cluster) {
	start := c.ts()
	commitTS := c.write(del("k")) // there is nothing to delete
	require.Equal(t, commitTS, refused(t, c.prewrite(start, nil, put("k", "1"))).GetConflict().GetConflictCommitTs())
}

func testAssertions(t *testing.T, c *cluster) {
	strict := func(r *kvrpcpb.PrewriteRequest) { r.AssertionLevel = kvrpcpb.AssertionLevel_Strict }
	fast := func(r *kvrpcpb.PrewriteRequest) { r.AssertionLevel = kvrpcpb.AssertionLevel_Fast }
	commitTS := c.write(put("k", "1"))
	for _, level := range []func(*kvrpcpb.PrewriteRequest){strict, fast} {
		start := c.ts()
		broken := refused(t, c.prewrite(start, level, asserting(put("k", "2"), kvrpcpb.Assertion_NotExist))).GetAssertionFailed()
		require.NotNil(t, broken)
		require.Equal(t, "k", string(broken.Key))
		require.Equal(t, commitTS, broken.ExistingCommitTs)
		broken = refused(t, c.prewrite(start, level, asserting(put("none", "2"), kvrpcpb.Assertion_Exist))).GetAssertionFailed()
		require.Equal(t, kvrpcpb.Assertion_Exist, broken.GetAssertion())
	}
	require.Empty(t, c.prewrite(c.ts(), strict,
		asserting(put("k", "2"), kvrpcpb.Assertion_Exist), asserting(put("none", "2"), kvrpcpb.Assertion_NotExist)).Errors)

	// A pessimistic transaction has locked the key: only the strict level looks at it again.
	start := c.ts()
	c.mustLock(start, start, "none2")
	change := pessimistic(start)
	resp := c.prewrite(start, func(r *kvrpcpb.PrewriteRequest) { change(r); fast(r) }, asserting(put("none2", "2"), kvrpcpb.Assertion_Exist))
	require.Empty(t, resp.Errors)
}

func testAsyncCommit(t *testing.T, c *cluster) {
	start := c.ts()
	resp := c.prewrite(start, func(r *kvrpcpb.PrewriteRequest) {
		r.UseAsyncCommit, r.Secondaries = true, byteKeys([]string{"b"})
	}, put("a", "1"), put("b", "1"))
	require.Empty(t, resp.Errors)
	commitTS := c.ts()
	if resp.MinCommitTs != 0 {
		commitTS = max(commitTS, resp.MinCommitTs)
	}
	c.mustCommit(start, commitTS, "a", "b")
	require.Equal(t, "1", c.read("b", c.ts()))
}

func testPessimisticLockMissing(t *testing.T, c *cluster) {
	start := c.ts()
	c.write(put("k", "1"))
	keyErr := refused(t, c.prewrite(start, pessimistic(start), put("k", "2")))
	require.Contains(t, keyErr.Retryable, "PessimisticLockNotFound")
	// Another transaction holds it.
	start = c.ts()
	c.mustLock(c.ts(), c.ts(), "k")
	require.Contains(t, refused(t, c.prewrite(start, pessimistic(start), put("k", "2"))).Retryable, "PessimisticLockNotFound")
}

func testPessimisticAmended(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	start := c.ts()
	require.Empty(t, c.prewrite(start, pessimistic(start), put("k", "2")).Errors)
	c.mustCommit(start, c.ts(), "k")
	require.Equal(t, "2", c.read("k", c.ts()))
}

// unlocked makes a prewrite one of a pessimistic transaction that has not locked its keys.
func unlocked(forUpdate uint64, action kvrpcpb.PrewriteRequest_PessimisticAction) func(*kvrpcpb.PrewriteRequest) {
	return func(req *kvrpcpb.PrewriteRequest) {
		req.ForUpdateTs = forUpdate
		for range req.Mutations {
			req.PessimisticActions = append(req.PessimisticActions, action)
		}
	}
}

func testPessimisticUnlockedKey(t *testing.T, c *cluster) {
	start := c.ts()
	c.write(put("k", "1"))
	skip := unlocked(start, kvrpcpb.PrewriteRequest_SKIP_PESSIMISTIC_CHECK)
	require.Empty(t, c.prewrite(start, skip, put("k", "2")).Errors, "a key that is not locked is not checked either")
	c.mustCommit(start, c.ts(), "k")
	require.Equal(t, "2", c.read("k", c.ts()))
}

func testPessimisticConstraintCheck(t *testing.T, c *cluster) {
	start := c.ts()
	c.write(put("k", "1"))
	check := unlocked(start, kvrpcpb.PrewriteRequest_DO_CONSTRAINT_CHECK)
	conflict := refused(t, c.prewrite(start, check, insert("k", "2"))).GetConflict()
	require.Equal(t, kvrpcpb.WriteConflict_LazyUniquenessCheck, conflict.GetReason())
	start = c.ts()
	check = unlocked(start, kvrpcpb.PrewriteRequest_DO_CONSTRAINT_CHECK)
	require.NotNil(t, refused(t, c.prewrite(start, check, insert("k", "2"))).GetAlreadyExist())
}

func testForUpdateTSConstraint(t *testing.T, c *cluster) {
	start := c.ts()
	forUpdate := c.ts()
	c.mustLock(start, forUpdate, "k")
	change := pessimistic(forUpdate)
	expecting := func(ts uint64) func(*kvrpcpb.PrewriteRequest) {
		return func(r *kvrpcpb.PrewriteRequest) {
			change(r)
			r.ForUpdateTsConstraints = []*kvrpcpb.PrewriteRequest_ForUpdateTSConstraint{{Index: 0, ExpectedForUpdateTs: ts}}
		}
	}
	require.Contains(t, refused(t, c.prewrite(start, expecting(start), put("k", "1"))).Retryable, "PessimisticLockNotFound")
	require.Empty(t, c.prewrite(start, expecting(forUpdate), put("k", "1")).Errors)
}

func testOptimisticOverPessimistic(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustLock(start, start, "k")
	require.NotEmpty(t, refused(t, c.prewrite(start, nil, put("k", "1"))).Abort)
}

func testRetryIsChecked(t *testing.T, c *cluster) {
	start := c.ts()
	forUpdate := c.ts()
	c.write(put("k", "1"))
	req := unlocked(forUpdate, kvrpcpb.PrewriteRequest_SKIP_PESSIMISTIC_CHECK)
	rc := c.route([]byte("k"))
	rc.IsRetryRequest = true
	p := &kvrpcpb.PrewriteRequest{Mutations: []*kvrpcpb.Mutation{put("k", "2")}, PrimaryLock: []byte("k"), StartVersion: start, LockTtl: lockTTL}
	req(p)
	resp := c.sendContext(cmdPrewrite, rc, p).(*kvrpcpb.PrewriteResponse)
	require.Contains(t, refused(t, resp).Retryable, "PessimisticLockNotFound")
}
