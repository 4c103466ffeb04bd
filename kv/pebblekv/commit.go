package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"

	"fastddl/kv"
)

// checkedKey is a key that takes part in conflict detection.
type checkedKey struct {
	key    []byte
	stripe uint16
	// lockOnly says that the transaction locks the key without writing it.
	lockOnly bool
}

// Commit implements kv.Txn.
//
// The steps are, in this order: latch the checked keys; look for newer
// versions and locks; take the commit timestamp, which registers the commit as
// in flight; run the commit check; apply the batch; release the latches, as
// from here on the versions are there for other commits to be found; wait for
// the log to be synced; wait for commits with lower timestamps.
func (t *txn) Commit(ctx context.Context) error {
	if t.done {
		return kv.ErrTxnDone
	}
	defer t.end()
	if t.buffer.len() == 0 && len(t.locks) == 0 {
		return nil
	}
	if err := t.store.enter(ctx); err != nil {
		return err
	}
	defer t.store.gate.exit()
	if err := t.store.admitTxn(t); err != nil {
		return err
	}
	start := time.Now()
	if err := t.commit(ctx); err != nil {
		return err
	}
	t.store.load.observe(time.Since(start))
	return nil
}

func (t *txn) commit(ctx context.Context) error {
	s := t.store
	keys := t.checkedKeys()
	held := s.latches.acquire(keys)
	p, batch, err := t.applyLatched(ctx, keys)
	s.latches.release(held)
	if err != nil {
		return t.afterConflict(ctx, err)
	}
	if p == nil {
		return nil
	}
	return t.settle(p, s.awaitSync(batch))
}

// afterConflict waits, if err is a conflict, until a transaction that begins
// now sees what this one lost against. A retry at once would otherwise read the
// old state and lose again and again, until the winner's log record is synced.
func (t *txn) afterConflict(ctx context.Context, err error) error {
	var conflict *kv.WriteConflictError
	if errors.As(err, &conflict) {
		// A failed store or an ended context shows in what the caller does next.
		_ = t.store.timeline.awaitCommits(ctx, conflict.ConflictTS)
	}
	return err
}

// settle ends a commit whose batch was handed to the engine.
func (t *txn) settle(p *pendingCommit, err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", kv.ErrResultUndetermined, err)
	}
	t.store.timeline.finishCommit(p, err)
	if err := t.store.timeline.awaitSettled(p); err != nil {
		return err
	}
	t.commitTS = p.ts
	return nil
}

// checkedKeys returns the keys to latch and check, in ascending order.
func (t *txn) checkedKeys() []checkedKey {
	keys := make([]checkedKey, 0, t.buffer.len()+len(t.locks))
	t.buffer.each(func(key []byte, e bufferEntry) bool {
		if e.flags&kv.NoConflictCheck == 0 && !e.withdrawn() {
			keys = append(keys, checkedKey{key: key})
		}
		return true
	})
	if len(t.locks) == 0 {
		return keys
	}
	for _, key := range t.locks {
		keys = append(keys, checkedKey{key: key, lockOnly: true})
	}
	// A write sorts before a lock of the same key, and makes it needless.
	slices.SortStableFunc(keys, func(a, b checkedKey) int { return slices.Compare(a.key, b.key) })
	return slices.CompactFunc(keys, func(a, b checkedKey) bool { return slices.Equal(a.key, b.key) })
}

// applyLatched checks for conflicts and applies the writes. It returns a
// commit to be settled, or none after an error or when there was only locking
// to do.
func (t *txn) applyLatched(ctx context.Context, keys []checkedKey) (*pendingCommit, *pebble.Batch, error) {
	s := t.store
	if err := t.checkConflicts(ctx, keys); err != nil {
		return nil, nil, err
	}
	if t.buffer.len() == 0 {
		ts, err := s.timeline.current()
		if err == nil {
			t.recordLocks(keys, ts)
		}
		return nil, nil, err
	}
	p, err := s.timeline.beginCommit()
	if err != nil {
		return nil, nil, err
	}
	if t.commitCheck != nil {
		if err := t.commitCheck(p.ts); err != nil {
			s.timeline.finishCommit(p, nil)
			return nil, nil, err
		}
	}
	batch, err := t.buildBatch(p.ts)
	if err != nil {
		s.timeline.finishCommit(p, nil)
		return nil, nil, err
	}
	if err := s.applyBatch(batch, true); err != nil {
		return nil, nil, t.settle(p, err)
	}
	t.recordLocks(keys, p.ts)
	return p, batch, nil
}

func (t *txn) recordLocks(keys []checkedKey, ts uint64) {
	for _, k := range keys {
		if k.lockOnly {
			t.store.latches.recordLock(k, ts, t.store.timeline.oldestStart)
		}
	}
}

// checkConflicts looks for versions and locks newer than the transaction's
// start. The keys' stripes are held, so none can appear meanwhile.
func (t *txn) checkConflicts(ctx context.Context, keys []checkedKey) (err error) {
	if len(keys) == 0 {
		return nil
	}
	// Files and blocks without a version newer than the start are left out by
	// their time property, so that hardly anything outside the memtables is read.
	filters := append(make([]pebble.BlockPropertyFilter, 0, 2),
		cockroachkvs.NewMVCCTimeIntervalFilter(t.ts+1, math.MaxUint64-1))
	it, err := t.store.db.NewIterWithContext(ctx, &pebble.IterOptions{
		PointKeyFilters: filters,
		UseL6Filters:    true,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var bare []byte
	for _, k := range keys {
		conflict := t.store.latches.lockedAfter(k, t.ts)
		bare = appendBare(bare[:0], k.key)
		if it.SeekPrefixGE(bare) {
			_, newest, err := splitVersion(it.Key())
			if err != nil {
				return err
			}
			if newest > t.ts {
				conflict = max(conflict, newest)
			}
		} else if err := it.Error(); err != nil {
			return err
		}
		if conflict != 0 {
			return &kv.WriteConflictError{Key: slices.Clone(k.key), StartTS: t.ts, ConflictTS: conflict}
		}
	}
	return nil
}

// buildBatch encodes the buffered writes as versions at ts.
func (t *txn) buildBatch(ts uint64) (*pebble.Batch, error) {
	size := t.buffer.size + t.buffer.len()*(versionOverhead+16)
	batch := t.store.db.NewBatchWithSize(size)
	var err error
	t.buffer.each(func(key []byte, e bufferEntry) bool {
		if e.withdrawn() {
			return true
		}
		op := batch.SetDeferred(len(key)+versionOverhead, len(e.value))
		putVersion(op.Key, key, ts)
		copy(op.Value, e.value)
		err = op.Finish()
		return err == nil
	})
	if err != nil {
		return nil, errors.Join(err, batch.Close())
	}
	return batch, nil
}
