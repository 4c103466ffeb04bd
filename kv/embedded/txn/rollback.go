package txn

import (
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// rollback ends a transaction without committing it, as a whole. It returns how the transaction has ended: it may have
// committed.
func (e *Engine) rollback(ctx context.Context, startTS uint64) (outcome, error) {
	for {
		t, o := e.registry.rollbackUnknown(startTS)
		if t == nil {
			if !o.ended {
				o = outcome{ended: true}
			}
			return o, nil
		}
		if t.beginRollback() {
			e.release(t, 0)
			return outcome{ended: true}, nil
		}
		if err := t.awaitEnd(ctx); err != nil {
			return outcome{}, err
		}
	}
}

// beginRollback claims an open transaction for being rolled back.
func (t *transaction) beginRollback() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != stateOpen {
		return false
	}
	t.state = stateRolledBack
	return true
}

// BatchRollback rolls a transaction back.
func (e *Engine) BatchRollback(ctx context.Context, req *kvrpcpb.BatchRollbackRequest) (*kvrpcpb.BatchRollbackResponse, error) {
	o, err := e.rollback(ctx, req.StartVersion)
	if err != nil {
		return nil, err
	}
	resp := &kvrpcpb.BatchRollbackResponse{}
	if o.committed() {
		resp.Error = committedError(req.StartVersion, o.commitTS)
	}
	return resp, nil
}

func committedError(startTS, commitTS uint64) *kvrpcpb.KeyError {
	return abortError("Committed { start_ts: %d, commit_ts: %d }", startTS, commitTS)
}

// Cleanup rolls a transaction back if it was not committed and, unless no time is given, its lock of the key has expired.
func (e *Engine) Cleanup(ctx context.Context, req *kvrpcpb.CleanupRequest) (*kvrpcpb.CleanupResponse, error) {
	if t, _ := e.registry.find(req.StartVersion); t != nil && req.CurrentTs != 0 {
		if l := t.lockOf(req.Key); l != nil && !t.committing() && !expired(l, req.CurrentTs) {
			return &kvrpcpb.CleanupResponse{Error: lockedError(l)}, nil
		}
	}
	o, err := e.rollback(ctx, req.StartVersion)
	if err != nil {
		return nil, err
	}
	return &kvrpcpb.CleanupResponse{CommitVersion: o.commitTS}, nil
}

// PessimisticRollback gives up pessimistic locks that are not newer than the request; with no keys, all of them. The
// transaction goes on.
func (e *Engine) PessimisticRollback(_ context.Context, req *kvrpcpb.PessimisticRollbackRequest) (*kvrpcpb.PessimisticRollbackResponse, error) {
	resp := &kvrpcpb.PessimisticRollbackResponse{}
	t, o := e.registry.find(req.StartVersion)
	if t == nil || o.ended {
		return resp, nil
	}
	t, o = e.registry.enter(e, req.StartVersion)
	if o.ended {
		return resp, nil
	}
	defer e.registry.leave(t)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != stateOpen {
		return resp, nil
	}
	give := func(l *lock) {
		if l != nil && l.pessimistic() && l.forUpdateTS <= req.ForUpdateTs {
			delete(t.locks, string(l.key))
			e.table.remove(l, 0)
		}
	}
	if len(req.Keys) == 0 {
		for _, l := range t.locks {
			give(l)
		}
	}
	for _, key := range req.Keys {
		give(t.locks[string(key)])
	}
	return resp, nil
}
