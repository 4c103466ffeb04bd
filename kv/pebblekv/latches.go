package pebblekv

import (
	"hash/maphash"
	"slices"
	"sync"
)

const (
	numStripes = 4096
	// maxStripeLocks bounds the memory of lock commits: about a million keys in
	// the whole store.
	maxStripeLocks = 256
)

// latches make checking keys for conflicts and writing them one step. Keys are
// mapped to stripes by hash; a commit holds the stripes of all its keys, and
// takes them in ascending order so that commits cannot wait for each other in
// a circle.
type latches struct {
	seed    maphash.Seed
	stripes [numStripes]stripe
}

// stripe is one latch, and the memory of keys that a committed transaction
// locked without writing them: they leave no version that a later check could
// find.
type stripe struct {
	mu sync.Mutex
	// locked maps keys to the newest commit timestamp that locked them.
	locked map[string]uint64
	// forgotten is the highest lock timestamp dropped from locked although a
	// running transaction could still conflict with it. Transactions that
	// started before it are taken to conflict.
	forgotten uint64
}

func newLatches() *latches { return &latches{seed: maphash.MakeSeed()} }

func (l *latches) stripeOf(key []byte) uint16 {
	return uint16(maphash.Bytes(l.seed, key) % numStripes)
}

// acquire latches the stripes of keys and returns them for release.
func (l *latches) acquire(keys []checkedKey) []uint16 {
	held := make([]uint16, 0, len(keys))
	for i := range keys {
		keys[i].stripe = l.stripeOf(keys[i].key)
		held = append(held, keys[i].stripe)
	}
	slices.Sort(held)
	held = slices.Compact(held)
	for _, i := range held {
		l.stripes[i].mu.Lock()
	}
	return held
}

func (l *latches) release(held []uint16) {
	for _, i := range held {
		l.stripes[i].mu.Unlock()
	}
}

// lockedAfter returns the timestamp at which a key was locked by a commit
// after start, or 0. The key's stripe is held.
func (l *latches) lockedAfter(k checkedKey, start uint64) uint64 {
	st := &l.stripes[k.stripe]
	if ts := st.locked[string(k.key)]; ts > start {
		return ts
	}
	if st.forgotten > start {
		return st.forgotten
	}
	return 0
}

// recordLock remembers that a commit at ts locked a key. The key's stripe is
// held. oldestStart is asked for the start timestamp below which no running or
// future transaction is, when memory has to be given back.
func (l *latches) recordLock(k checkedKey, ts uint64, oldestStart func() uint64) {
	st := &l.stripes[k.stripe]
	if st.locked == nil {
		st.locked = make(map[string]uint64)
	}
	if len(st.locked) >= maxStripeLocks {
		st.prune(oldestStart())
	}
	st.locked[string(k.key)] = ts
}

// prune forgets locks that nobody can conflict with any more, and all of them
// if that does not help.
func (st *stripe) prune(oldestStart uint64) {
	for key, ts := range st.locked {
		if ts <= oldestStart {
			delete(st.locked, key)
		}
	}
	if len(st.locked) < maxStripeLocks/2 {
		return
	}
	for _, ts := range st.locked {
		st.forgotten = max(st.forgotten, ts)
	}
	clear(st.locked)
}
