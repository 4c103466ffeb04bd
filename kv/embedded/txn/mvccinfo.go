package txn

import (
	"bytes"
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// MvccByKey describes all versions of a key, newest first, and its lock. Versions do not record when their transactions
// began: both timestamps are the commit's.
func (e *Engine) MvccByKey(ctx context.Context, key []byte) (*kvrpcpb.MvccInfo, error) {
	info := &kvrpcpb.MvccInfo{}
	if l := e.table.get(key); l != nil {
		info.Lock = l.mvcc()
	}
	versions, err := e.store.Versions(ctx, key)
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		w := &kvrpcpb.MvccWrite{Type: kvrpcpb.Op_Put, StartTs: v.TS, CommitTs: v.TS, ShortValue: v.Value}
		if !v.Live() {
			w.Type = kvrpcpb.Op_Del
		}
		info.Writes = append(info.Writes, w)
	}
	return info, nil
}

// MvccByStartTS finds a key that a transaction has locked, nil if it has none. Transactions that have ended are not
// found: their versions do not record when they began.
func (e *Engine) MvccByStartTS(ctx context.Context, startTS uint64) (key []byte, info *kvrpcpb.MvccInfo, err error) {
	t, _ := e.registry.find(startTS)
	if t == nil {
		return nil, nil, nil
	}
	t.mu.Lock()
	for _, l := range t.locks {
		if key == nil || bytes.Compare(l.key, key) < 0 {
			key = l.key
		}
	}
	t.mu.Unlock()
	if key == nil {
		return nil, nil, nil
	}
	info, err = e.MvccByKey(ctx, key)
	return key, info, err
}

// mvcc describes a lock, nil if it is gone: then its value may be the memory of the request's caller.
func (l *lock) mvcc() *kvrpcpb.MvccLock {
	l.txn.mu.Lock()
	defer l.txn.mu.Unlock()
	if l.txn.locks[string(l.key)] != l {
		return nil
	}
	return &kvrpcpb.MvccLock{
		Type:        l.op,
		StartTs:     l.txn.startTS,
		Primary:     bytes.Clone(l.primary),
		ShortValue:  bytes.Clone(l.value),
		Ttl:         l.ttl,
		ForUpdateTs: l.forUpdateTS,
		TxnSize:     l.txnSize,
	}
}
