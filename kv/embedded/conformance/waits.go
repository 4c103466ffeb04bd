package conformance

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikvrpc"
)

var waitCases = []testCase{
	{"wait/timeout", testWaitTimeout},
	{"wait/released_by_rollback", testWaitReleasedByRollback},
	{"wait/released_by_commit", testWaitReleasedByCommit},
	{"wait/force_lock_released_by_commit", testWaitForceLock},
	{"wait/oldest_first", testWaitOldestFirst},
	{"wait/deadlock", testDeadlock},
	{"wait/deadlock_key", testDeadlockKey},
	{"wait/deadlock_of_three", testDeadlockOfThree},
	{"wait/info", testWaitInfo},
}

// longWait is longer than any expected event takes, in milliseconds.
const longWait = 60_000

func waitFor(ms int64) func(*kvrpcpb.PessimisticLockRequest) {
	return func(r *kvrpcpb.PessimisticLockRequest) { r.WaitTimeout = ms }
}

// lockUntil locks a key as a client does: after a time-out it asks again.
func (c *cluster) lockUntil(start, forUpdate uint64, change func(*kvrpcpb.PessimisticLockRequest), key string) *kvrpcpb.PessimisticLockResponse {
	deadline := time.Now().Add(longWait * time.Millisecond)
	for {
		resp := c.lock(start, forUpdate, func(r *kvrpcpb.PessimisticLockRequest) {
			r.WaitTimeout = longWait
			if change != nil {
				change(r)
			}
		}, key)
		if len(resp.Errors) == 0 || resp.Errors[0].GetLocked() == nil || time.Now().After(deadline) {
			return resp
		}
	}
}

// background runs fn and returns a function that waits for its result.
func background[T any](fn func() T) func() T {
	ch := make(chan T, 1)
	go func() { ch <- fn() }()
	return func() T { return <-ch }
}

func (c *cluster) waiters() int {
	resp := c.sendContext(tikvrpc.CmdLockWaitInfo, kvrpcpb.Context{}, &kvrpcpb.GetLockWaitInfoRequest{}).(*kvrpcpb.GetLockWaitInfoResponse)
	return len(resp.Entries)
}

// eventually waits until so many requests are waiting for locks. Unistore does not report them; its goroutines show
// it.
func (c *cluster) eventually(waiters int) {
	count := c.waiters
	if !c.tellsWaiters() {
		count = func() int {
			stacks := make([]byte, 8<<20)
			return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("lockwaiter.(*Waiter).Wait("))
		}
	}
	require.Eventually(c.t, func() bool { return count() >= waiters }, longWait*time.Millisecond, time.Millisecond)
}

func (c *cluster) tellsWaiters() bool {
	r := tikvrpc.NewRequest(tikvrpc.CmdLockWaitInfo, &kvrpcpb.GetLockWaitInfoRequest{})
	_, err := c.client.SendRequest(c.t.Context(), c.address(), r, time.Minute)
	return err == nil
}

func testWaitTimeout(t *testing.T, c *cluster) {
	holder := c.ts()
	c.mustLock(holder, holder, "k")
	start := c.ts()
	began := time.Now()
	resp := c.lock(start, start, waitFor(100), "k")
	require.GreaterOrEqual(t, time.Since(began), 90*time.Millisecond)
	require.Equal(t, holder, resp.Errors[0].GetLocked().GetLockVersion())

	// The answer to a request that does not wait has no duration of the lock: client-go would ask again at once.
	resp = c.lock(start, start, waitFor(-1), "k")
	require.Equal(t, holder, resp.Errors[0].GetLocked().GetLockVersion())
	require.Zero(t, resp.Errors[0].GetLocked().GetDurationToLastUpdateMs())
}

func testWaitReleasedByRollback(t *testing.T, c *cluster) {
	holder := c.ts()
	c.mustLock(holder, holder, "k")
	start := c.ts()
	wait := background(func() *kvrpcpb.PessimisticLockResponse { return c.lockUntil(start, start, nil, "k") })
	c.eventually(1)
	c.pessimisticRollback(holder, holder, "k")
	resp := wait()
	// Either the key is locked or the error is retryable.
	if len(resp.Errors) > 0 {
		require.NotNil(t, resp.Errors[0].GetConflict())
		c.mustLock(start, c.ts(), "k")
	}
	require.Equal(t, start, c.locks(c.ts())[0].LockVersion)
}

func testWaitReleasedByCommit(t *testing.T, c *cluster) {
	holder := c.ts()
	c.mustLock(holder, holder, "k")
	start := c.ts()
	wait := background(func() *kvrpcpb.PessimisticLockResponse { return c.lockUntil(start, start, nil, "k") })
	c.eventually(1)
	require.Empty(t, c.prewrite(holder, pessimistic(holder), put("k", "1")).Errors)
	commitTS := c.ts()
	c.mustCommit(holder, commitTS, "k")
	conflict := wait().Errors[0].GetConflict()
	require.NotNil(t, conflict, "the key has changed after the waiter's timestamp")
	c.mustLock(start, c.ts(), "k")
}

func testWaitForceLock(t *testing.T, c *cluster) {
	holder := c.ts()
	c.mustLock(holder, holder, "k")
	start := c.ts()
	wait := background(func() *kvrpcpb.PessimisticLockResponse { return c.lockUntil(start, start, force, "k") })
	c.eventually(1)
	require.Empty(t, c.prewrite(holder, pessimistic(holder), put("k", "1")).Errors)
	commitTS := c.ts()
	c.mustCommit(holder, commitTS, "k")
	resp := wait()
	require.Empty(t, resp.Errors)
	require.Equal(t, kvrpcpb.PessimisticLockKeyResultType_LockResultLockedWithConflict, resp.Results[0].Type)
	require.Equal(t, commitTS, resp.Results[0].LockedWithConflictTs)
	require.Equal(t, "1", string(resp.Results[0].Value))
}

func testWaitOldestFirst(t *testing.T, c *cluster) {
	holder := c.ts()
	c.mustLock(holder, holder, "k")
	starts := []uint64{c.ts(), c.ts(), c.ts(), c.ts()}
	var mu sync.Mutex
	var order []uint64
	var done sync.WaitGroup
	for i, start := range slices.Backward(starts) { // the youngest comes first
		done.Go(func() {
			resp := c.lockUntil(start, start, force, "k")
			if len(resp.Errors) > 0 {
				return
			}
			mu.Lock()
			order = append(order, start)
			mu.Unlock()
			c.pessimisticRollback(start, max(start, resp.Results[0].LockedWithConflictTs), "k")
		})
		c.eventually(len(starts) - i)
	}
	c.pessimisticRollback(holder, holder, "k")
	done.Wait()
	require.Equal(t, starts, order)
}

func testDeadlock(t *testing.T, c *cluster) {
	first, second := c.ts(), c.ts()
	c.mustLock(first, first, "a")
	c.mustLock(second, second, "b")
	wait := background(func() *kvrpcpb.PessimisticLockResponse { return c.lockUntil(first, first, nil, "b") })
	c.eventually(1)
	deadlock := c.lockUntil(second, second, nil, "a").Errors[0].GetDeadlock()
	require.NotNil(t, deadlock)
	require.Equal(t, first, deadlock.LockTs)
	require.Equal(t, "a", string(deadlock.LockKey))
	require.NotZero(t, deadlock.DeadlockKeyHash)
	require.Len(t, deadlock.WaitChain, 2)
	require.Equal(t, first, deadlock.WaitChain[0].Txn)
	require.Equal(t, second, deadlock.WaitChain[0].WaitForTxn)
	require.Equal(t, second, deadlock.WaitChain[1].Txn)
	require.Equal(t, first, deadlock.WaitChain[1].WaitForTxn)
	c.pessimisticRollback(second, second, "b")
	wait()
}

func testDeadlockKey(t *testing.T, c *cluster) {
	first, second := c.ts(), c.ts()
	c.mustLock(first, first, "a")
	c.mustLock(second, second, "b")
	wait := background(func() *kvrpcpb.PessimisticLockResponse { return c.lockUntil(first, first, nil, "b") })
	c.eventually(1)
	deadlock := c.lockUntil(second, second, nil, "a").Errors[0].GetDeadlock()
	c.pessimisticRollback(second, second, "b")
	wait()
	require.Equal(t, "b", string(deadlock.DeadlockKey), "what the transaction holds and another one waits for")
}

func testDeadlockOfThree(t *testing.T, c *cluster) {
	starts := []uint64{c.ts(), c.ts(), c.ts()}
	keys := []string{"a", "b", "c"}
	for i, start := range starts {
		c.mustLock(start, start, keys[i])
	}
	one := background(func() *kvrpcpb.PessimisticLockResponse { return c.lockUntil(starts[0], starts[0], nil, "b") })
	c.eventually(1)
	two := background(func() *kvrpcpb.PessimisticLockResponse { return c.lockUntil(starts[1], starts[1], nil, "c") })
	c.eventually(2)
	deadlock := c.lockUntil(starts[2], starts[2], nil, "a").Errors[0].GetDeadlock()
	require.NotNil(t, deadlock)
	require.Len(t, deadlock.WaitChain, 3)
	c.pessimisticRollback(starts[2], starts[2], "c")
	two()
	c.pessimisticRollback(starts[1], c.ts(), "b", "c")
	one()
}

func testWaitInfo(t *testing.T, c *cluster) {
	holder := c.ts()
	c.mustLock(holder, holder, "k")
	start := c.ts()
	wait := background(func() *kvrpcpb.PessimisticLockResponse { return c.lockUntil(start, start, nil, "k") })
	var entries int
	require.Eventually(t, func() bool { entries = c.waiters(); return entries > 0 }, longWait*time.Millisecond, time.Millisecond)
	require.Equal(t, 1, entries)
	c.pessimisticRollback(holder, holder, "k")
	wait()
	require.Zero(t, c.waiters())
}
