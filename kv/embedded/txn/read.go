package txn

import (
	"bytes"
	"context"
	"errors"
	"math"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"fastddl/kv"
)

// Snapshot reads the store at one timestamp, waiting where it has to. It implements the coprocessor's Reader and needs
// no closing. It may be used concurrently.
type Snapshot struct {
	engine *Engine
	ts     uint64
	// latest says that the reader wants what is acknowledged, at any timestamp.
	latest bool
	// checkNewer makes reads fail on keys with a version above ts (TiDB's RC reads with a timestamp that may be too old).
	checkNewer bool
	// readCommitted leaves locks alone.
	readCommitted bool
}

// Snapshot returns a reader at ts. A ts that was not handed out yet, like math.MaxUint64, stands for the newest
// acknowledged state at the time of each read. The isolation level is that of the request's context, which may be nil.
func (e *Engine) Snapshot(ts uint64, rc *kvrpcpb.Context) *Snapshot {
	s := &Snapshot{engine: e, ts: ts}
	if ts == math.MaxUint64 || ts > e.store.LastTS() {
		s.latest = true
	}
	switch rc.GetIsolationLevel() {
	case kvrpcpb.IsolationLevel_RCCheckTS:
		s.checkNewer = !s.latest
	case kvrpcpb.IsolationLevel_RC:
		s.readCommitted = true
	}
	return s
}

// conflictError is a write conflict met by a reader.
type conflictError struct{ conflict *kvrpcpb.WriteConflict }

func (e *conflictError) Error() string { return "write conflict: " + e.conflict.String() }

func (s *Snapshot) newerError(key []byte, ts uint64) error {
	return &conflictError{&kvrpcpb.WriteConflict{
		StartTs:          s.ts,
		ConflictTs:       ts,
		ConflictCommitTs: ts,
		Key:              bytes.Clone(key),
		Reason:           kvrpcpb.WriteConflict_RcCheckTs,
	}}
}

// prepareKey returns the timestamp to read key at, once that can be done.
func (s *Snapshot) prepareKey(ctx context.Context, key []byte) (uint64, error) {
	ts := s.ts
	if s.latest {
		ts = s.engine.store.LastTS()
	}
	l := s.engine.table.blocking(key)
	if l == nil {
		return ts, nil
	}
	if s.latest || s.readCommitted {
		// What is not acknowledged yet need not be seen, but it must not be seen halfway to the disk either.
		// Once it is durable others may have seen it, though its locks are still being removed.
		if c := l.txn.commitTS.Load(); c != 0 && c <= ts && !l.txn.durable() {
			return c - 1, nil
		}
		return ts, nil
	}
	return ts, l.txn.letRead(ctx, ts)
}

// Get returns the newest value of key, nil if there is none. The caller owns it.
func (s *Snapshot) Get(ctx context.Context, key []byte) (value []byte, err error) {
	var ts uint64
	// A reader that does not wait looks at the lock when it has its versions: what was committing by then is left out.
	// The others look first, so that they miss nothing.
	hurries := s.latest || s.readCommitted
	if !hurries {
		if ts, err = s.prepareKey(ctx, key); err != nil {
			return nil, err
		}
	}
	lookup, err := s.engine.store.NewLookup(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lookup.Close()) }()
	if hurries {
		if ts, err = s.prepareKey(ctx, key); err != nil {
			return nil, err
		}
	}
	if s.checkNewer {
		newest, err := lookup.NewerThan(key, ts)
		if err != nil {
			return nil, err
		}
		if newest != 0 {
			return nil, s.newerError(key, newest)
		}
	}
	v, err := lookup.At(key, ts)
	if err != nil {
		return nil, err
	}
	return bytes.Clone(v.Value), nil
}

// BatchGet calls fn with the live pairs among keys, in their order. The caller owns the values.
func (s *Snapshot) BatchGet(ctx context.Context, keys [][]byte, fn func(key, value []byte)) (err error) {
	times := make([]uint64, len(keys))
	for i, key := range keys {
		if times[i], err = s.prepareKey(ctx, key); err != nil {
			return err
		}
	}
	if s.latest {
		// All of one moment: the earliest, so that no half of a commit shows.
		lowest := uint64(math.MaxUint64)
		for _, ts := range times {
			lowest = min(lowest, ts)
		}
		for i := range times {
			times[i] = lowest
		}
	}
	lookup, err := s.engine.store.NewLookup(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lookup.Close()) }()
	for i, key := range keys {
		if s.checkNewer {
			newest, err := lookup.NewerThan(key, times[i])
			if err != nil {
				return err
			}
			if newest != 0 {
				return s.newerError(key, newest)
			}
		}
		v, err := lookup.At(key, times[i])
		if err != nil {
			return err
		}
		if v.Live() {
			fn(key, bytes.Clone(v.Value))
		}
	}
	return nil
}

// Scan calls fn for each live pair in [start, end), from the last to the first if desc, until it returns false or an
// error, which Scan returns. An empty end is unbounded. The slices are valid only during the call.
func (s *Snapshot) Scan(ctx context.Context, start, end []byte, desc bool,
	fn func(key, value []byte) (more bool, err error)) (err error) {
	r := kv.KeyRange{Start: start}
	if len(end) > 0 {
		r.End = end
	}
	ts, err := s.prepareRange(ctx, r)
	if err != nil {
		return err
	}
	sc, err := s.engine.store.NewScanner(ctx, r, ts, desc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sc.Close()) }()
	for n := 0; sc.Valid(); n++ {
		if s.checkNewer && sc.SkippedTS() != 0 {
			return s.newerError(sc.SkippedKey(), sc.SkippedTS())
		}
		if n%1024 == 1023 && ctx.Err() != nil {
			return ctx.Err()
		}
		more, err := fn(sc.Key(), sc.Value())
		if err != nil || !more {
			return err
		}
		if err := sc.Next(); err != nil {
			return err
		}
	}
	if s.checkNewer && sc.SkippedTS() != 0 {
		return s.newerError(sc.SkippedKey(), sc.SkippedTS())
	}
	return nil
}

// prepareRange returns the timestamp to read a range at, once that can be done.
func (s *Snapshot) prepareRange(ctx context.Context, r kv.KeyRange) (uint64, error) {
	ts := s.ts
	if s.latest {
		ts = s.engine.store.LastTS()
	}
	for t := range s.engine.active.all() {
		if t.startTS > ts || !t.overlaps(r) {
			continue
		}
		if s.readCommitted {
			if c := t.commitTS.Load(); c == 0 || c > ts {
				continue
			}
		}
		if err := t.letRead(ctx, ts); err != nil {
			return 0, err
		}
	}
	return ts, nil
}
