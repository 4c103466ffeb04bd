package conformance

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
)

var pessimisticCases = []testCase{
	{"lock/values", testLockValues},
	{"lock/existence", testLockExistence},
	{"lock/only_if_exists", testLockOnlyIfExists},
	{"lock/conflict", testLockConflict},
	{"lock/conflict_with_a_lock_record", testLockConflictLockRecord},
	{"lock/already_exists", testLockAlreadyExists},
	{"lock/nowait", testLockNoWait},
	{"lock/again", testLockAgain},
	{"lock/all_or_nothing", testLockAllOrNothing},
	{"lock/after_rollback", testLockAfterRollback},
	{"lock/of_a_prewritten_key", testLockPrewritten},
	{"lock/force_without_conflict", testForceWithoutConflict},
	{"lock/force_with_conflict", testForceWithConflict},
	{"lock/force_again", testForceAgain},
	{"lock/force_fails", testForceFails},
}

func force(r *kvrpcpb.PessimisticLockRequest) {
	r.WakeUpMode = kvrpcpb.PessimisticLockWakeUpMode_WakeUpModeForceLock
}

func testLockValues(t *testing.T, c *cluster) {
	c.write(put("a", "1"), put("b", "2"))
	c.write(del("b"))
	start := c.ts()
	resp := c.lock(start, start, func(r *kvrpcpb.PessimisticLockRequest) { r.ReturnValues = true }, "a", "b", "c")
	require.Empty(t, resp.Errors)
	require.Equal(t, []bool{false, true, true}, resp.NotFounds)
	require.Equal(t, "1", string(resp.Values[0]))
	require.Empty(t, resp.Values[1])
	require.Empty(t, resp.Values[2])
	require.Len(t, c.locks(c.ts()), 3)
}

func testLockExistence(t *testing.T, c *cluster) {
	c.write(put("a", "1"))
	start := c.ts()
	resp := c.lock(start, start, func(r *kvrpcpb.PessimisticLockRequest) { r.CheckExistence = true }, "a", "b")
	require.Empty(t, resp.Errors)
	require.Equal(t, []bool{false, true}, resp.NotFounds)
}

func testLockOnlyIfExists(t *testing.T, c *cluster) {
	c.write(put("a", "1"))
	start := c.ts()
	resp := c.lock(start, start, func(r *kvrpcpb.PessimisticLockRequest) {
		r.ReturnValues, r.LockOnlyIfExists = true, true
	}, "a", "b")
	require.Empty(t, resp.Errors)
	locks := c.locks(c.ts())
	require.Len(t, locks, 1)
	require.Equal(t, "a", string(locks[0].Key))
}

func testLockConflict(t *testing.T, c *cluster) {
	start := c.ts()
	commitTS := c.write(put("k", "1"))
	resp := c.lock(start, start, nil, "k")
	require.Len(t, resp.Errors, 1)
	conflict := resp.Errors[0].GetConflict()
	require.NotNil(t, conflict)
	require.Equal(t, commitTS, conflict.ConflictCommitTs)
	require.Equal(t, kvrpcpb.WriteConflict_PessimisticRetry, conflict.Reason)
	c.mustLock(start, c.ts(), "k")
}

func testLockConflictLockRecord(t *testing.T, c *cluster) {
	start := c.ts()
	commitTS := c.write(lockOnly("k"))
	resp := c.lock(start, start, nil, "k")
	require.Len(t, resp.Errors, 1)
	require.Equal(t, commitTS, resp.Errors[0].GetConflict().GetConflictCommitTs())
}

func testLockAlreadyExists(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	start := c.ts()
	resp := c.lock(start, start, func(r *kvrpcpb.PessimisticLockRequest) {
		for _, m := range r.Mutations {
			m.Assertion = kvrpcpb.Assertion_NotExist
		}
	}, "k")
	require.Len(t, resp.Errors, 1)
	require.Equal(t, "k", string(resp.Errors[0].GetAlreadyExist().GetKey()))
	require.Empty(t, c.locks(c.ts()))
}

func testLockNoWait(t *testing.T, c *cluster) {
	holder := c.ts()
	c.mustLock(holder, holder, "k")
	start := c.ts()
	resp := c.lock(start, start, nil, "k")
	require.Len(t, resp.Errors, 1)
	locked := resp.Errors[0].GetLocked()
	require.Equal(t, holder, locked.GetLockVersion())
	require.Equal(t, kvrpcpb.Op_PessimisticLock, locked.GetLockType())
	require.Equal(t, holder, locked.GetLockForUpdateTs())
}

func testLockAgain(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustLock(start, start, "k")
	c.mustLock(start, start, "k")
	later := c.ts()
	c.mustLock(start, later, "k")
	locks := c.locks(c.ts())
	require.Len(t, locks, 1)
	require.Equal(t, later, locks[0].LockForUpdateTs)
	c.mustLock(start, start, "k") // does not go back
	require.Equal(t, later, c.locks(c.ts())[0].LockForUpdateTs)
}

func testLockAllOrNothing(t *testing.T, c *cluster) {
	holder := c.ts()
	c.mustLock(holder, holder, "b")
	start := c.ts()
	require.Len(t, c.lock(start, start, nil, "a", "b", "c").Errors, 1)
	require.Len(t, c.locks(c.ts()), 1)
}

func testLockAfterRollback(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustLock(start, start, "k")
	require.Nil(t, c.rollback(start, "k").Error)
	require.Len(t, c.lock(start, c.ts(), nil, "k").Errors, 1)
	require.Empty(t, c.locks(c.ts()))
}

func testLockPrewritten(t *testing.T, c *cluster) {
	start := c.ts()
	c.mustPrewrite(start, put("k", "1"))
	require.Len(t, c.lock(start, start, nil, "k").Errors, 1)
}

func testForceWithoutConflict(t *testing.T, c *cluster) {
	c.write(put("k", "1"))
	start := c.ts()
	resp := c.lock(start, start, func(r *kvrpcpb.PessimisticLockRequest) { force(r); r.ReturnValues = true }, "k")
	require.Empty(t, resp.Errors)
	require.Len(t, resp.Results, 1)
	require.Equal(t, kvrpcpb.PessimisticLockKeyResultType_LockResultNormal, resp.Results[0].Type)
	require.Equal(t, "1", string(resp.Results[0].Value))
	require.True(t, resp.Results[0].Existence)
	require.Empty(t, resp.Values)
}

func testForceWithConflict(t *testing.T, c *cluster) {
	start := c.ts()
	commitTS := c.write(put("k", "1"))
	resp := c.lock(start, start, force, "k")
	require.Empty(t, resp.Errors)
	require.Len(t, resp.Results, 1)
	result := resp.Results[0]
	require.Equal(t, kvrpcpb.PessimisticLockKeyResultType_LockResultLockedWithConflict, result.Type)
	require.Equal(t, commitTS, result.LockedWithConflictTs)
	require.Equal(t, "1", string(result.Value), "the value is returned whether it was asked for or not")
	require.True(t, result.Existence)
	require.Equal(t, commitTS, c.locks(c.ts())[0].LockForUpdateTs)
}

func testForceAgain(t *testing.T, c *cluster) {
	start := c.ts()
	commitTS := c.write(put("k", "1"))
	c.lock(start, start, force, "k")
	result := c.lock(start, start, force, "k").Results[0]
	require.Equal(t, kvrpcpb.PessimisticLockKeyResultType_LockResultLockedWithConflict, result.Type)
	require.Equal(t, commitTS, result.LockedWithConflictTs)
}

func testForceFails(t *testing.T, c *cluster) {
	holder := c.ts()
	c.mustLock(holder, holder, "k")
	start := c.ts()
	resp := c.lock(start, start, force, "k")
	require.NotNil(t, resp.Errors[0].GetLocked())
	require.Equal(t, kvrpcpb.PessimisticLockKeyResultType_LockResultFailed, resp.Results[0].Type)
}
