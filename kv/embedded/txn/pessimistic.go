package txn

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"fastddl/kv/pebblekv"
)

// grantedTTL is the time to live, in milliseconds from now, of a lock that is reported before it is there.
const grantedTTL = 3000

// PessimisticLock locks keys for a pessimistic transaction, all or none, waiting for who holds them.
func (e *Engine) PessimisticLock(ctx context.Context, req *kvrpcpb.PessimisticLockRequest) (*kvrpcpb.PessimisticLockResponse, error) {
	a := &acquisition{
		engine:  e,
		req:     req,
		primary: bytes.Clone(req.PrimaryLock),
		force:   req.WakeUpMode == kvrpcpb.PessimisticLockWakeUpMode_WakeUpModeForceLock,
	}
	if keyErr := a.validate(); keyErr != nil {
		return a.failed(keyErr), nil
	}
	t, o := e.registry.enter(e, req.StartVersion)
	if o.ended {
		return a.failed(pessimisticLockRolledBack(req.StartVersion, req.Mutations[0].Key)), nil
	}
	defer e.registry.leave(t)
	a.txn = t
	keyErr, err := a.run(ctx)
	if errors.Is(err, errLatched) {
		return &kvrpcpb.PessimisticLockResponse{RegionError: serverIsBusy()}, nil
	}
	if err != nil {
		return nil, err
	}
	if keyErr != nil {
		return a.failed(keyErr), nil
	}
	return a.succeeded(), nil
}

// acquisition is one request for pessimistic locks.
type acquisition struct {
	engine *Engine
	req    *kvrpcpb.PessimisticLockRequest
	txn    *transaction
	// primary is a copy of the request's primary key.
	primary []byte
	force   bool // lock in spite of a newer version, and say so (fair locking)
	waiter  *waiter
	// deadline is when waiting ends; zero before the first wait.
	deadline time.Time
	terms    *terms // of its locks
	results  []lockResult
}

// lockResult is what is known of a key that can be locked.
type lockResult struct {
	lock       *lock // to be put; nil if there is nothing to do
	value      []byte
	exists     bool
	conflictTS uint64 // the key is locked in spite of this version
}

func (a *acquisition) validate() *kvrpcpb.KeyError {
	switch {
	case len(a.req.Mutations) == 0:
		return abortError("a lock request names no key")
	case a.force && len(a.req.Mutations) > 1:
		return abortError("a lock request that locks with conflict names %d keys", len(a.req.Mutations))
	case a.req.LockOnlyIfExists && !a.req.ReturnValues:
		return abortError("LockIfExistsFailed { start_ts: %d, key: %x }: values are not asked for",
			a.req.StartVersion, a.req.Mutations[0].Key)
	}
	for _, m := range a.req.Mutations {
		if m.Op != kvrpcpb.Op_PessimisticLock {
			return abortError("a lock request has a mutation of type %s", m.Op)
		}
	}
	return nil
}

// run tries until the keys are locked or something is in the way for good.
func (a *acquisition) run(ctx context.Context) (*kvrpcpb.KeyError, error) {
	for {
		blocked, keyErr, err := a.try(ctx)
		if a.waiter != nil {
			a.engine.table.quit(a.waiter)
		}
		if blocked == nil || err != nil {
			return keyErr, err
		}
		if keyErr, err = a.wait(ctx, blocked); keyErr != nil || err != nil {
			return keyErr, err
		}
	}
}

// obstacle is who keeps a key from being locked.
type obstacle struct {
	key    []byte
	lock   *lock // nil: a waiter that was woken before
	holder *transaction
}

// try locks all keys, or none of them: it returns what is in the way, or an error for the client.
func (a *acquisition) try(ctx context.Context) (*obstacle, *kvrpcpb.KeyError, error) {
	muts := a.req.Mutations
	held, ok := a.engine.table.latch(ctx, a.engine.latchTimeout(), len(muts), func(i int) []byte { return muts[i].Key })
	if !ok {
		return nil, nil, errLatched
	}
	defer held.release()
	for _, m := range muts {
		if l, holder := a.engine.table.blocker(m.Key, a.txn.startTS, a.waiter); holder != nil {
			return &obstacle{key: m.Key, lock: l, holder: holder}, nil, nil
		}
	}
	// Opened after the look at the locks, so that it sees what their holders have committed.
	lookup, err := a.engine.store.NewLookup(ctx)
	if err != nil {
		return nil, nil, err
	}
	keyErr, err := a.examineAll(lookup)
	if err = errors.Join(err, lookup.Close()); err != nil || keyErr != nil {
		return nil, keyErr, err
	}
	return nil, a.lockAll(), nil
}

func (a *acquisition) examineAll(lookup *pebblekv.Lookup) (*kvrpcpb.KeyError, error) {
	a.results = make([]lockResult, len(a.req.Mutations))
	a.terms = &terms{
		txn:         a.txn,
		primary:     a.primary,
		ttl:         a.req.LockTtl,
		forUpdateTS: a.req.ForUpdateTs,
		updated:     time.Now(),
	}
	for i, m := range a.req.Mutations {
		keyErr, err := a.examine(lookup, m, &a.results[i])
		if keyErr != nil || err != nil {
			return keyErr, err
		}
	}
	return nil, nil
}

// examine finds out whether and how a key without a lock of another transaction can be locked.
func (a *acquisition) examine(lookup *pebblekv.Lookup, m *kvrpcpb.Mutation, r *lockResult) (*kvrpcpb.KeyError, error) {
	own := a.txn.lockOf(m.Key)
	if own != nil && !own.pessimistic() {
		return lockTypeNotMatch(a.txn.startTS, m.Key, false), nil
	}
	v, err := lookup.Newest(m.Key)
	if err != nil {
		return nil, err
	}
	forUpdateTS := a.req.ForUpdateTs
	newest := max(v.TS, a.engine.table.lockedAfter(m.Key, forUpdateTS))
	switch {
	case own != nil:
		// Locked before: nothing newer than that lock's timestamp can have come since.
		if own.forUpdateTS > forUpdateTS && a.force {
			r.conflictTS, forUpdateTS = own.forUpdateTS, own.forUpdateTS
		}
	case newest > forUpdateTS && a.force:
		r.conflictTS, forUpdateTS = newest, newest
	case newest > forUpdateTS:
		return conflict(kvrpcpb.WriteConflict_PessimisticRetry, a.txn.startTS, newest, m.Key, a.req.PrimaryLock), nil
	}
	r.exists = v.Live()
	if m.Assertion == kvrpcpb.Assertion_NotExist && r.exists && r.conflictTS == 0 {
		return alreadyExists(m.Key), nil
	}
	if a.req.ReturnValues || r.conflictTS != 0 {
		r.value = bytes.Clone(v.Value)
	}
	if a.req.LockOnlyIfExists && !r.exists {
		return nil, nil
	}
	if own == nil || own.forUpdateTS < forUpdateTS {
		r.lock = a.newLock(m.Key, forUpdateTS, own)
	}
	return nil, nil
}

func (a *acquisition) newLock(key []byte, forUpdateTS uint64, own *lock) *lock {
	ttl := a.req.LockTtl
	if own != nil {
		key, ttl = own.key, max(ttl, own.ttl)
	} else {
		key = bytes.Clone(key)
	}
	return &lock{terms: a.terms.with(ttl, forUpdateTS), key: key, op: kvrpcpb.Op_PessimisticLock}
}

// lockAll puts the locks. The keys' latches are held.
func (a *acquisition) lockAll() *kvrpcpb.KeyError {
	locks := make([]*lock, 0, len(a.results))
	for _, r := range a.results {
		if r.lock != nil {
			locks = append(locks, r.lock)
		}
	}
	t := a.txn
	t.mu.Lock()
	if t.state != stateOpen {
		t.mu.Unlock()
		return pessimisticLockRolledBack(t.startTS, a.req.Mutations[0].Key)
	}
	if !a.engine.hasRoom(t, locks) {
		t.mu.Unlock()
		return a.engine.tooManyLocks()
	}
	t.minCommitTS = max(t.minCommitTS, a.req.MinCommitTs)
	for _, l := range locks {
		t.locks[l.name()] = l
		a.engine.table.put(l)
	}
	t.mu.Unlock()
	if a.engine.detector.waiting(t.startTS) {
		// Who waits for these keys now waits for a transaction that waits itself.
		for _, l := range locks {
			a.engine.table.recheck(l.key)
		}
	}
	return nil
}

// wait waits until the key in the way may be free.
func (a *acquisition) wait(ctx context.Context, o *obstacle) (*kvrpcpb.KeyError, error) {
	keyErr, err := a.waitFor(ctx, o)
	if locked := keyErr.GetLocked(); locked != nil && a.req.WaitTimeout < 0 {
		// The lock's age is for requests that have waited for it. client-go asks again at once if the lock is
		// young, before it checks whether its statement may wait any longer.
		locked.DurationToLastUpdateMs = 0
	}
	return keyErr, err
}

func (a *acquisition) waitFor(ctx context.Context, o *obstacle) (*kvrpcpb.KeyError, error) {
	if a.deadline.IsZero() {
		a.deadline = time.Now().Add(a.waitTimeout())
	}
	if o.holder.committing() {
		// Also if the request is not to wait: the lock's removal is queued and fails only for I/O errors. It is late only
		// if the disk hangs.
		rest := time.Until(a.deadline)
		if rest <= 0 {
			return a.waitTimedOut(o), nil
		}
		return nil, o.holder.awaitWithin(ctx, rest)
	}
	if a.req.WaitTimeout < 0 {
		if o.lock == nil { // the waiter that was woken has not locked it yet: it counts as locked
			return a.waitTimedOut(o), nil
		}
		return lockedError(o.lock), nil
	}
	if a.waiter == nil {
		a.waiter = newWaiter(a.txn, bytes.Clone(a.req.Context.GetResourceGroupTag()))
	}
	w, e := a.waiter, a.engine
	if !e.table.join(w, o.key) {
		return nil, nil
	}
	granted := false
	e.detector.add(w)
	defer func() {
		e.detector.remove(w)
		if !granted {
			e.table.quit(w)
		}
	}()
	var keyErr *kvrpcpb.KeyError
	var err error
	granted, keyErr, err = a.park(ctx, o)
	return keyErr, err
}

// waitTimeout is how long the request may wait. One that is not to wait for a lock may wait for a commit that is on its way
// to the disk.
func (a *acquisition) waitTimeout() time.Duration {
	timeout := a.engine.opts.MaxLockWait
	if a.req.WaitTimeout > 0 {
		timeout = min(timeout, time.Duration(a.req.WaitTimeout)*time.Millisecond)
	}
	return timeout
}

// park sleeps until the waiter is granted its key, finds itself in a deadlock or has waited for long enough.
func (a *acquisition) park(ctx context.Context, o *obstacle) (granted bool, _ *kvrpcpb.KeyError, _ error) {
	timer := time.NewTimer(time.Until(a.deadline))
	defer timer.Stop()
	for {
		if circle := a.engine.detector.detect(a.waiter, a.engine.table); circle != nil {
			return false, deadlockError(circle), nil
		}
		select {
		case reason := <-a.waiter.ch:
			if reason == wakeGranted {
				return true, nil, nil
			}
		case <-timer.C:
			return false, a.waitTimedOut(o), nil
		case <-ctx.Done():
			return false, nil, ctx.Err()
		}
	}
}

// waitTimedOut reports the lock that the key has now, or had when the waiting began.
func (a *acquisition) waitTimedOut(o *obstacle) *kvrpcpb.KeyError {
	if l := a.engine.table.get(o.key); l != nil && l.txn != a.txn {
		return lockedError(l)
	}
	if o.lock != nil {
		return lockedError(o.lock)
	}
	// The holder has been granted the key and is about to lock it. The answer is a fresh lock, for which the client retries.
	now := time.Now()
	return lockedError(&lock{key: o.key, op: kvrpcpb.Op_PessimisticLock, terms: &terms{
		txn:     o.holder,
		primary: o.key,
		ttl:     uint64(now.UnixMilli()-physical(o.holder.startTS)) + grantedTTL,
		updated: now,
	}})
}

func (a *acquisition) failed(keyErr *kvrpcpb.KeyError) *kvrpcpb.PessimisticLockResponse {
	resp := &kvrpcpb.PessimisticLockResponse{Errors: []*kvrpcpb.KeyError{keyErr}}
	if a.force {
		for range a.req.Mutations {
			resp.Results = append(resp.Results,
				&kvrpcpb.PessimisticLockKeyResult{Type: kvrpcpb.PessimisticLockKeyResultType_LockResultFailed})
		}
	}
	return resp
}

func (a *acquisition) succeeded() *kvrpcpb.PessimisticLockResponse {
	resp := &kvrpcpb.PessimisticLockResponse{}
	for _, r := range a.results {
		switch {
		case a.force:
			resp.Results = append(resp.Results, a.keyResult(r))
		case a.req.ReturnValues:
			resp.Values = append(resp.Values, r.value)
			resp.NotFounds = append(resp.NotFounds, !r.exists)
		case a.req.CheckExistence:
			resp.NotFounds = append(resp.NotFounds, !r.exists)
		}
	}
	return resp
}

func (a *acquisition) keyResult(r lockResult) *kvrpcpb.PessimisticLockKeyResult {
	if r.conflictTS != 0 {
		return &kvrpcpb.PessimisticLockKeyResult{
			Type:                 kvrpcpb.PessimisticLockKeyResultType_LockResultLockedWithConflict,
			Value:                r.value,
			Existence:            r.exists,
			LockedWithConflictTs: r.conflictTS,
		}
	}
	res := &kvrpcpb.PessimisticLockKeyResult{Type: kvrpcpb.PessimisticLockKeyResultType_LockResultNormal}
	if a.req.ReturnValues {
		res.Value = r.value
	}
	if a.req.ReturnValues || a.req.CheckExistence {
		res.Existence = r.exists
	}
	return res
}
