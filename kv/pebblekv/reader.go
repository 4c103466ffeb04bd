package pebblekv

import (
	"context"
	"errors"

	"fastddl/kv"
)

// Scanner walks over the live keys of a range at one timestamp, in either
// direction. It does not wait: commits at or below the timestamp that are in
// flight when it is opened may be missed, and the caller sees to that. It holds
// garbage collection back until it is closed.
type Scanner struct {
	kv.Iterator
	cursor *cursor
	view   view
	closed bool
}

// NewScanner opens a scanner of r at ts, from the last key to the first if
// reverse. It fails with kv.ErrSnapshotTooOld below the GC safe point.
func (s *Store) NewScanner(ctx context.Context, r kv.KeyRange, ts uint64, reverse bool) (*Scanner, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := s.timeline.pinRead(ts); err != nil {
		return nil, err
	}
	sc := &Scanner{view: view{s, ts}}
	var err error
	if reverse {
		var it *reverseIter
		if it, err = newReverseIter(ctx, sc.view, r); err == nil {
			sc.Iterator, sc.cursor = it, &it.cursor
		}
	} else {
		var it *forwardIter
		if it, err = newForwardIter(ctx, sc.view, r); err == nil {
			sc.Iterator, sc.cursor = it, &it.cursor
		}
	}
	if err != nil {
		s.timeline.endRead(ts)
		return nil, err
	}
	return sc, nil
}

// SkippedTS is the timestamp of a version above the scanner's that it has met
// on its way, 0 if there was none, and SkippedKey its key. They are valid until
// the next call of Next.
func (sc *Scanner) SkippedTS() uint64 { return sc.cursor.skippedTS }

// SkippedKey is the key that belongs to SkippedTS.
func (sc *Scanner) SkippedKey() []byte { return sc.cursor.skippedKey }

// Close ends the scan. Closing twice does nothing.
func (sc *Scanner) Close() error {
	if sc.closed {
		return nil
	}
	sc.closed = true
	err := sc.Iterator.Close()
	sc.view.store.timeline.endRead(sc.view.ts)
	return errors.Join(err)
}
