package txn

import (
	"bytes"
	"context"
	"math"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// physicalBits is where the milliseconds of a timestamp begin.
const physicalBits = 18

func physical(ts uint64) int64 { return int64(ts >> physicalBits) }

// expired says whether a lock's time to live is over at a timestamp.
func expired(l *lock, now uint64) bool {
	if now == math.MaxUint64 {
		return true
	}
	return physical(l.txn.startTS)+int64(l.ttl) < physical(now)
}

// HeartBeat extends the life of a transaction's primary lock.
func (e *Engine) HeartBeat(_ context.Context, req *kvrpcpb.TxnHeartBeatRequest) (*kvrpcpb.TxnHeartBeatResponse, error) {
	notFound := &kvrpcpb.TxnHeartBeatResponse{Error: txnNotFound(req.StartVersion, req.PrimaryLock)}
	t, _ := e.registry.find(req.StartVersion)
	if t == nil {
		return notFound, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.locks[string(req.PrimaryLock)]
	if l == nil {
		return notFound, nil
	}
	if t.state == stateOpen {
		t.minCommitTS = max(t.minCommitTS, req.MinCommitTs)
	}
	if t.state == stateOpen && l.ttl < req.AdviseLockTtl {
		extended, until := *l, *l.terms
		until.ttl, until.updated = req.AdviseLockTtl, time.Now()
		extended.terms = &until
		l = &extended
		t.locks[l.name()] = l
		e.table.put(l)
	}
	return &kvrpcpb.TxnHeartBeatResponse{LockTtl: l.ttl}, nil
}

// CheckTxnStatus returns the state of a transaction, and rolls it back if its primary lock has expired or, if the request
// asks for that, is missing.
func (e *Engine) CheckTxnStatus(ctx context.Context, req *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, error) {
	deadline := time.Now().Add(e.opts.MaxLockWait)
	for {
		t, o := e.registry.find(req.LockTs)
		if t == nil {
			return e.checkMissing(ctx, req, o)
		}
		l := t.lockOf(req.PrimaryKey)
		if t.committing() {
			if l != nil && time.Now().After(deadline) {
				return stillCommitting(l, req.CurrentTs), nil // the client has a deadline of its own
			}
			if err := t.awaitWithin(ctx, min(endTimeout, e.opts.MaxLockWait)); err != nil {
				return nil, err
			}
			continue
		}
		if l == nil {
			return e.checkMissing(ctx, req, outcome{})
		}
		return e.checkLocked(ctx, req, l)
	}
}

// stillCommitting answers for a transaction whose commit waits for the disk: it is alive even if its lock has expired.
func stillCommitting(l *lock, now uint64) *kvrpcpb.CheckTxnStatusResponse {
	alive := *l
	alive.terms = l.with(max(l.ttl, uint64(max(0, physical(now)-physical(l.txn.startTS)))+grantedTTL), l.forUpdateTS)
	return &kvrpcpb.CheckTxnStatusResponse{LockTtl: alive.ttl, LockInfo: alive.info()}
}

// checkMissing answers for a transaction without its primary lock.
func (e *Engine) checkMissing(ctx context.Context, req *kvrpcpb.CheckTxnStatusRequest, o outcome) (*kvrpcpb.CheckTxnStatusResponse, error) {
	switch {
	case o.ended:
		return &kvrpcpb.CheckTxnStatusResponse{CommitVersion: o.commitTS}, nil
	case !req.RollbackIfNotExist:
		return &kvrpcpb.CheckTxnStatusResponse{Error: txnNotFound(req.LockTs, req.PrimaryKey)}, nil
	case req.ResolvingPessimisticLock:
		return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_LockNotExistDoNothing}, nil
	}
	o, err := e.rollback(ctx, req.LockTs)
	if err != nil {
		return nil, err
	}
	if o.committed() {
		return &kvrpcpb.CheckTxnStatusResponse{CommitVersion: o.commitTS}, nil
	}
	return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_LockNotExistRollback}, nil
}

// checkLocked answers for a transaction that holds the lock l of its primary key.
func (e *Engine) checkLocked(ctx context.Context, req *kvrpcpb.CheckTxnStatusRequest, l *lock) (*kvrpcpb.CheckTxnStatusResponse, error) {
	if req.VerifyIsPrimary && !bytes.Equal(l.primary, req.PrimaryKey) {
		if req.ResolvingPessimisticLock || !l.pessimistic() {
			return &kvrpcpb.CheckTxnStatusResponse{
				Error: &kvrpcpb.KeyError{PrimaryMismatch: &kvrpcpb.PrimaryMismatch{LockInfo: l.info()}},
			}, nil
		}
		// A prewritten lock names a primary that is merely a pessimistic lock with another primary: its own is missing.
		return e.checkMissing(ctx, req, outcome{})
	}
	if expired(l, req.CurrentTs) {
		if req.ResolvingPessimisticLock && l.pessimistic() {
			return e.expireLock(ctx, l)
		}
		return e.expire(ctx, req, l)
	}
	resp := &kvrpcpb.CheckTxnStatusResponse{LockTtl: l.ttl}
	if !l.pessimistic() {
		if req.CallerStartTs == math.MaxUint64 {
			resp.Action = kvrpcpb.Action_MinCommitTSPushed
		} else if req.CallerStartTs != 0 && l.txn.push(max(req.CallerStartTs+1, req.CurrentTs)) {
			resp.Action = kvrpcpb.Action_MinCommitTSPushed
		}
	}
	resp.LockInfo = l.info()
	return resp, nil
}

// push raises the lowest commit timestamp of an open transaction.
func (t *transaction) push(ts uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != stateOpen {
		return false
	}
	t.minCommitTS = max(t.minCommitTS, ts)
	return true
}

// expire rolls back the transaction of an expired lock.
func (e *Engine) expire(ctx context.Context, req *kvrpcpb.CheckTxnStatusRequest, l *lock) (*kvrpcpb.CheckTxnStatusResponse, error) {
	info := l.info()
	o, err := e.rollback(ctx, req.LockTs)
	if err != nil {
		return nil, err
	}
	if o.committed() {
		return &kvrpcpb.CheckTxnStatusResponse{CommitVersion: o.commitTS}, nil
	}
	return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_TTLExpireRollback, LockInfo: info}, nil
}

// expireLock gives up one expired pessimistic lock and leaves the rest of its transaction alone.
func (e *Engine) expireLock(ctx context.Context, l *lock) (*kvrpcpb.CheckTxnStatusResponse, error) {
	info := l.info()
	_, err := e.PessimisticRollback(ctx, &kvrpcpb.PessimisticRollbackRequest{
		StartVersion: l.txn.startTS,
		ForUpdateTs:  l.forUpdateTS,
		Keys:         [][]byte{l.key},
	})
	if err != nil {
		return nil, err
	}
	return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_TTLExpirePessimisticRollback, LockInfo: info}, nil
}

// CheckSecondaryLocks returns the locks that a transaction has of keys, or how it ended. If a lock is missing the
// transaction is rolled back.
func (e *Engine) CheckSecondaryLocks(ctx context.Context, req *kvrpcpb.CheckSecondaryLocksRequest) (*kvrpcpb.CheckSecondaryLocksResponse, error) {
	resp := &kvrpcpb.CheckSecondaryLocksResponse{}
	if t, _ := e.registry.find(req.StartVersion); t != nil {
		if t.committing() {
			if err := t.awaitEnd(ctx); err != nil {
				return nil, err
			}
		}
		for _, key := range req.Keys {
			l := t.lockOf(key)
			if l == nil || l.pessimistic() {
				resp.Locks = nil
				break
			}
			resp.Locks = append(resp.Locks, l.info())
		}
		if len(resp.Locks) == len(req.Keys) {
			return resp, nil
		}
	}
	o, err := e.rollback(ctx, req.StartVersion)
	if err != nil {
		return nil, err
	}
	resp.CommitTs = o.commitTS
	return resp, nil
}
