package pebblekv

import (
	"context"
	"errors"
	"math"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"fastddl/kv"
)

var errSnapshotClosed = errors.New("pebblekv: snapshot is closed")

// view reads the store at one timestamp. Its owner has registered the
// timestamp with the timeline.
type view struct {
	store *Store
	ts    uint64
}

// get returns the newest value at or below the view's timestamp.
func (v view) get(ctx context.Context, key []byte) (value []byte, err error) {
	if err := v.store.enter(ctx); err != nil {
		return nil, err
	}
	defer v.store.gate.exit()
	it, err := v.store.db.NewIterWithContext(ctx, &pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	seek := appendVersion(make([]byte, 0, len(key)+versionOverhead), key, v.ts)
	if !it.SeekPrefixGE(seek) {
		if err := it.Error(); err != nil {
			return nil, err
		}
		return nil, kv.ErrNotExist
	}
	raw, err := it.ValueAndErr()
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, kv.ErrNotExist
	}
	return append(make([]byte, 0, len(raw)), raw...), nil
}

// iter iterates over the live keys of a range. Blocks in which everything is newer than the view are
// not read: at the end of a table that grows there, and is read at an old timestamp, there may be many.
func (v view) iter(r kv.KeyRange, reverse bool) (kv.Iterator, error) {
	seen := versionsWithin(0, min(v.ts, math.MaxUint64-1))
	if reverse {
		return newReverseIter(context.Background(), v, r, seen...)
	}
	return newForwardIter(context.Background(), v, r, seen...)
}

// snapshot implements kv.Snapshot.
type snapshot struct {
	view
	closed atomic.Bool
}

// Snapshot implements kv.Store.
func (s *Store) Snapshot(ctx context.Context, ts uint64) (kv.Snapshot, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.exit()
	if err := s.timeline.readAt(ctx, ts); err != nil {
		return nil, err
	}
	return &snapshot{view: view{s, ts}}, nil
}

func (s *snapshot) TS() uint64 { return s.ts }

func (s *snapshot) Get(ctx context.Context, key []byte) ([]byte, error) {
	if s.closed.Load() {
		return nil, errSnapshotClosed
	}
	return s.get(ctx, key)
}

func (s *snapshot) Iter(r kv.KeyRange) (kv.Iterator, error) { return s.open(r, false) }

func (s *snapshot) IterReverse(r kv.KeyRange) (kv.Iterator, error) { return s.open(r, true) }

// Count implements kv.Snapshot.
func (s *snapshot) Count(ctx context.Context, r kv.KeyRange) (int64, error) {
	if s.closed.Load() {
		return 0, errSnapshotClosed
	}
	return count(ctx, s.view, r)
}

func (s *snapshot) open(r kv.KeyRange, reverse bool) (kv.Iterator, error) {
	if s.closed.Load() {
		return nil, errSnapshotClosed
	}
	return s.iter(r, reverse)
}

func (s *snapshot) Close() error {
	if s.closed.CompareAndSwap(false, true) {
		s.store.timeline.endRead(s.ts)
	}
	return nil
}
