package tikv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tikv/client-go/v2/oracle"

	"fastddl/kv"
)

// holds are the holds on garbage collection that this process has. PD keeps them, as service
// safe points; this only distinguishes a hold from one that replaced it.
type holds struct {
	store *Store

	mu     sync.Mutex
	byName map[string]*hold
}

// hold implements kv.GCHold.
type hold struct {
	set  *holds
	name string
	ts   uint64
}

// HoldGC implements kv.Store.
func (s *Store) HoldGC(ctx context.Context, name string, ts uint64, ttl time.Duration) (kv.GCHold, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.exit()
	h := &hold{set: &s.holds, name: name, ts: ts}
	s.holds.mu.Lock()
	defer s.holds.mu.Unlock()
	if err := h.extend(ctx, ttl); err != nil {
		return nil, err
	}
	s.holds.byName[name] = h
	return h, nil
}

// extend makes PD keep the hold until ttl from now. The caller holds the lock.
func (h *hold) extend(ctx context.Context, ttl time.Duration) error {
	seconds := max(1, int64((ttl+time.Second-1)/time.Second))
	lowest, err := h.set.store.cluster.GetPDClient().UpdateServiceGCSafePoint(ctx, h.set.store.serviceID(h.name), seconds, h.ts)
	if err != nil {
		return failed(ctx, fmt.Sprintf("hold %q", h.name), err)
	}
	// PD takes no hold below the lowest that there is, and returns that.
	if lowest > h.ts {
		return fmt.Errorf("tikv: hold %q at %d, the safe point is %d: %w", h.name, h.ts, lowest, kv.ErrSnapshotTooOld)
	}
	return nil
}

// TS implements kv.GCHold.
func (h *hold) TS() uint64 { return h.ts }

// Renew implements kv.GCHold.
func (h *hold) Renew(ctx context.Context, ttl time.Duration) error {
	if err := h.set.store.enter(ctx); err != nil {
		return err
	}
	defer h.set.store.exit()
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	if current := h.set.byName[h.name]; current != nil && current != h {
		return fmt.Errorf("tikv: hold %q was replaced by one at %d", h.name, current.ts)
	}
	if err := h.extend(ctx, ttl); err != nil {
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
	defer h.set.store.exit()
	h.set.mu.Lock()
	defer h.set.mu.Unlock()
	if h.set.byName[h.name] != h {
		return nil
	}
	s := h.set.store
	if _, err := s.cluster.GetPDClient().UpdateServiceGCSafePoint(ctx, s.serviceID(h.name), 0, h.ts); err != nil {
		return failed(ctx, fmt.Sprintf("release hold %q", h.name), err)
	}
	delete(h.set.byName, h.name)
	return nil
}

// serviceID is the name of a hold in PD. Keyspaces share PD's names, and have their own.
func (s *Store) serviceID(name string) string { return name + s.keyspaceSuffix() }

// GCHolds implements kv.Store: it lists the service safe points of all services of the
// cluster. Those of builds in other keyspaces have names that are no build's here.
func (s *Store) GCHolds(ctx context.Context) (map[string]uint64, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.exit()
	client := s.cluster.GetPDHTTPClient()
	if client == nil {
		return nil, errors.New("tikv: GC holds: there is no HTTP client of PD")
	}
	list, err := client.GetGCSafePoint(ctx)
	if err != nil {
		return nil, failed(ctx, "GC holds", err)
	}
	// PD removes those that have expired, by its own clock, when some service renews its own.
	now, err := s.currentTS(ctx)
	if err != nil {
		return nil, err
	}
	live := make(map[string]uint64)
	for _, p := range list.ServiceGCSafepoints {
		if p.ExpiredAt >= oracle.ExtractPhysical(now)/1000 {
			live[s.holdName(p.ServiceID)] = p.SafePoint
		}
	}
	return live, nil
}

// GCSafePoint implements kv.Store.
func (s *Store) GCSafePoint(ctx context.Context) (uint64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.exit()
	// PD never moves it back, and answers with where it is.
	ts, err := s.cluster.GetPDClient().UpdateGCSafePoint(ctx, 0)
	return ts, failed(ctx, "GC safe point", err)
}
