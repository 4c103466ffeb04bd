package txn

import (
	"slices"
	"time"
)

// wakeReason says why a waiter was woken.
type wakeReason uint8

const (
	wakeGranted wakeReason = iota + 1 // the key is free, and no other may take it before this waiter has tried
	wakeRecheck                       // the key has a new holder, which may wait for this waiter's transaction
)

// waitKind says what a request waits for a key to do.
type waitKind uint8

const (
	waitToLock     waitKind = iota // lock it for a pessimistic transaction
	waitToPrewrite                 // prewrite it for a pessimistic transaction
	waitOptimistic                 // prewrite it for an optimistic transaction, which may be refused at any time
)

// waiter is a request that waits for one key.
type waiter struct {
	kind  waitKind
	txn   *transaction
	key   []byte
	tag   []byte // the request's resource group tag
	since time.Time
	// ch holds what the waiter has to do; being granted replaces everything else.
	ch chan wakeReason
}

func newWaiter(t *transaction, tag []byte) *waiter {
	return &waiter{txn: t, tag: tag, since: time.Now(), ch: make(chan wakeReason, 1)}
}

// wake wakes the waiter with a reason. The key's stripe is held.
func (w *waiter) wake(reason wakeReason) {
	for {
		select {
		case w.ch <- reason:
			return
		default:
		}
		if reason == wakeRecheck {
			return // there is something in the channel already that makes it look
		}
		select {
		case <-w.ch:
		default:
		}
	}
}

// join puts the waiter into the queue of a key, unless the key is not blocked any more.
func (t *table) join(w *waiter, key []byte) bool {
	st := t.stripe(key)
	st.mu.Lock()
	defer st.mu.Unlock()
	ks := st.keys[string(key)]
	if _, holder := ks.blocker(w.txn.startTS, w); holder == nil {
		return false
	}
	w.key = key
	if ks.queue == nil {
		ks.queue = &queue{}
	}
	i, _ := slices.BinarySearchFunc(ks.queue.waiters, w, func(a, b *waiter) int {
		if a.txn.startTS <= b.txn.startTS {
			return -1
		}
		return 1
	})
	ks.queue.waiters = slices.Insert(ks.queue.waiters, i, w)
	t.set(st, string(key), ks)
	return true
}

// quit takes the waiter away from its key. If it had been granted the key, the next one gets its chance, unless the
// waiter has taken it.
func (t *table) quit(w *waiter) {
	if w.key == nil {
		return
	}
	st := t.stripe(w.key)
	st.mu.Lock()
	defer st.mu.Unlock()
	ks := st.keys[string(w.key)]
	if q := ks.queue; q != nil {
		if q.granted == w {
			q.granted = nil
		} else if i := slices.Index(q.waiters, w); i >= 0 {
			q.waiters = slices.Delete(q.waiters, i, i+1)
		}
		t.tidy(st, string(w.key), ks)
	}
	select { // nothing is left over for the next key
	case <-w.ch:
	default:
	}
	w.key = nil
}

// recheck makes the waiters of a key look whether they are in a deadlock.
func (t *table) recheck(key []byte) {
	st := t.stripe(key)
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, w := range st.keys[string(key)].waiters() {
		w.wake(wakeRecheck)
	}
}
