package pebblekv

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"fastddl/kv"
)

// Changed implements kv.ChangeFinder. Each file and block says of which time its versions
// are, so that those of other times are not read.
func (s *Store) Changed(ctx context.Context, ranges []kv.KeyRange, after, upTo uint64) (bool, error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.gate.exit()
	if err := s.timeline.readAt(ctx, upTo); err != nil {
		return false, err
	}
	defer s.timeline.endRead(upTo)
	for _, r := range ranges {
		if changed, err := s.changedIn(ctx, r, after, upTo); changed || err != nil {
			return changed, err
		}
	}
	// The safe point never goes back: as it is now, nothing above after was collected while
	// the versions were looked at, or before.
	if sp := s.timeline.currentSafePoint(); after < sp {
		return false, fmt.Errorf("%w: versions above %d may have been collected, up to %d", kv.ErrSnapshotTooOld, after, sp)
	}
	return false, nil
}

func (s *Store) changedIn(ctx context.Context, r kv.KeyRange, after, upTo uint64) (changed bool, err error) {
	if r.Empty() || after >= upTo {
		return false, ctx.Err()
	}
	opts := pebble.IterOptions{PointKeyFilters: versionsWithin(after+1, upTo)}
	opts.LowerBound, opts.UpperBound = engineBounds(r)
	it, err := s.db.NewIterWithContext(ctx, &opts)
	if err != nil {
		return false, fmt.Errorf("pebblekv: opening an iterator: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for n, valid := 1, it.First(); valid; n, valid = n+1, it.Next() {
		if n%refreshCheck == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		_, ts, err := splitVersion(it.Key())
		if err != nil {
			return false, err
		}
		if after < ts && ts <= upTo {
			return true, nil
		}
	}
	return false, it.Error()
}
