package txn

import (
	"slices"
	"sync"
	"time"

	"github.com/dgryski/go-farm"
	deadlockpb "github.com/pingcap/kvproto/pkg/deadlock"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// detector knows which transactions wait for which keys. Whom they wait for is looked up when it is asked, because keys
// change hands. Every waiter asks after it has joined a queue, and again when the key has got a holder that waits itself;
// so the last one to close a circle finds it. The waiter that finds one is its victim, and is forgotten in the same moment:
// one of a circle is enough, also where several look at once.
type detector struct {
	mu sync.Mutex
	// waits are the waiters of each transaction, which may have several requests under way.
	waits map[uint64][]*waiter
}

func newDetector() detector { return detector{waits: make(map[uint64][]*waiter)} }

// add registers a waiter that has joined a queue.
func (d *detector) add(w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits[w.txn.startTS] = append(d.waits[w.txn.startTS], w)
}

// remove takes a waiter out again.
func (d *detector) remove(w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(w)
}

// forget is remove, also of a waiter that is not there any more. The caller holds mu.
func (d *detector) forget(w *waiter) {
	id := w.txn.startTS
	list := d.waits[id]
	if i := slices.Index(list, w); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		delete(d.waits, id)
		return
	}
	d.waits[id] = list
}

// waiting says whether a transaction waits for something.
func (d *detector) waiting(startTS uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waits[startTS]) > 0
}

// edge is one step of a chain of waiting transactions. The waiter's key is as of the look: it goes on to other ones, but not
// before the detector has forgotten it.
type edge struct {
	w      *waiter
	key    []byte
	holder uint64
}

// detect returns the circle of waiting transactions that w is part of, beginning with w, nil if there is none. If there is
// one w is forgotten, and must not wait any more.
func (d *detector) detect(w *waiter, table *table) []edge {
	d.mu.Lock()
	defer d.mu.Unlock()
	circle := d.circle(w, table)
	if circle != nil {
		d.forget(w)
	}
	return circle
}

// circle is detect without the consequence. The caller holds mu.
func (d *detector) circle(w *waiter, table *table) []edge {
	holder := table.holder(w.key)
	if holder == 0 || holder == w.txn.startTS {
		return nil
	}
	return d.search([]edge{{w, w.key, holder}}, w.txn.startTS, table, map[uint64]bool{})
}

// isVictim says whether a prewrite that waits is the victim of a circle. A statement in it that waits for a lock is the
// victim instead, as it can be repeated alone; otherwise it is the youngest of the prewrites. Optimistic ones fail before
// pessimistic ones. If w is the victim it is forgotten.
func (d *detector) isVictim(w *waiter, table *table) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	circle := d.circle(w, table)
	for _, e := range circle {
		if e.w.kind == waitToLock && w.kind != waitOptimistic {
			table.recheck(e.key) // it began to wait before the circle was closed
			return false
		}
		if e.w.kind == w.kind && e.w.txn.startTS > w.txn.startTS {
			return false
		}
	}
	if circle != nil {
		d.forget(w)
	}
	return circle != nil
}

func (d *detector) search(path []edge, target uint64, table *table, seen map[uint64]bool) []edge {
	at := path[len(path)-1].holder
	if at == target {
		return path
	}
	if seen[at] {
		return nil
	}
	seen[at] = true
	for _, w := range d.waits[at] {
		holder := table.holder(w.key)
		if holder == 0 || holder == at || w.kind == waitOptimistic && path[0].w.kind != waitOptimistic {
			continue
		}
		// What an earlier branch has put there is not needed any more.
		if found := d.search(append(path, edge{w, w.key, holder}), target, table, seen); found != nil {
			return found
		}
	}
	return nil
}

// entries lists who waits for whom.
func (d *detector) entries(table *table) []*deadlockpb.WaitForEntry {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*deadlockpb.WaitForEntry
	for _, list := range d.waits {
		for _, w := range list {
			if holder := table.holder(w.key); holder != 0 {
				out = append(out, edge{w, w.key, holder}.entry())
			}
		}
	}
	return out
}

func (e edge) entry() *deadlockpb.WaitForEntry {
	return &deadlockpb.WaitForEntry{
		Txn:              e.w.txn.startTS,
		WaitForTxn:       e.holder,
		KeyHash:          farm.Fingerprint64(e.key),
		Key:              slices.Clone(e.key),
		ResourceGroupTag: slices.Clone(e.w.tag),
		WaitTime:         uint64(time.Since(e.w.since).Milliseconds()),
	}
}

// deadlockError describes a circle to the client of its first waiter. The others come first in the chain, and the key
// that its transaction holds is the one that the last of them waits for.
func deadlockError(circle []edge) *kvrpcpb.KeyError {
	own, last := circle[0], circle[len(circle)-1]
	var chain []*deadlockpb.WaitForEntry
	for _, e := range circle[1:] {
		chain = append(chain, e.entry())
	}
	chain = append(chain, own.entry())
	return &kvrpcpb.KeyError{Deadlock: &kvrpcpb.Deadlock{
		LockTs:          own.holder,
		LockKey:         slices.Clone(own.key),
		DeadlockKeyHash: farm.Fingerprint64(last.key),
		DeadlockKey:     slices.Clone(last.key),
		WaitChain:       chain,
	}}
}
