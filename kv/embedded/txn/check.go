package txn

import (
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"fastddl/kv/pebblekv"
)

// check decides whether one mutation can be prewritten. The key's latch is held.
type check struct {
	*prewrite
	m                   *kvrpcpb.Mutation
	action              kvrpcpb.PrewriteRequest_PessimisticAction
	expectedForUpdateTS uint64 // 0: any
	found               *lock  // the key's lock before any version was looked up

	lock   *lock        // to be put
	holder *transaction // who has locked the key
	// newest is the key's newest version, once it was looked up.
	newest    pebblekv.Version
	newestSet bool
}

// run returns what is wrong, or a committing transaction to wait for. If all is well the lock to put is in c.lock,
// unless nothing is to be locked.
func (c *check) run(ctx context.Context) (keyErr *kvrpcpb.KeyError, wait *transaction, err error) {
	l := c.found
	if l != nil && l.txn != c.txn {
		switch {
		case l.txn.committing():
			c.committing = lockedError(l)
			return nil, l.txn, nil
		case c.needsPessimisticLock():
			return pessimisticLockNotFound(c.txn.startTS, c.m.Key, "LockTsMismatch"), nil, nil
		}
		c.holder = l.txn
		return lockedError(l), nil, nil
	}
	if l != nil && !l.pessimistic() {
		return nil, nil, nil // prewritten by an earlier copy of this request
	}
	if l != nil {
		keyErr = c.checkOwnLock(l)
	} else if c.needsPessimisticLock() {
		keyErr, err = c.amend(ctx)
	}
	if keyErr == nil && err == nil {
		keyErr, err = c.checkVersions(ctx, l == nil && c.needsPessimisticLock())
	}
	if keyErr != nil || err != nil {
		return keyErr, nil, err
	}
	if c.m.Op != kvrpcpb.Op_CheckNotExists {
		c.lock = c.newLock(c.m, l)
	}
	return nil, nil, nil
}

// needsPessimisticLock says that the key should have been locked before.
func (c *check) needsPessimisticLock() bool {
	return c.pessimistic && c.action == kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK
}

func (c *check) checkOwnLock(l *lock) *kvrpcpb.KeyError {
	if !c.pessimistic {
		return lockTypeNotMatch(c.txn.startTS, c.m.Key, true)
	}
	if c.expectedForUpdateTS != 0 && l.forUpdateTS != c.expectedForUpdateTS {
		return pessimisticLockNotFound(c.txn.startTS, c.m.Key, "ForUpdateTsMismatch")
	}
	return nil
}

// amend makes up for a pessimistic lock that is missing: that does no harm if the key has not changed since the
// transaction began.
func (c *check) amend(ctx context.Context) (*kvrpcpb.KeyError, error) {
	if c.expectedForUpdateTS != 0 {
		return pessimisticLockNotFound(c.txn.startTS, c.m.Key, "LockForUpdateTsMismatch"), nil
	}
	ts, err := c.newerThanStart(ctx, c.m.Key)
	if err != nil || ts == 0 {
		return nil, err
	}
	return pessimisticLockNotFound(c.txn.startTS, c.m.Key, "LockMissingAmendFail"), nil
}

// skipsConflictCheck says that the key cannot have changed, or that a change does not matter.
func (c *check) skipsConflictCheck() bool {
	switch {
	case !c.pessimistic:
		return c.req.SkipConstraintCheck
	case c.action == kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK:
		return true
	case c.action == kvrpcpb.PrewriteRequest_DO_CONSTRAINT_CHECK:
		return false
	}
	// Keys that are written without a lock. The second copy of a request must not pass when the first has committed.
	return !c.req.Context.GetIsRetryRequest()
}

// checkVersions checks the key against what others have committed.
func (c *check) checkVersions(ctx context.Context, amended bool) (*kvrpcpb.KeyError, error) {
	checked := !c.skipsConflictCheck()
	if checked {
		if keyErr, err := c.checkConflict(ctx); keyErr != nil || err != nil {
			return keyErr, err
		}
		if c.m.Op == kvrpcpb.Op_Insert || c.m.Op == kvrpcpb.Op_CheckNotExists {
			v, err := c.newestVersion(ctx)
			if err != nil {
				return nil, err
			}
			if v.Live() {
				return alreadyExists(c.m.Key), nil
			}
		}
	}
	return c.checkAssertion(ctx, checked || amended)
}

func (c *check) checkConflict(ctx context.Context) (*kvrpcpb.KeyError, error) {
	ts, err := c.newerThanStart(ctx, c.m.Key)
	if err != nil || ts == 0 {
		return nil, err
	}
	switch {
	case !c.pessimistic:
		return conflict(kvrpcpb.WriteConflict_Optimistic, c.txn.startTS, ts, c.m.Key, c.req.PrimaryLock), nil
	case c.action == kvrpcpb.PrewriteRequest_DO_CONSTRAINT_CHECK:
		return conflict(kvrpcpb.WriteConflict_LazyUniquenessCheck, c.txn.startTS, ts, c.m.Key, c.req.PrimaryLock), nil
	case ts > c.req.ForUpdateTs:
		return pessimisticLockNotFound(c.txn.startTS, c.m.Key, "NonLockKeyConflict"), nil
	}
	return nil, nil
}

// checkAssertion checks what the client believes of the key: always at the strict level, and where it costs little, as
// the key is being looked at, at the fast one.
func (c *check) checkAssertion(ctx context.Context, lookedAt bool) (*kvrpcpb.KeyError, error) {
	if c.m.Assertion == kvrpcpb.Assertion_None || c.req.AssertionLevel == kvrpcpb.AssertionLevel_Off ||
		c.req.AssertionLevel == kvrpcpb.AssertionLevel_Fast && !lookedAt {
		return nil, nil
	}
	v, err := c.newestVersion(ctx)
	if err != nil {
		return nil, err
	}
	if v.Live() == (c.m.Assertion == kvrpcpb.Assertion_Exist) {
		return nil, nil
	}
	if c.skipsConflictCheck() {
		// The belief may be wrong because the key has changed, which the client handles better.
		if keyErr, err := c.checkConflict(ctx); keyErr != nil || err != nil {
			return keyErr, err
		}
	}
	return assertionFailed(c.txn.startTS, c.m, v.TS), nil
}

func (c *check) newestVersion(ctx context.Context) (pebblekv.Version, error) {
	if c.newestSet {
		return c.newest, nil
	}
	v, err := c.prewrite.newest(ctx, c.m.Key)
	if err == nil {
		c.newest, c.newestSet = v, true
	}
	return v, err
}
