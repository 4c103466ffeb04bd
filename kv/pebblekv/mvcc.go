package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"fastddl/kv"
)

// Version is one version of a key.
type Version struct {
	// TS is the version's commit timestamp, 0 if there is no version.
	TS uint64
	// Value is the value, nil for a tombstone.
	Value []byte
}

// Live says whether the version is a value.
func (v Version) Live() bool { return v.Value != nil }

// LastTS is the newest timestamp that was handed out. It is cheap and hands out
// none itself.
func (s *Store) LastTS() uint64 { return s.timeline.lastTS() }

// Lookup reads single keys with one engine iterator. It sees the versions that
// were there when it was opened and must be closed. It is used by one goroutine
// at a time.
type Lookup struct {
	store *Store
	it    *pebble.Iterator
	seek  []byte
}

// NewLookup opens a lookup that sees all versions.
func (s *Store) NewLookup(ctx context.Context) (*Lookup, error) {
	return s.newLookup(ctx, &pebble.IterOptions{UseL6Filters: true})
}

// NewLookupAfter opens a lookup for conflict checks, of use for Newest only: it
// may leave out versions at or below ts, and so reads hardly anything outside
// the memtables if ts is recent.
func (s *Store) NewLookupAfter(ctx context.Context, ts uint64) (*Lookup, error) {
	return s.newLookup(ctx, &pebble.IterOptions{UseL6Filters: true, PointKeyFilters: versionsWithin(ts+1, math.MaxUint64-1)})
}

func (s *Store) newLookup(ctx context.Context, opts *pebble.IterOptions) (*Lookup, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	it, err := s.db.NewIterWithContext(ctx, opts)
	if err != nil {
		s.gate.exit()
		return nil, fmt.Errorf("pebblekv: opening an iterator: %w", err)
	}
	return &Lookup{store: s, it: it}, nil
}

// Close ends the lookup. Closing twice does nothing.
func (l *Lookup) Close() error {
	it := l.it
	if it == nil {
		return nil
	}
	l.it = nil
	defer l.store.gate.exit()
	return it.Close()
}

// Newest returns the newest version of key. The value is valid until the next
// call.
func (l *Lookup) Newest(key []byte) (Version, error) {
	l.seek = appendBare(l.seek[:0], key)
	return l.find()
}

// At returns the newest version of key at or below ts. The value is valid until
// the next call. It fails with kv.ErrSnapshotTooOld below the GC safe point.
func (l *Lookup) At(key []byte, ts uint64) (Version, error) {
	// What was collected before the iterator was opened was garbage at the safe
	// point of that time, which is not above the one of now.
	if sp := l.store.timeline.currentSafePoint(); ts < sp {
		return Version{}, fmt.Errorf("%w: %d is below %d", kv.ErrSnapshotTooOld, ts, sp)
	}
	l.seek = appendVersion(l.seek[:0], key, ts)
	return l.find()
}

// NewerThan returns the timestamp of the newest version of key if it is above
// ts, else 0.
func (l *Lookup) NewerThan(key []byte, ts uint64) (uint64, error) {
	v, err := l.Newest(key)
	if err != nil || v.TS <= ts {
		return 0, err
	}
	return v.TS, nil
}

// find reads the version at l.seek or the next older one of the same key.
func (l *Lookup) find() (Version, error) {
	if !l.it.SeekPrefixGE(l.seek) {
		return Version{}, l.it.Error()
	}
	return l.current()
}

func (l *Lookup) current() (Version, error) {
	_, ts, err := splitVersion(l.it.Key())
	if err != nil {
		return Version{}, err
	}
	value, err := l.it.ValueAndErr()
	if err != nil {
		return Version{}, err
	}
	if len(value) == 0 {
		value = nil
	}
	return Version{TS: ts, Value: value}, nil
}

// Versions returns all versions of key, newest first. The caller owns them.
func (s *Store) Versions(ctx context.Context, key []byte) (versions []Version, err error) {
	l, err := s.NewLookup(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	for valid := l.it.SeekPrefixGE(appendBare(nil, key)); valid; valid = l.it.Next() {
		v, err := l.current()
		if err != nil {
			return nil, err
		}
		v.Value = bytes.Clone(v.Value)
		versions = append(versions, v)
	}
	return versions, l.it.Error()
}
