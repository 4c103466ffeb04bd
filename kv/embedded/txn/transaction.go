package txn

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// endTimeout is how long a request waits for a committing transaction before it looks at its state again: the commit may
// have been refused meanwhile.
const endTimeout = time.Second

// pushedGrace is how long readers hold still for a transaction whose commit they have made too late once.
const pushedGrace = 200 * time.Millisecond

// state is where a transaction stands.
type state uint8

const (
	stateOpen       state = iota // it may lock, prewrite, commit or be rolled back
	stateCommitting              // its batch is on its way to the disk
	stateCommitted
	stateRolledBack
	stateUndetermined // its batch may or may not be durable; the store is read-only until it is opened again
)

// transaction is what the store knows of one transaction: its locks, and where it stands.
type transaction struct {
	engine  *Engine
	startTS uint64
	users   int // requests at work on it; guarded by its registry shard
	// unsure says that a transaction of this timestamp may have committed before, and been forgotten. Set once.
	unsure bool

	// essential says that the client wants its writes to go on where the disk is nearly full (kvrpcpb.DiskFullOpt), as
	// those of DROP and of DDL jobs do. Guarded by mu.
	essential bool

	// commitTS is 0 until the transaction is committing. A one-phase commit stores it before a later timestamp is handed
	// out.
	commitTS atomic.Uint64
	// done is closed when the transaction has ended and its locks are released, or when its outcome is undetermined.
	done chan struct{}

	mu    sync.Mutex // guards what follows
	state state
	locks map[string]*lock
	// bytes is the size of the prewritten keys and values.
	bytes int
	// blocks are the prewritten keys that readers care for, in sorted blocks.
	blocks []keyBlock
	// minCommitTS is the lowest timestamp the transaction may commit at.
	minCommitTS uint64
	// refusedAt is when a commit was refused because readers had raised minCommitTS.
	refusedAt time.Time
	failure   error // of stateUndetermined
}

// keyBlock is a sorted run of keys.
type keyBlock [][]byte

func newTransaction(e *Engine, startTS uint64) *transaction {
	return &transaction{engine: e, startTS: startTS, done: make(chan struct{}), locks: make(map[string]*lock)}
}

// idle says that the transaction is open and holds nothing.
func (t *transaction) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == stateOpen && len(t.locks) == 0
}

// lockOf returns the transaction's lock of a key, nil if it has none.
func (t *transaction) lockOf(key []byte) *lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.locks[string(key)]
}

// committing says whether the transaction will end by itself in a moment.
func (t *transaction) committing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == stateCommitting
}

// durable says whether the transaction has committed for good. Its locks may still be there for a moment.
func (t *transaction) durable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == stateCommitted
}

// end returns how the transaction has ended, if it has. It is busy while that is being decided.
func (t *transaction) end() (o outcome, busy bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.state {
	case stateCommitting, stateUndetermined:
		return outcome{}, true
	case stateCommitted:
		return outcome{ended: true, commitTS: t.commitTS.Load()}, false
	case stateRolledBack:
		return outcome{ended: true}, false
	}
	return outcome{}, false
}

// awaitEnd waits for a committing transaction, though not for ever. It fails if the outcome is undetermined.
func (t *transaction) awaitEnd(ctx context.Context) error { return t.awaitWithin(ctx, endTimeout) }

// awaitWithin waits for the transaction's end, for a while at most. It fails if the outcome is undetermined.
func (t *transaction) awaitWithin(ctx context.Context, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-t.done:
		return t.readFailure()
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *transaction) readFailure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failure
}

// letRead makes sure that the transaction does not commit at or below ts any more, or has and can be seen.
func (t *transaction) letRead(ctx context.Context, ts uint64) error {
	for {
		timeout, err := t.pushAbove(ts)
		if timeout == 0 {
			return err
		}
		timer := time.NewTimer(timeout)
		select {
		case <-t.done:
		case <-timer.C:
		case <-ctx.Done():
			err = ctx.Err()
		}
		timer.Stop()
		if err != nil {
			return err
		}
	}
}

// pushAbove lets a reader at ts go on, or returns how long it should wait for the transaction's end before it asks again.
func (t *transaction) pushAbove(ts uint64) (timeout time.Duration, err error) {
	if t.startTS > ts {
		return 0, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.state {
	case stateOpen:
		if !t.refusedAt.IsZero() {
			if left := pushedGrace - time.Since(t.refusedAt); left > 0 {
				return left, nil
			}
		}
		t.minCommitTS = max(t.minCommitTS, ts+1)
	case stateCommitting:
		// No timestamp yet: the one to come is above ts, which was handed out before.
		if c := t.commitTS.Load(); c != 0 && c <= ts {
			return endTimeout, nil
		}
	case stateUndetermined:
		if t.commitTS.Load() <= ts {
			return 0, t.failure
		}
	}
	return 0, nil
}

// overlaps says whether the transaction has prewritten a key in r.
func (t *transaction) overlaps(r kv.KeyRange) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.blocks {
		i, _ := slices.BinarySearchFunc(b, r.Start, bytes.Compare)
		if i < len(b) && (r.End == nil || bytes.Compare(b[i], r.End) < 0) {
			return true
		}
	}
	return false
}

// addBlock adds keys, which the transaction keeps, to those that readers look for. The caller holds mu.
func (t *transaction) addBlock(b keyBlock) {
	if len(b) == 0 {
		return
	}
	if !slices.IsSortedFunc(b, bytes.Compare) {
		slices.SortFunc(b, bytes.Compare)
	}
	t.blocks = append(t.blocks, b)
}

// writes are what the transaction writes, for its batch. The transaction is committing, so that nothing changes.
func (t *transaction) writes() pebblekv.Writes {
	return func(yield func(key, value []byte) bool) {
		for _, b := range t.blocks {
			for _, key := range b {
				if !yield(key, t.locks[string(key)].value) {
					return
				}
			}
		}
	}
}

func (t *transaction) lowestCommitTS() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.minCommitTS
}

// activeSet is the set of transactions that have prewritten or are committing. Readers of ranges walk through it without
// locking. It is in shards, as each change copies one: with thousands of committers, copying the whole was most of the work.
type activeSet struct{ shards [activeShards]activeShard }

const activeShards = 16

type activeShard struct {
	mu   sync.Mutex
	list atomic.Pointer[[]*transaction]
}

// all yields the set: who is in it all the while, and maybe who comes or goes.
func (s *activeSet) all() iter.Seq[*transaction] {
	return func(yield func(*transaction) bool) {
		for i := range s.shards {
			for _, t := range s.shards[i].all() {
				if !yield(t) {
					return
				}
			}
		}
	}
}

func (s *activeSet) shard(t *transaction) *activeShard {
	return &s.shards[spread(t.startTS)%activeShards]
}

func (s *activeSet) add(t *transaction) { s.shard(t).add(t) }

func (s *activeSet) remove(t *transaction) { s.shard(t).remove(t) }

func (sh *activeShard) all() []*transaction {
	if p := sh.list.Load(); p != nil {
		return *p
	}
	return nil
}

func (sh *activeShard) add(t *transaction) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old := sh.all()
	if slices.Contains(old, t) {
		return
	}
	list := append(make([]*transaction, 0, len(old)+1), old...)
	list = append(list, t)
	sh.list.Store(&list)
}

func (sh *activeShard) remove(t *transaction) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old := sh.all()
	i := slices.Index(old, t)
	if i < 0 {
		return
	}
	list := append(make([]*transaction, 0, len(old)-1), old[:i]...)
	list = append(list, old[i+1:]...)
	sh.list.Store(&list)
}
