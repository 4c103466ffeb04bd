package placement

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"go.uber.org/zap"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

const (
	recordGCSafePoint = "pd/gc-safe-point"
	// serviceHolds is what the names of holds begin with that stand for service safe points.
	serviceHolds = "service/"
	// forever is the time to live of a service safe point without a limit.
	forever = 100 * 365 * 24 * time.Hour
)

// safePoints are the GC safe point that clients have agreed on, and the collection that it sets off.
type safePoints struct {
	store *pebblekv.Store
	log   *zap.Logger

	mu      sync.Mutex
	current uint64
	wanted  chan uint64 // holds the newest safe point that is still to be collected up to
	cancel  context.CancelFunc
	stopped chan struct{} // closed when nothing is collected any more
}

func (s *safePoints) load(ctx context.Context, store *pebblekv.Store, log *zap.Logger) error {
	s.store, s.log, s.wanted, s.stopped = store, log, make(chan uint64, 1), make(chan struct{})
	raw, err := store.LoadMeta(ctx, recordGCSafePoint)
	if err != nil {
		return err
	}
	if len(raw) == 8 {
		s.current = binary.BigEndian.Uint64(raw)
	}
	run, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.collect(run)
	return nil
}

// advance moves the safe point, never back, and sets off garbage collection. It returns where it is.
func (s *safePoints) advance(ctx context.Context, ts uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ts <= s.current {
		return s.current, nil
	}
	if err := s.store.SaveMeta(ctx, recordGCSafePoint, binary.BigEndian.AppendUint64(nil, ts)); err != nil {
		return 0, fmt.Errorf("placement: saving the GC safe point: %w", err)
	}
	s.current = ts
	select { // replace a target whose collection has not begun
	case <-s.wanted:
	default:
	}
	s.wanted <- ts
	return ts, nil
}

// collect collects garbage whenever the safe point has moved.
func (s *safePoints) collect(ctx context.Context) {
	defer close(s.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case ts := <-s.wanted:
			if err := s.collectSafely(ctx, ts); err != nil && ctx.Err() == nil {
				s.log.Warn("garbage collection failed; the next safe point makes up for it", zap.Error(err))
			}
		}
	}
}

func (s *safePoints) collectSafely(ctx context.Context, ts uint64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("placement: collecting garbage: %v", r)
		}
	}()
	_, err = s.store.CollectGarbage(ctx, ts)
	return err
}

// UpdateGCSafePoint implements pd.Client. The versions that no reader can see any more are deleted in the background.
func (c *Client) UpdateGCSafePoint(ctx context.Context, safePoint uint64) (uint64, error) {
	return c.gc.advance(ctx, safePoint)
}

// UpdateServiceGCSafePoint implements pd.Client: it holds garbage collection back for a service, and returns the lowest
// timestamp that is held, by index builds or services. A service that is too late gets no hold, and sees it from the
// answer.
func (c *Client) UpdateServiceGCSafePoint(ctx context.Context, serviceID string, ttl int64, safePoint uint64) (uint64, error) {
	name := serviceHolds + serviceID
	if ttl <= 0 {
		if err := c.dropHold(ctx, name); err != nil {
			return 0, err
		}
		return c.lowestHold(ctx, math.MaxUint64)
	}
	life := forever
	if ttl < int64(forever/time.Second) {
		life = time.Duration(ttl) * time.Second
	}
	if _, err := c.store.HoldGC(ctx, name, safePoint, life); errors.Is(err, kv.ErrSnapshotTooOld) {
		current, err := c.store.GCSafePoint(ctx)
		if err != nil {
			return 0, err
		}
		return c.lowestHold(ctx, max(current, safePoint+1))
	} else if err != nil {
		return 0, err
	}
	return c.lowestHold(ctx, safePoint)
}

func (c *Client) dropHold(ctx context.Context, name string) error {
	holds, err := c.store.GCHolds(ctx)
	if err != nil {
		return err
	}
	if ts, ok := holds[name]; ok {
		h, err := c.store.HoldGC(ctx, name, ts, time.Second)
		if err != nil {
			return err
		}
		return h.Release(ctx)
	}
	return nil
}

// lowestHold returns the lowest timestamp held, or limit.
func (c *Client) lowestHold(ctx context.Context, limit uint64) (uint64, error) {
	holds, err := c.store.GCHolds(ctx)
	if err != nil {
		return 0, err
	}
	for _, ts := range holds {
		limit = min(limit, ts)
	}
	return limit, nil
}

// UpdateGCSafePointV2 implements pd.Client: there is one keyspace.
func (c *Client) UpdateGCSafePointV2(ctx context.Context, _ uint32, safePoint uint64) (uint64, error) {
	return c.UpdateGCSafePoint(ctx, safePoint)
}

// UpdateServiceSafePointV2 implements pd.Client: there is one keyspace.
func (c *Client) UpdateServiceSafePointV2(ctx context.Context, _ uint32, serviceID string, ttl int64, safePoint uint64) (uint64, error) {
	return c.UpdateServiceGCSafePoint(ctx, serviceID, ttl, safePoint)
}

// WatchGCSafePointV2 implements pd.Client. Safe points of keyspaces do not change here, so nothing is ever sent.
func (c *Client) WatchGCSafePointV2(ctx context.Context, _ int64) (chan []*pdpb.SafePointEvent, error) {
	ch := make(chan []*pdpb.SafePointEvent)
	context.AfterFunc(ctx, func() { close(ch) })
	return ch, nil
}
