package txn

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// A prewrite that waits for a lock looks again and again whether it is in a deadlock, or the lock was given up: first after
// holderPoll, and then after twice the time each, up to lastHolderPoll.
const (
	holderPoll     = 10 * time.Millisecond
	lastHolderPoll = 100 * time.Millisecond
)

// Prewrite checks the writes of a transaction and locks their keys, all those of the request or none. With TryOnePc it
// commits them as well, if it can; otherwise the client goes on with a commit. Async commit is declined: the answer's
// MinCommitTs is 0, on which the client commits in two phases.
func (e *Engine) Prewrite(ctx context.Context, req *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, error) {
	p := &prewrite{
		engine:      e,
		req:         req,
		pessimistic: req.ForUpdateTs != 0,
		primary:     bytes.Clone(req.PrimaryLock),
		deadline:    time.Now().Add(e.opts.MaxLockWait),
	}
	if keyErr := p.validate(); keyErr != nil {
		return failedPrewrite(keyErr), nil
	}
	t, o := e.registry.enter(e, req.StartVersion)
	if o.ended {
		return p.repeated(o), nil
	}
	defer e.registry.leave(t)
	p.txn = t
	for {
		resp, wait, err := p.try(ctx)
		switch {
		case err != nil:
			return nil, err
		case wait == t:
			err = t.awaitEnd(ctx)
		case wait != nil:
			var keyErr *kvrpcpb.KeyError
			if keyErr, err = p.awaitCommit(ctx, wait); keyErr != nil {
				return failedPrewrite(keyErr), nil
			}
		case p.holder != nil && time.Now().Before(p.deadline):
			var keyErr *kvrpcpb.KeyError
			if keyErr, err = p.awaitHolder(ctx); keyErr != nil {
				return failedPrewrite(keyErr), nil
			}
			if err != nil && ctx.Err() != nil {
				// Nothing was written. An error would leave the client in doubt of that, and with TryOnePc TiDB closes
				// the connection of a session in doubt.
				return resp, nil
			}
		default:
			return resp, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// awaitHolder waits until the lock in the way is gone, as long as the request has time. In a deadlock it may be the victim,
// which fails with a conflict.
func (p *prewrite) awaitHolder(ctx context.Context) (*kvrpcpb.KeyError, error) {
	w := newWaiter(p.txn, bytes.Clone(p.req.Context.GetResourceGroupTag()))
	w.key, w.kind = bytes.Clone(p.holderKey), waitOptimistic
	reason := kvrpcpb.WriteConflict_Optimistic
	if p.pessimistic {
		w.kind, reason = waitToPrewrite, kvrpcpb.WriteConflict_LazyUniquenessCheck
	}
	e := p.engine
	e.detector.add(w)
	defer e.detector.remove(w)
	for poll := holderPoll; time.Now().Before(p.deadline); poll = min(2*poll, lastHolderPoll) {
		if e.detector.isVictim(w, e.table) {
			return conflict(reason, p.txn.startTS, p.holder.startTS, w.key, p.primary), nil
		}
		if err := p.holder.awaitWithin(ctx, poll); err != nil {
			return nil, err
		}
		if l := e.table.get(w.key); l == nil || l.txn != p.holder {
			return nil, nil
		}
	}
	return nil, nil
}

// awaitCommit waits for another transaction, which is committing, as long as the request has time. Then it returns the
// lock in the way, also to a client that gave up: nothing was written, and an error would leave it in doubt of that.
func (p *prewrite) awaitCommit(ctx context.Context, other *transaction) (*kvrpcpb.KeyError, error) {
	rest := time.Until(p.deadline)
	if rest <= 0 {
		return p.committing, nil
	}
	err := other.awaitWithin(ctx, rest)
	if err != nil && ctx.Err() != nil {
		return p.committing, nil
	}
	return nil, err
}

// prewrite is one prewrite request.
type prewrite struct {
	engine      *Engine
	req         *kvrpcpb.PrewriteRequest
	pessimistic bool
	primary     []byte // a copy
	txn         *transaction

	recent *pebblekv.Lookup // sees only what is newer than the transaction's start
	full   *pebblekv.Lookup
	locks  []*lock // to be put
	terms  *terms  // of locks

	holder    *transaction // another transaction that has locked one of the keys, nil if none has
	holderKey []byte       // that key
	// committing is the lock of another transaction that has to be waited for, as the answer would name it.
	committing *kvrpcpb.KeyError
	deadline   time.Time // when the request returns a lock instead of waiting for it
}

func failedPrewrite(keyErrs ...*kvrpcpb.KeyError) *kvrpcpb.PrewriteResponse {
	return &kvrpcpb.PrewriteResponse{Errors: keyErrs}
}

func (p *prewrite) validate() *kvrpcpb.KeyError {
	if n := len(p.req.PessimisticActions); n > 0 && n != len(p.req.Mutations) {
		return abortError("%d pessimistic actions for %d mutations", n, len(p.req.Mutations))
	}
	size := 0
	for _, m := range p.req.Mutations {
		switch m.Op {
		case kvrpcpb.Op_Put, kvrpcpb.Op_Insert:
			if len(m.Value) == 0 {
				return abortError("empty value for key %x", m.Key)
			}
		case kvrpcpb.Op_Del, kvrpcpb.Op_Lock, kvrpcpb.Op_CheckNotExists:
		default:
			return abortError("prewrite has a mutation of type %s", m.Op)
		}
		size += len(m.Key) + len(m.Value)
	}
	if size > p.engine.opts.TxnSizeLimit {
		return p.tooLarge(size)
	}
	for _, c := range p.req.ForUpdateTsConstraints {
		if int(c.Index) >= len(p.req.Mutations) {
			return abortError("for_update_ts constraint for mutation %d of %d", c.Index, len(p.req.Mutations))
		}
	}
	return nil
}

// tooLarge names the reason in the text alone: TiDB shows nothing else of an abort.
func (p *prewrite) tooLarge(size int) *kvrpcpb.KeyError {
	return abortError("%v", &kv.TxnTooLargeError{Size: size, Limit: p.engine.opts.TxnSizeLimit})
}

// repeated answers a request of a transaction that has ended.
func (p *prewrite) repeated(o outcome) *kvrpcpb.PrewriteResponse {
	if !o.committed() {
		return failedPrewrite(p.selfRolledBack())
	}
	resp := &kvrpcpb.PrewriteResponse{}
	if p.req.TryOnePc {
		resp.OnePcCommitTs = o.commitTS
	}
	return resp
}

func (p *prewrite) selfRolledBack() *kvrpcpb.KeyError {
	start := p.req.StartVersion
	var key []byte
	if len(p.req.Mutations) > 0 {
		key = p.req.Mutations[0].Key
	}
	return conflict(kvrpcpb.WriteConflict_SelfRolledBack, start, start, key, p.req.PrimaryLock)
}

// try checks all mutations and then locks, or commits, them. It returns a committing transaction to wait for instead of
// an answer.
func (p *prewrite) try(ctx context.Context) (_ *kvrpcpb.PrewriteResponse, wait *transaction, err error) {
	muts := p.req.Mutations
	p.holder = nil
	held, ok := p.engine.table.latch(ctx, p.engine.latchTimeout(), len(muts), func(i int) []byte { return muts[i].Key })
	if !ok {
		// Nothing was written, which an error would leave in doubt.
		return &kvrpcpb.PrewriteResponse{RegionError: serverIsBusy()}, nil, nil
	}
	latched := true
	defer func() {
		if latched {
			held.release()
		}
		err = errors.Join(err, p.closeLookups())
	}()
	// Another copy of this request may have been faster. Before the checks, as the versions of this transaction itself
	// would be conflicts.
	if o, busy := p.txn.end(); busy {
		return nil, p.txn, nil
	} else if o.ended {
		return p.repeated(o), nil, nil
	}
	keyErrs, wait, err := p.checkAll(ctx)
	if err != nil || wait != nil {
		return nil, wait, err
	}
	if len(keyErrs) > 0 {
		return failedPrewrite(keyErrs...), nil, nil
	}
	if p.req.TryOnePc {
		resp, wait, err := p.commitNow(ctx, func() {
			latched = false
			held.release()
		})
		return resp, wait, err
	}
	return p.lockAll()
}

// checkAll checks the mutations in order. Locks of other transactions are all reported, other errors at once.
func (p *prewrite) checkAll(ctx context.Context) (keyErrs []*kvrpcpb.KeyError, wait *transaction, err error) {
	p.locks = make([]*lock, 0, len(p.req.Mutations))
	p.terms = &terms{
		txn:         p.txn,
		primary:     p.primary,
		ttl:         p.req.LockTtl,
		forUpdateTS: p.req.ForUpdateTs,
		txnSize:     p.req.TxnSize,
		updated:     time.Now(),
	}
	constraints := p.constraints()
	// All locks are looked at before the first version, as the versions are those of one moment: who commits while the
	// keys are checked releases its locks without a latch, and would be found by neither.
	found := make([]*lock, len(p.req.Mutations))
	for i, m := range p.req.Mutations {
		found[i] = p.engine.table.get(m.Key)
	}
	for i, m := range p.req.Mutations {
		c := check{prewrite: p, m: m, action: p.action(i), found: found[i]}
		if ts, ok := constraints[uint32(i)]; ok {
			c.expectedForUpdateTS = ts
		}
		keyErr, wait, err := c.run(ctx)
		switch {
		case err != nil || wait != nil:
			return nil, wait, err
		case keyErr == nil:
			if c.lock != nil {
				p.locks = append(p.locks, c.lock)
			}
		case keyErr.Locked == nil:
			p.holder = nil
			return []*kvrpcpb.KeyError{keyErr}, nil, nil
		default:
			keyErrs, p.holder, p.holderKey = append(keyErrs, keyErr), c.holder, m.Key
		}
	}
	return keyErrs, nil, nil
}

func (p *prewrite) constraints() map[uint32]uint64 {
	if len(p.req.ForUpdateTsConstraints) == 0 {
		return nil
	}
	out := make(map[uint32]uint64, len(p.req.ForUpdateTsConstraints))
	for _, c := range p.req.ForUpdateTsConstraints {
		out[c.Index] = c.ExpectedForUpdateTs
	}
	return out
}

func (p *prewrite) action(i int) kvrpcpb.PrewriteRequest_PessimisticAction {
	if i < len(p.req.PessimisticActions) {
		return p.req.PessimisticActions[i]
	}
	return kvrpcpb.PrewriteRequest_SKIP_PESSIMISTIC_CHECK
}

// newest returns the newest version of a key.
func (p *prewrite) newest(ctx context.Context, key []byte) (v pebblekv.Version, err error) {
	if p.full == nil {
		if p.full, err = p.engine.store.NewLookup(ctx); err != nil {
			return v, err
		}
	}
	return p.full.Newest(key)
}

// newerThanStart returns the newest commit of a key after the transaction began, 0 if there is none.
func (p *prewrite) newerThanStart(ctx context.Context, key []byte) (ts uint64, err error) {
	start := p.txn.startTS
	if p.full != nil {
		ts, err = p.full.NewerThan(key, start)
	} else {
		if p.recent == nil {
			if p.recent, err = p.engine.store.NewLookupAfter(ctx, start); err != nil {
				return 0, err
			}
		}
		ts, err = p.recent.NewerThan(key, start)
	}
	return max(ts, p.engine.table.lockedAfter(key, start)), err
}

// closeLookups ends the lookups: the next try has to see what was committed meanwhile.
func (p *prewrite) closeLookups() (err error) {
	for _, l := range []**pebblekv.Lookup{&p.recent, &p.full} {
		if *l != nil {
			err = errors.Join(err, (*l).Close())
			*l = nil
		}
	}
	return err
}

// lockAll puts the locks of checked mutations. The keys' latches are held.
func (p *prewrite) lockAll() (*kvrpcpb.PrewriteResponse, *transaction, error) {
	t := p.txn
	p.keepValues()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.state == stateCommitting || t.state == stateUndetermined:
		return nil, t, nil
	case t.state != stateOpen:
		return failedPrewrite(p.selfRolledBack()), nil, nil
	}
	size := p.size()
	if t.bytes+size > p.engine.opts.TxnSizeLimit {
		return failedPrewrite(p.tooLarge(t.bytes + size)), nil, nil
	}
	if !Essential(p.req.Context) && !p.engine.hasRoom(t, p.locks) {
		return failedPrewrite(p.engine.tooManyLocks()), nil, nil
	}
	t.bytes += size
	p.putLocks()
	return &kvrpcpb.PrewriteResponse{}, nil, nil
}

// size is the number of bytes of the keys and values to be locked.
func (p *prewrite) size() int {
	size := 0
	for _, l := range p.locks {
		size += len(l.key) + len(l.value)
	}
	return size
}

// putLocks makes the locks known: to readers first, before any of them can be committed. The transaction's mu is held.
// It returns the locks of its own that each of them replaces.
func (p *prewrite) putLocks() (replaced []*lock) {
	t := p.txn
	t.minCommitTS = max(t.minCommitTS, p.req.MinCommitTs)
	t.essential = t.essential || Essential(p.req.Context)
	var block keyBlock
	replaced = make([]*lock, len(p.locks))
	for i, l := range p.locks {
		replaced[i] = p.engine.table.put(l)
		t.locks[l.name()] = l
		if l.hidesFromReaders() {
			block = append(block, l.key)
		}
	}
	t.addBlock(block)
	if len(block) > 0 {
		p.engine.active.add(t)
	}
	return replaced
}

// keepValues copies the values out of the request, whose memory is the caller's.
func (p *prewrite) keepValues() {
	size := 0
	for _, l := range p.locks {
		size += len(l.value)
	}
	arena := make([]byte, 0, size)
	for _, l := range p.locks {
		start := len(arena)
		arena = append(arena, l.value...)
		l.value = arena[start:len(arena):len(arena)]
	}
}

// newLock makes the lock of a mutation; replaced is the pessimistic lock of the same transaction, if there is one.
func (p *prewrite) newLock(m *kvrpcpb.Mutation, replaced *lock) *lock {
	op := m.Op
	if op == kvrpcpb.Op_Insert {
		op = kvrpcpb.Op_Put
	}
	l := &lock{terms: p.terms, op: op}
	if op == kvrpcpb.Op_Put {
		l.value = m.Value
	}
	if replaced != nil {
		l.key, l.terms = replaced.key, p.terms.with(max(p.terms.ttl, replaced.ttl), p.terms.forUpdateTS)
	} else {
		l.key = bytes.Clone(m.Key)
	}
	return l
}

// Essential says whether a request must go on where the disk is nearly full.
func Essential(rc *kvrpcpb.Context) bool {
	return rc.GetDiskFullOpt() != kvrpcpb.DiskFullOpt_NotAllowedOnFull
}
