package txn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// commitNow commits a transaction whose writes are all in this request, in one phase. The keys' latches are held; unlatch
// gives them back when the versions are where the next conflict check finds them.
func (p *prewrite) commitNow(ctx context.Context, unlatch func()) (*kvrpcpb.PrewriteResponse, *transaction, error) {
	t := p.txn
	t.mu.Lock()
	switch {
	case t.state == stateCommitting || t.state == stateUndetermined:
		t.mu.Unlock()
		return nil, t, nil
	case t.state != stateOpen:
		t.mu.Unlock()
		return failedPrewrite(p.selfRolledBack()), nil, nil
	}
	blocks := len(t.blocks)
	replaced := p.putLocks()
	t.state = stateCommitting
	t.mu.Unlock()

	ts, err := p.engine.commitBatch(ctx, t, pebblekv.ApplyOptions{
		MaxTS:     p.req.MaxCommitTs,
		Announce:  t.commitTS.Store,
		SizeHint:  p.size(),
		Essential: Essential(p.req.Context),
	}, unlatch)
	switch {
	case err == nil:
		return &kvrpcpb.PrewriteResponse{OnePcCommitTs: ts}, nil, nil
	case isUndetermined(err):
		p.stay()
		return nil, nil, err
	case errors.Is(err, pebblekv.ErrCommitTSTooLarge):
		// As if it had been prewritten only: the client commits in a second phase.
		p.stay()
		t.reopen()
		return &kvrpcpb.PrewriteResponse{}, nil, nil
	}
	p.takeBack(replaced, blocks)
	return failedPrewrite(abortError("commit failed: %v", err)), nil, nil
}

// stay lets locks that were put for a one-phase commit stay when the request, which has their values, is the caller's again.
func (p *prewrite) stay() {
	t := p.txn
	t.mu.Lock()
	defer t.mu.Unlock()
	p.keepValues()
	t.bytes += p.size()
}

// takeBack undoes putLocks.
func (p *prewrite) takeBack(replaced []*lock, blocks int) {
	t := p.txn
	t.mu.Lock()
	t.blocks = t.blocks[:blocks]
	for i, l := range p.locks {
		if replaced[i] != nil {
			t.locks[replaced[i].name()] = replaced[i]
			p.engine.table.put(replaced[i])
			continue
		}
		delete(t.locks, string(l.key))
		p.engine.table.remove(l, 0)
	}
	t.mu.Unlock()
	if blocks == 0 {
		p.engine.active.remove(t)
	}
	t.reopen()
}

// reopen makes a transaction that was to be committed, and was not, what it was before.
func (t *transaction) reopen() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.commitTS.Store(0)
	t.state = stateOpen
}

// commitBatch writes and releases a committing transaction. applied, if there is one, is called once the versions are in
// the store or it is clear that they will not be. After an error that is not undetermined the transaction is still in
// the state of committing and nothing was written.
func (e *Engine) commitBatch(ctx context.Context, t *transaction, opts pebblekv.ApplyOptions, applied func()) (uint64, error) {
	// The caller's context may end; the commit must not be left halfway.
	a, err := e.store.Apply(context.WithoutCancel(ctx), t.writes(), opts)
	if applied != nil {
		applied()
	}
	if err == nil {
		err = a.Wait()
	}
	switch {
	case err == nil:
		t.commitTS.Store(a.TS())
		t.checkCommitted(a.TS())
		e.release(t, a.TS())
		return a.TS(), nil
	case isUndetermined(err):
		e.undetermined(t, err)
	}
	return 0, err
}

// Commit commits a transaction at a timestamp of the client's, as a whole: the first request does it, whichever of the
// keys it names, and the others find it done.
func (e *Engine) Commit(ctx context.Context, req *kvrpcpb.CommitRequest) (*kvrpcpb.CommitResponse, error) {
	keyErr, err := e.commitAt(ctx, req.StartVersion, req.CommitVersion, req.Keys)
	if err != nil {
		return nil, err
	}
	resp := &kvrpcpb.CommitResponse{Error: keyErr}
	if keyErr == nil {
		resp.CommitVersion = req.CommitVersion
	}
	return resp, nil
}

func (e *Engine) commitAt(ctx context.Context, startTS, commitTS uint64, keys [][]byte) (*kvrpcpb.KeyError, error) {
	if commitTS <= startTS {
		return abortError("invalid commit timestamp %d of transaction %d", commitTS, startTS), nil
	}
	if len(keys) == 0 {
		return abortError("a commit names no key"), nil
	}
	for {
		t, o := e.registry.find(startTS)
		if t == nil {
			if o.committed() {
				return nil, nil
			}
			return e.commitMissing(ctx, startTS, commitTS, keys[0], o.ended && !o.unsure)
		}
		keyErr, begun := t.beginCommit(commitTS, keys)
		if keyErr != nil {
			return keyErr, nil
		}
		if begun {
			return e.finishCommitAt(ctx, t, commitTS)
		}
		if err := t.awaitEnd(ctx); err != nil {
			return nil, err
		}
	}
}

// commitMissing answers for a transaction that holds no locks and is not known to have committed. If it may have, before
// the store was opened or so long ago that it was forgotten, its version of a key proves it: its timestamp is unique.
// Without a version that is unknown, as the key may have been locked only, and the answer must not be that it failed, unless
// the transaction is known to be rolled back.
func (e *Engine) commitMissing(ctx context.Context, startTS, commitTS uint64, key []byte, rolledBack bool) (*kvrpcpb.KeyError, error) {
	if !e.registry.mayHaveForgotten(startTS) {
		return txnLockNotFound(startTS, commitTS, key), nil
	}
	lookup, err := e.store.NewLookup(ctx)
	if err != nil {
		return nil, err
	}
	v, err := lookup.At(key, commitTS)
	if err = errors.Join(err, lookup.Close()); err == nil && v.TS == commitTS {
		return nil, nil
	}
	if err == nil && rolledBack {
		return txnLockNotFound(startTS, commitTS, key), nil
	}
	return nil, errors.Join(fmt.Errorf("%w: transaction %d was forgotten", kv.ErrResultUndetermined, startTS), err)
}

// beginCommit makes an open transaction committing. It returns false if there is an end to be waited for.
func (t *transaction) beginCommit(commitTS uint64, keys [][]byte) (*kvrpcpb.KeyError, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != stateOpen {
		return nil, false
	}
	for _, key := range keys {
		switch l := t.locks[string(key)]; {
		case l == nil:
			return txnLockNotFound(t.startTS, commitTS, key), false
		case l.pessimistic():
			return lockTypeNotMatch(t.startTS, key, true), false
		}
	}
	if commitTS < t.minCommitTS {
		t.refusedAt = time.Now()
		return &kvrpcpb.KeyError{CommitTsExpired: &kvrpcpb.CommitTsExpired{
			StartTs:           t.startTS,
			AttemptedCommitTs: commitTS,
			Key:               t.refusedKey(keys),
			MinCommitTs:       t.minCommitTS,
		}}, false
	}
	t.state = stateCommitting
	t.commitTS.Store(commitTS)
	return nil, true
}

// refusedKey is the key that a refused commit is reported for: the client takes a new timestamp only if it is the primary
// key. The caller holds mu.
func (t *transaction) refusedKey(keys [][]byte) []byte {
	primary := t.locks[string(keys[0])].primary
	for _, key := range keys {
		if bytes.Equal(key, primary) {
			return key
		}
	}
	return keys[0]
}

func (e *Engine) finishCommitAt(ctx context.Context, t *transaction, commitTS uint64) (*kvrpcpb.KeyError, error) {
	_, err := e.commitBatch(ctx, t, pebblekv.ApplyOptions{TS: commitTS, SizeHint: t.bytes, Essential: t.essential}, nil)
	switch {
	case err == nil:
		return nil, nil
	case isUndetermined(err):
		return nil, err
	}
	t.reopen()
	return abortError("commit failed: %v", err), nil
}
