package txn

import (
	"cmp"
	"slices"

	"fastddl/internal/invariants"
)

// checkReplaces asserts that a key changes hands only when it has no holder. The stripe is held.
func (l *lock) checkReplaces(previous *lock) {
	if !invariants.Enabled || previous == nil || previous.txn == l.txn {
		return
	}
	invariants.Check(false, "transaction %d locks key %x, which transaction %d holds", l.txn.startTS, l.key, previous.txn.startTS)
}

// check asserts what holds for a key that is locked or waited for. The stripe is held.
func (ks keyState) check(key string) {
	if !invariants.Enabled {
		return
	}
	waiters, granted := ks.waiters(), ks.granted()
	invariants.Check(slices.IsSortedFunc(waiters, func(a, b *waiter) int { return cmp.Compare(a.txn.startTS, b.txn.startTS) }),
		"waiters of key %x are not in order", key)
	for _, w := range waiters {
		invariants.Check(string(w.key) == key, "transaction %d waits for key %x in the queue of key %x", w.txn.startTS, w.key, key)
		invariants.Check(w != granted, "transaction %d waits for key %x, which it was granted", w.txn.startTS, key)
	}
	invariants.Check(len(waiters) == 0 || ks.lock != nil || granted != nil, "key %x has no holder, and %d wait for it", key, len(waiters))
}

// checkCommitted asserts that a transaction has committed after it began and after every reader that it was promised to
// commit after.
func (t *transaction) checkCommitted(ts uint64) {
	if !invariants.Enabled {
		return
	}
	t.mu.Lock()
	lowest, now := t.minCommitTS, t.state
	t.mu.Unlock()
	invariants.Check(ts > t.startTS, "transaction %d has committed at %d", t.startTS, ts)
	invariants.Check(ts >= lowest, "transaction %d has committed at %d, which was to be at %d or later", t.startTS, ts, lowest)
	invariants.Check(now == stateCommitting, "transaction %d has committed in state %d", t.startTS, now)
}
