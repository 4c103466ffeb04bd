package txn

import (
	"bytes"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

const numStripes = 4096

// table holds the locks of all keys.
type table struct {
	seed    maphash.Seed
	stripes [numStripes]stripe
	// keys is the number of keys that are locked or waited for, bytes what they hold of the memory.
	keys, bytes atomic.Int64
}

// lockOverhead is about what a lock holds of the memory beside its key and its value, by BenchmarkLockMemory.
const lockOverhead = 200

// fewKeys is how many keys a stripe may have had whose map is kept when it is empty.
const fewKeys = 8

// memory is what the lock of a key holds of it.
func memory(key int) int64 { return lockOverhead + int64(key) }

// stripe is the part of the table for the keys with one hash.
type stripe struct {
	latch chan struct{} // full while the latch is held

	mu      sync.RWMutex // guards what follows
	locked  atomic.Int32 // len(keys), for readers that find nothing
	keys    map[string]keyState
	most    int // that keys has had
	records lockRecords
}

// keyState is a key that is locked or waited for.
type keyState struct {
	lock  *lock
	queue *queue // nil if it has no waiters
}

// queue are those who wait for one key.
type queue struct {
	waiters []*waiter // in order of start timestamps
	// granted is the waiter that was woken and has the next try, if any.
	granted *waiter
}

func (ks keyState) granted() *waiter {
	if ks.queue == nil {
		return nil
	}
	return ks.queue.granted
}

func (ks keyState) waiters() []*waiter {
	if ks.queue == nil {
		return nil
	}
	return ks.queue.waiters
}

// lock is one transaction's lock of one key. A lock is replaced, never changed. There may be many millions: what they have
// in common is in their terms, and maps have their keys by name.
type lock struct {
	*terms
	key []byte
	// op is Op_PessimisticLock, or what the prewritten transaction does with the key: Op_Put, Op_Del or Op_Lock.
	op kvrpcpb.Op
	// value is the memory of the request while it commits in one phase. Others look at it under the transaction's mu, as long
	// as the transaction has the lock.
	value []byte
}

// terms are what the locks of one request have in common. They are never changed.
type terms struct {
	txn         *transaction
	primary     []byte
	ttl         uint64 // milliseconds after the start timestamp
	forUpdateTS uint64
	txnSize     uint64
	updated     time.Time
}

// with returns the terms with another time to live and timestamp: the same ones, if those are theirs.
func (t *terms) with(ttl, forUpdateTS uint64) *terms {
	if ttl == t.ttl && forUpdateTS == t.forUpdateTS {
		return t
	}
	changed := *t
	changed.ttl, changed.forUpdateTS = ttl, forUpdateTS
	return &changed
}

// name is the key for maps, which have the lock's bytes then and no copy.
func (l *lock) name() string { return unsafe.String(unsafe.SliceData(l.key), len(l.key)) }

func (l *lock) pessimistic() bool { return l.op == kvrpcpb.Op_PessimisticLock }

// hidesFromReaders says whether a reader above the commit timestamp would see a difference.
func (l *lock) hidesFromReaders() bool { return l.op == kvrpcpb.Op_Put || l.op == kvrpcpb.Op_Del }

// newTable makes a table for transactions that begin after since: others conflict with everything.
func newTable(since uint64) *table {
	t := &table{seed: maphash.MakeSeed()}
	for i := range t.stripes {
		t.stripes[i].latch = make(chan struct{}, 1)
		t.stripes[i].records.forgotten = since
	}
	return t
}

func (t *table) stripeIndex(key []byte) uint16 {
	return uint16(maphash.Bytes(t.seed, key) % numStripes)
}

func (t *table) stripe(key []byte) *stripe { return &t.stripes[t.stripeIndex(key)] }

// latches are the stripes that a request holds.
type latches struct {
	table *table
	held  []uint16
}

// latch takes the latches of n keys. It fails if one of them is held by another for longer than timeout, as by a commit
// that the disk keeps waiting, or ctx ends.
func (t *table) latch(ctx context.Context, timeout time.Duration, n int, key func(i int) []byte) (latches, bool) {
	held := make([]uint16, n)
	for i := range held {
		held[i] = t.stripeIndex(key(i))
	}
	slices.Sort(held)
	held = slices.Compact(held)
	var ended <-chan time.Time
	for n, i := range held {
		select {
		case t.stripes[i].latch <- struct{}{}:
			continue
		default:
		}
		if ended == nil {
			timer := time.NewTimer(timeout)
			defer timer.Stop()
			ended = timer.C
		}
		select {
		case t.stripes[i].latch <- struct{}{}:
			continue
		case <-ended:
		case <-ctx.Done():
		}
		latches{table: t, held: held[:n]}.release()
		return latches{}, false
	}
	return latches{table: t, held: held}, true
}

func (l latches) release() {
	for _, i := range l.held {
		<-l.table.stripes[i].latch
	}
}

// get returns the lock of a key, nil if there is none.
func (t *table) get(key []byte) *lock {
	st := t.stripe(key)
	if st.locked.Load() == 0 {
		return nil
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.keys[string(key)].lock
}

// blocking is get for readers: it returns only locks of prewritten or committing transactions.
func (t *table) blocking(key []byte) *lock {
	if l := t.get(key); l != nil && l.hidesFromReaders() {
		return l
	}
	return nil
}

// blocker returns the transaction that keeps w's from locking a key: the holder of its lock, or a waiter that was woken
// before and has not tried yet.
func (t *table) blocker(key []byte, startTS uint64, w *waiter) (l *lock, holder *transaction) {
	st := t.stripe(key)
	if st.locked.Load() == 0 {
		return nil, nil
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.keys[string(key)].blocker(startTS, w)
}

func (ks keyState) blocker(startTS uint64, w *waiter) (*lock, *transaction) {
	g := ks.granted()
	switch {
	case ks.lock != nil && ks.lock.txn.startTS != startTS:
		return ks.lock, ks.lock.txn
	case ks.lock == nil && g != nil && g != w && g.txn.startTS != startTS:
		return nil, g.txn
	}
	return nil, nil
}

// holder returns the start timestamp of the transaction that blocks a key, 0 if none does.
func (t *table) holder(key []byte) uint64 {
	if _, txn := t.blocker(key, 0, nil); txn != nil {
		return txn.startTS
	}
	return 0
}

// put locks a key, whose latch is held, and returns the transaction's lock that was replaced.
func (t *table) put(l *lock) (previous *lock) {
	st := t.stripe(l.key)
	st.mu.Lock()
	defer st.mu.Unlock()
	ks := st.keys[string(l.key)]
	previous, ks.lock = ks.lock, l
	t.set(st, l.name(), ks)
	l.checkReplaces(previous)
	return previous
}

// set changes the state of a key, and keeps the string. The caller holds mu.
func (t *table) set(st *stripe, key string, ks keyState) {
	ks.check(key)
	before := len(st.keys)
	if st.keys == nil {
		st.keys = make(map[string]keyState)
	}
	st.keys[key] = ks
	if len(st.keys) > before {
		st.most = max(st.most, len(st.keys))
		t.count(st, 1, key)
	}
}

// count notes that a stripe has a key more, or less. The caller holds mu.
func (t *table) count(st *stripe, n int64, key string) {
	st.locked.Store(int32(len(st.keys)))
	t.keys.Add(n)
	t.bytes.Add(n * memory(len(key)))
}

// remove unlocks a key if l is its lock, and wakes who is next. A commitTS says that the transaction committed the key
// at that time without writing it.
func (t *table) remove(l *lock, commitTS uint64) {
	st := t.stripe(l.key)
	st.mu.Lock()
	defer st.mu.Unlock()
	ks := st.keys[string(l.key)]
	if ks.lock != l {
		return
	}
	if commitTS != 0 {
		st.records.add(l.key, commitTS)
	}
	ks.lock = nil
	t.tidy(st, l.name(), ks)
}

// tidy changes the state of a key. One without a holder is granted to its next waiter, and forgotten if there is none. The
// caller holds mu.
func (t *table) tidy(st *stripe, key string, ks keyState) {
	if q := ks.queue; q != nil {
		if ks.lock == nil && q.granted == nil && len(q.waiters) > 0 {
			q.granted = q.waiters[0]
			q.waiters = slices.Delete(q.waiters, 0, 1)
			q.granted.wake(wakeGranted)
		}
		if q.granted == nil && len(q.waiters) == 0 {
			ks.queue = nil
		}
	}
	if ks == (keyState{}) {
		delete(st.keys, key)
		if len(st.keys) == 0 && st.most > fewKeys {
			st.keys, st.most = nil, 0 // a map does not shrink
		}
		t.count(st, -1, key)
		return
	}
	t.set(st, key, ks)
}

// lockedAfter returns when a key was locked without being written by a commit after ts, or 0.
func (t *table) lockedAfter(key []byte, ts uint64) uint64 {
	st := t.stripe(key)
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.records.after(key, ts)
}

// info describes a lock to a client. The transaction's mu is not held.
func (l *lock) info() *kvrpcpb.LockInfo {
	return &kvrpcpb.LockInfo{
		PrimaryLock:            bytes.Clone(l.primary),
		LockVersion:            l.txn.startTS,
		Key:                    bytes.Clone(l.key),
		LockTtl:                l.ttl,
		TxnSize:                l.txnSize,
		LockType:               l.op,
		LockForUpdateTs:        l.forUpdateTS,
		MinCommitTs:            l.txn.lowestCommitTS(),
		DurationToLastUpdateMs: uint64(max(time.Since(l.updated).Milliseconds(), 1)),
	}
}
