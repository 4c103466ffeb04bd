package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"fastddl/kv"
)

// Changes implements kv.ChangeFinder. Each file and block records the interval of its versions'
// timestamps, so that those of other times are not read.
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
	var i forwardIter
	i.bounds.PointKeyFilters = versionsWithin(after+1, upTo)
	if err := i.open(ctx, view{s, upTo}, r); err != nil {
		return fmt.Errorf("pebblekv: opening an iterator: %w", err)
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	i.it.First()
	for i.it.Valid() {
		if moved, err := i.step(); err != nil {
			return err
		} else if moved {
			continue
		}
		key, ts, err := splitVersion(i.it.Key())
		if err != nil {
			return err
		}
		if after < ts && ts <= upTo && !(i.valid && bytes.Equal(key, i.key)) {
			i.key, i.valid = append(i.key[:0], key...), true
			if err := fn(key); err != nil {
				return err
			}
		}
		i.it.Next()
	}
	return i.it.Error()
}
