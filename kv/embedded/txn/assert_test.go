package txn

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"fastddl/internal/invariants"
)

// TestAssertions: what must never happen stops the tests where it does.
func TestAssertions(t *testing.T) {
	if !invariants.Enabled {
		t.Skip("assertions are off: they need the build tag invariants")
	}
	table := newTable(0)
	first, second := newTransaction(nil, 10), newTransaction(nil, 20)
	key := []byte("k")
	require.Nil(t, table.put(&lock{terms: &terms{txn: first}, key: key, op: kvrpcpb.Op_PessimisticLock}))
	require.NotNil(t, table.put(&lock{terms: &terms{txn: first}, key: key, op: kvrpcpb.Op_Put}), "its own lock")

	second.state, second.minCommitTS = stateCommitting, 30
	require.NotPanics(t, func() { second.checkCommitted(30) })
	require.PanicsWithValue(t, invariants.Violation("invariant violated: transaction 20 has committed at 29, which was to be at 30 or later"),
		func() { second.checkCommitted(29) })
	second.minCommitTS = 0
	require.Panics(t, func() { second.checkCommitted(20) })
	second.state = stateRolledBack
	require.Panics(t, func() { second.checkCommitted(40) })

	w := &waiter{txn: second, key: key}
	waiting := func(granted *waiter, waiters ...*waiter) *queue { return &queue{waiters: waiters, granted: granted} }
	require.Panics(t, func() { keyState{queue: waiting(nil, w)}.check("k") }, "the key has no holder")
	held := &lock{terms: &terms{txn: first}, key: key}
	require.NotPanics(t, func() { keyState{lock: held, queue: waiting(nil, w)}.check("k") })
	require.Panics(t, func() { keyState{lock: held, queue: waiting(nil, w, &waiter{txn: first, key: key})}.check("k") }, "out of order")
	require.Panics(t, func() { keyState{queue: waiting(w, w)}.check("k") })
	require.Panics(t, func() { keyState{lock: held, queue: waiting(nil, w)}.check("other") })
	require.PanicsWithValue(t, invariants.Violation("invariant violated: transaction 20 locks key 6b, which transaction 10 holds"), func() {
		table.put(&lock{terms: &terms{txn: second}, key: key, op: kvrpcpb.Op_Put})
	})
}
