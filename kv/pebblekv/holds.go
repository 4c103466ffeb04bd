package pebblekv

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	"fastddl/kv"
)

// holds are the durable holds on garbage collection. Its lock also covers
// moving the safe point, so that a hold cannot be granted at a timestamp that
// is just being passed.
type holds struct {
	store *Store
	now   func() time.Time

	mu     sync.Mutex
	byName map[string]*hold
}

// hold implements kv.GCHold.
type hold struct {
	set     *holds
	name    string
	ts      uint64
	expires time.Time
}

// loadHolds reads the holds of the store's previous life.
func (s *Store) loadHolds() (*holds, error) {
	h := &holds{store: s, now: time.Now, byName: make(map[string]*hold)}
	err := s.eachRecord(recordHolds, func(record string, value []byte) error {
		if len(value) != 16 {
			return fmt.Errorf("pebblekv: record %s has %d bytes, not 16", record, len(value))
		}
		name := strings.TrimPrefix(record, recordHolds)
		h.byName[name] = &hold{
			set:     h,
			name:    name,
			ts:      binary.BigEndian.Uint64(value),
			expires: time.UnixMilli(int64(binary.BigEndian.Uint64(value[8:]))),
		}
		return nil
	})
	return h, err
}

// HoldGC implements kv.Store.
func (s *Store) HoldGC(ctx context.Context, name string, ts uint64, ttl time.Duration) (kv.GCHold, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.exit()
	h := &hold{set: s.holds, name: name, ts: ts}
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	if err := h.extend(ttl); err != nil {
		return nil, err
	}
	s.holds.byName[name] = h
	return h, nil
}

// GCHolds implements kv.Store.
func (s *Store) GCHolds(ctx context.Context) (map[string]uint64, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.exit()
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	live := make(map[string]uint64)
	for name, h := range s.holds.byName {
		if h.live() {
			live[name] = h.ts
		}
	}
	return live, nil
}

// extend makes the hold durable until ttl from now. The caller holds the lock.
func (h *hold) extend(ttl time.Duration) error {
	s := h.set.store
	if sp := s.timeline.currentSafePoint(); h.ts < sp {
		return fmt.Errorf("%w: hold %q at %d, the safe point is %d", kv.ErrSnapshotTooOld, h.name, h.ts, sp)
	}
	expires := h.set.now().Add(ttl)
	value := binary.BigEndian.AppendUint64(encodeTS(h.ts), uint64(expires.UnixMilli()))
	if err := s.setRecord(recordHolds+h.name, value); err != nil {
		return fmt.Errorf("pebblekv: saving hold %q: %w", h.name, err)
	}
	h.expires = expires
	return nil
}

func (h *hold) live() bool { return h.set.now().Before(h.expires) }

func (h *hold) TS() uint64 { return h.ts }

// Renew implements kv.GCHold.
func (h *hold) Renew(ctx context.Context, ttl time.Duration) error {
	if err := h.set.store.enter(ctx); err != nil {
		return err
	}
	defer h.set.store.gate.exit()
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	if current := h.set.byName[h.name]; current != nil && current != h {
		return fmt.Errorf("pebblekv: hold %q was replaced by one at %d", h.name, current.ts)
	}
	if err := h.extend(ttl); err != nil {
		return err
	}
	h.set.byName[h.name] = h
	return nil
}

// Release implements kv.GCHold.
func (h *hold) Release(ctx context.Context) error {
	if err := h.set.store.enter(ctx); err != nil {
		return err
	}
	defer h.set.store.gate.exit()
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	if h.set.byName[h.name] != h {
		return nil
	}
	return h.set.drop(h)
}

// drop removes a hold. The caller holds the lock.
func (hs *holds) drop(h *hold) error {
	if err := hs.store.deleteRecord(recordHolds + h.name); err != nil {
		return fmt.Errorf("pebblekv: removing hold %q: %w", h.name, err)
	}
	delete(hs.byName, h.name)
	return nil
}

// advanceSafePoint drops expired holds, and moves the safe point up to target
// or the oldest live hold.
func (hs *holds) advanceSafePoint(target uint64) (uint64, error) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, h := range hs.byName {
		if h.live() {
			target = min(target, h.ts)
			continue
		}
		if err := hs.drop(h); err != nil {
			return 0, err
		}
	}
	return hs.store.timeline.advanceSafePoint(target), nil
}

// GCSafePoint implements kv.Store.
func (s *Store) GCSafePoint(ctx context.Context) (uint64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.gate.exit()
	return s.timeline.currentSafePoint(), nil
}
