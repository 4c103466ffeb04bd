package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"fastddl/kv"
)

// Changes implements kv.ChangeFinder. Each file and block says of which time its versions
// are, so that those of other times are not read.
func (s *Store) Changes(ctx context.Context, r kv.KeyRange, after, upTo uint64, fn func(key []byte) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.gate.exit()
	if err := s.timeline.readAt(ctx, upTo); err != nil {
		return err
	}
	defer s.timeline.endRead(upTo)
	if err := s.changesIn(ctx, r, after, upTo, fn); err != nil {
		return err
	}
	// The safe point never goes back: as it is now, nothing above after was collected while
	// the versions were looked at, or before.
	if sp := s.timeline.currentSafePoint(); after < sp {
		return fmt.Errorf("%w: versions above %d may have been collected, up to %d", kv.ErrSnapshotTooOld, after, sp)
	}
	return nil
}

func (s *Store) changesIn(ctx context.Context, r kv.KeyRange, after, upTo uint64, fn func(key []byte) error) (err error) {
	if r.Empty() || after >= upTo {
		return ctx.Err()
	}
	opts := pebble.IterOptions{PointKeyFilters: versionsWithin(after+1, upTo)}
	opts.LowerBound, opts.UpperBound = engineBounds(r)
	it, err := s.db.NewIterWithContext(ctx, &opts)
	if err != nil {
		return fmt.Errorf("pebblekv: opening an iterator: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	var last []byte // that fn was called with, if it was
	called := false
	for n, valid := 1, it.First(); valid; n, valid = n+1, it.Next() {
		if n%refreshCheck == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		key, ts, err := splitVersion(it.Key())
		if err != nil {
			return err
		}
		if ts <= after || upTo < ts || called && bytes.Equal(key, last) {
			continue
		}
		last, called = append(last[:0], key...), true
		if err := fn(key); err != nil {
			return err
		}
	}
	return it.Error()
}
