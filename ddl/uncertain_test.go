package ddl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"fastddl/kv"
)

var errBlind = errors.New("the store cannot be read just now")

// fault is what becomes of a commit that reports that nobody knows.
type fault struct {
	name string
	// made says that the commit is made in the end.
	made bool
	// published: the commit succeeds, and the store cannot be read after it.
	published bool
	// blind is how often the store cannot be read after it.
	blind int
	// late: of the commits after it, a commit that is made is made when the next
	// has begun, and one that is not made is tried when the next has ended.
	late bool
	// then, if set, is called before the commit returns.
	then func()
}

var faults = []fault{
	{name: "made", made: true},
	{name: "not made"},
	{name: "made, and unknown for a while", made: true, blind: 2},
	{name: "not made, and unknown for a while", blind: 2},
	{name: "made, but not published", made: true, published: true, blind: 2},
	{name: "made while it is asked for", made: true, late: true},
	{name: "tried after it was asked for", late: true},
}

// uncertainStore is the store of an owner, of whose commits one goes wrong.
type uncertainStore struct {
	kv.Store

	mu    sync.Mutex
	fault fault
	// at is how many commits it still takes until the fault; 0 is none.
	at    int
	blind int
	// early is a commit to be made before the next one, late one after it.
	early, late kv.Txn
	// lateErr is what the late one ended with.
	lateErr error
	// history are the timestamps of the commits that changed metadata.
	history []uint64
}

// arm makes the n-th commit from now on go wrong.
func (s *uncertainStore) arm(n int, f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.fault, s.history, s.lateErr = n, f, nil, nil
}

// disarm returns whether the fault has come.
func (s *uncertainStore) disarm() (hit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hit = s.at < 0
	s.at, s.blind = 0, 0
	return hit
}

func (s *uncertainStore) hit() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at < 0
}

func (s *uncertainStore) Begin(ctx context.Context) (kv.Txn, error) {
	s.mu.Lock()
	blind := s.blind > 0
	if blind {
		s.blind--
	}
	s.mu.Unlock()
	if blind {
		return nil, errBlind
	}
	txn, err := s.Store.Begin(ctx)
	return &uncertainTxn{Txn: txn, store: s}, err
}

type uncertainTxn struct {
	kv.Txn
	store *uncertainStore
	// meta says that it writes metadata, locks that it locks some.
	meta, locks bool
}

func (t *uncertainTxn) Set(key, value []byte, flags ...kv.KeyFlag) error {
	t.meta = t.meta || key[0] == 'm'
	return t.Txn.Set(key, value, flags...)
}

func (t *uncertainTxn) LockKeys(keys ...[]byte) error {
	t.locks = true
	return t.Txn.LockKeys(keys...)
}

func (t *uncertainTxn) Commit(ctx context.Context) error {
	s := t.store
	s.mu.Lock()
	comes := t.Len() > 0 && s.at > 0
	if comes {
		s.at--
		comes = s.at == 0
	}
	f := s.fault
	if comes {
		s.at = -1
	}
	s.mu.Unlock()
	if comes {
		return t.goWrong(ctx, f)
	}
	if !t.locks {
		return s.commit(ctx, t.Txn, t.meta)
	}
	s.mu.Lock()
	early, late := s.early, s.late
	s.early, s.late = nil, nil
	s.mu.Unlock()
	if early != nil {
		if err := s.commit(ctx, early, true); err != nil {
			return err
		}
	}
	err := s.commit(ctx, t.Txn, t.meta)
	if late != nil {
		lateErr := s.commit(ctx, late, true)
		s.mu.Lock()
		s.lateErr = lateErr
		s.mu.Unlock()
	}
	return err
}

// commit makes a commit and keeps its timestamp if it is one of metadata.
func (s *uncertainStore) commit(ctx context.Context, txn kv.Txn, meta bool) error {
	err := txn.Commit(ctx)
	if ts := txn.CommitTS(); meta && ts != 0 {
		s.mu.Lock()
		s.history = append(s.history, ts)
		s.mu.Unlock()
	}
	return err
}

func (t *uncertainTxn) goWrong(ctx context.Context, f fault) error {
	s := t.store
	late := f.late && t.meta && t.locks
	switch {
	case late && f.made:
		s.mu.Lock()
		s.early = t.Txn
		s.mu.Unlock()
	case late:
		s.mu.Lock()
		s.late = t.Txn
		s.mu.Unlock()
	case f.made:
		if err := s.commit(ctx, t.Txn, t.meta); err != nil {
			return err
		}
	default:
		if err := t.Rollback(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.blind = f.blind
	s.mu.Unlock()
	if f.then != nil {
		f.then()
	}
	if f.published {
		return nil
	}
	return fmt.Errorf("commit: %w", kv.ErrResultUndetermined)
}

// timestamps returns those of the commits that changed metadata, in order.
func (s *uncertainStore) timestamps() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.history)
	slices.Sort(out)
	return out
}

// pastStore is a store as it was at a timestamp.
type pastStore struct {
	kv.Store
	ts uint64
}

func (s pastStore) Begin(ctx context.Context) (kv.Txn, error) {
	snap, err := s.Snapshot(ctx, s.ts)
	return pastTxn{snap: snap}, err
}

// pastTxn is a transaction that only reads.
type pastTxn struct {
	kv.Txn
	snap kv.Snapshot
}

func (t pastTxn) StartTS() uint64 { return t.snap.TS() }
func (t pastTxn) Get(ctx context.Context, key []byte) ([]byte, error) {
	return t.snap.Get(ctx, key)
}
func (t pastTxn) Iter(r kv.KeyRange) (kv.Iterator, error)        { return t.snap.Iter(r) }
func (t pastTxn) IterReverse(r kv.KeyRange) (kv.Iterator, error) { return t.snap.IterReverse(r) }
func (t pastTxn) Commit(context.Context) error                   { return t.snap.Close() }
func (t pastTxn) Rollback() error                                { return t.snap.Close() }
