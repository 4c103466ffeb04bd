package txn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	deadlockpb "github.com/pingcap/kvproto/pkg/deadlock"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"fastddl/kv"
)

// ResolveLock ends transactions whose fate the client has learned.
func (e *Engine) ResolveLock(ctx context.Context, req *kvrpcpb.ResolveLockRequest) (*kvrpcpb.ResolveLockResponse, error) {
	infos := req.TxnInfos
	if len(infos) == 0 {
		infos = []*kvrpcpb.TxnInfo{{Txn: req.StartVersion, Status: req.CommitVersion}}
	}
	for _, info := range infos {
		keyErr, err := e.resolve(ctx, info.Txn, info.Status)
		if err != nil {
			return nil, err
		}
		if keyErr != nil {
			return &kvrpcpb.ResolveLockResponse{Error: keyErr}, nil
		}
	}
	return &kvrpcpb.ResolveLockResponse{}, nil
}

// resolve commits or, if commitTS is 0, rolls back a transaction that may hold locks.
func (e *Engine) resolve(ctx context.Context, startTS, commitTS uint64) (*kvrpcpb.KeyError, error) {
	t, _ := e.registry.find(startTS)
	if t == nil {
		return nil, nil
	}
	if commitTS != 0 {
		keys := t.prewrittenKeys()
		if len(keys) == 0 {
			return nil, nil
		}
		return e.commitAt(ctx, startTS, commitTS, keys)
	}
	o, err := e.rollback(ctx, startTS)
	if err == nil && o.committed() {
		return committedError(startTS, o.commitTS), nil
	}
	return nil, err
}

func (t *transaction) prewrittenKeys() [][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	var keys [][]byte
	for _, l := range t.locks {
		if !l.pessimistic() {
			keys = append(keys, l.key)
		}
	}
	return keys
}

// locksIn returns the transaction's locks in a range, in no order.
func (t *transaction) locksIn(r kv.KeyRange) []*lock {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []*lock
	for _, l := range t.locks {
		if r.Contains(l.key) {
			found = append(found, l)
		}
	}
	return found
}

// ScanLock lists the locks in a range, in the order of keys, of transactions that began at or before a timestamp.
// Transactions that are committing are waited for.
func (e *Engine) ScanLock(ctx context.Context, req *kvrpcpb.ScanLockRequest) (*kvrpcpb.ScanLockResponse, error) {
	r := kv.KeyRange{Start: req.StartKey}
	if len(req.EndKey) > 0 {
		r.End = req.EndKey
	}
	var found []*lock
	for _, t := range e.registry.holding(req.MaxVersion) {
		found = append(found, t.locksIn(r)...)
	}
	slices.SortFunc(found, func(a, b *lock) int {
		return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(a.txn.startTS, b.txn.startTS))
	})
	resp := &kvrpcpb.ScanLockResponse{}
	for _, l := range found {
		if req.Limit > 0 && len(resp.Locks) >= int(req.Limit) {
			break
		}
		for l.txn.committing() {
			if err := l.txn.awaitEnd(ctx); err != nil {
				return nil, err
			}
		}
		if e.table.get(l.key) == l {
			resp.Locks = append(resp.Locks, l.info())
		}
	}
	return resp, nil
}

// ChangedSince says that a key of a range has a version above a timestamp, or is locked.
func (e *Engine) ChangedSince(ctx context.Context, r kv.KeyRange, ts uint64) (changed bool, err error) {
	// Locks are removed only when what was committed is there to see.
	for _, t := range e.registry.holding(math.MaxUint64) {
		if len(t.locksIn(r)) > 0 {
			return true, nil
		}
	}
	err = e.store.Changes(ctx, r, ts, e.store.LastTS(), func([]byte) error { return errChanged })
	if errors.Is(err, errChanged) {
		return true, nil
	}
	return false, err
}

// errChanged ends the search for a change.
var errChanged = errors.New("a key has changed")

// LockWaits lists who waits for whom.
func (e *Engine) LockWaits() []*deadlockpb.WaitForEntry { return e.detector.entries(e.table) }
