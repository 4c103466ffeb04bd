package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"
	"go.uber.org/zap"

	"fastddl/kv"
)

const (
	// gcSlice is how long collection works before it rests for as long.
	gcSlice      = 10 * time.Millisecond
	gcBatchBytes = 1 << 20
	// gcPoll is how often a changed run interval is noticed.
	gcPoll = 5 * time.Second
)

// collector is the state of garbage collection.
type collector struct {
	mu sync.Mutex // one run at a time
	// done is the safe point of the last complete run.
	done uint64
	// batchBytes is the size at which the deletions found so far are applied.
	batchBytes int
}

// collectPeriodically runs garbage collection until ctx ends.
func (s *Store) collectPeriodically(ctx context.Context) {
	last := time.Now()
	for {
		interval := s.opts.GCRunInterval()
		wait := gcPoll
		if interval > 0 {
			wait = min(wait, max(time.Until(last.Add(interval)), 0))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if interval <= 0 || time.Since(last) < interval {
			continue
		}
		last = time.Now()
		if err := s.RunGC(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("garbage collection failed; it is tried again at the next interval", zap.Error(err))
		}
	}
}

// RunGC moves the safe point to the GC life time before now, though not beyond
// holds and open snapshots and transactions, and deletes the versions that no
// snapshot at or after it can see.
func (s *Store) RunGC(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.gate.exit()
	s.gc.mu.Lock()
	defer s.gc.mu.Unlock()
	safePoint, err := s.holds.advanceSafePoint(timestampOf(time.Now().Add(-s.opts.GCLifeTime())))
	if err != nil {
		return err
	}
	if safePoint <= s.gc.done {
		return nil
	}
	// Durable before the first deletion: a store that has lost versions must
	// know after a restart up to where.
	if err := s.setRecord(recordSafePoint, encodeTS(safePoint)); err != nil {
		return fmt.Errorf("pebblekv: saving the safe point: %w", err)
	}
	start := time.Now()
	run := gcRun{store: s, from: s.gc.done, safePoint: safePoint}
	if err := run.collectAll(ctx); err != nil {
		return fmt.Errorf("pebblekv: collecting garbage: %w", err)
	}
	if err := s.setRecord(recordGCDone, encodeTS(safePoint)); err != nil {
		return fmt.Errorf("pebblekv: saving the progress of garbage collection: %w", err)
	}
	s.gc.done = safePoint
	s.log.Info("garbage collected", zap.Uint64("safePoint", safePoint), zap.Int("keys", run.keys),
		zap.Int("versions", run.versions), zap.Duration("took", time.Since(start)))
	return nil
}

// gcRun is one run. A key can have become garbage since the last complete run
// only if it has a version between the two safe points: everything else was
// newest, or gone, at the last one already. The keys to look at are therefore
// found through the time property of files and blocks.
type gcRun struct {
	store *Store
	// from and safePoint bound the versions that make a key worth a look. Both
	// are included: an import at exactly from may have come after that run.
	from, safePoint uint64

	batch    *pebble.Batch
	key      []byte // scratch
	keys     int    // looked at
	versions int    // deleted
}

// collectAll walks over the key space in slices with rests in between.
func (g *gcRun) collectAll(ctx context.Context) error {
	pos := []byte{}
	for {
		next, err := g.collectSlice(ctx, pos)
		if err != nil || next == nil {
			return err
		}
		pos = next
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(gcSlice):
		}
	}
}

// collectSlice works from pos on for about gcSlice. It returns where to go on,
// or nil at the end of the key space.
func (g *gcRun) collectSlice(ctx context.Context, pos []byte) (next []byte, err error) {
	var bounds pebble.IterOptions
	bounds.LowerBound, bounds.UpperBound = engineBounds(kv.KeyRange{Start: pos})
	versions, err := g.store.db.NewIterWithContext(ctx, &bounds)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, versions.Close()) }()
	bounds.PointKeyFilters = append(make([]pebble.BlockPropertyFilter, 0, 2),
		cockroachkvs.NewMVCCTimeIntervalFilter(g.from, g.safePoint))
	candidates, err := g.store.db.NewIterWithContext(ctx, &bounds)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, candidates.Close()) }()

	g.batch = g.store.db.NewBatch()
	deadline := time.Now().Add(gcSlice)
	for candidates.First(); candidates.Valid(); {
		key, ts, err := splitVersion(candidates.Key())
		if err != nil {
			return nil, errors.Join(err, g.batch.Close())
		}
		if g.keys%64 == 0 && time.Now().After(deadline) {
			next = append([]byte{}, key...)
			break
		}
		if ts < g.from || ts > g.safePoint {
			candidates.Next()
			continue
		}
		if err := g.collectKey(versions, key); err != nil {
			return nil, errors.Join(err, g.batch.Close())
		}
		candidates.NextPrefix()
	}
	if err := candidates.Error(); err != nil {
		return nil, errors.Join(err, g.batch.Close())
	}
	return next, g.flush()
}

// collectKey deletes what is shadowed at the safe point of one key: everything
// older than the newest version at or below it, and that version too if it is
// a tombstone, but only after all that it hides.
func (g *gcRun) collectKey(versions *pebble.Iterator, key []byte) error {
	g.keys++
	g.key = appendVersion(g.key[:0], key, g.safePoint)
	if !versions.SeekGE(g.key) {
		return versions.Error()
	}
	newest := versions.Key()
	if string(userKey(newest)) != string(key) {
		return nil
	}
	value, err := versions.ValueAndErr()
	if err != nil {
		return err
	}
	tombstone := len(value) == 0
	g.key = append(g.key[:0], newest...)
	for versions.Next() && string(userKey(versions.Key())) == string(g.key[:len(g.key)-versionOverhead]) {
		if err := g.delete(versions.Key()); err != nil {
			return err
		}
	}
	if err := versions.Error(); err != nil || !tombstone {
		return err
	}
	return g.delete(g.key)
}

func (g *gcRun) delete(engineKey []byte) error {
	g.versions++
	if err := g.batch.Delete(engineKey, nil); err != nil {
		return err
	}
	if g.batch.Len() < g.store.gc.batchBytes {
		return nil
	}
	if err := g.flush(); err != nil {
		return err
	}
	g.batch = g.store.db.NewBatch()
	return nil
}

// flush applies the deletions found so far. They need not be synced: what is
// lost in a crash is found again, and the log keeps their order.
func (g *gcRun) flush() error {
	if g.batch.Empty() {
		return g.batch.Close()
	}
	if err := g.store.health.writable(); err != nil {
		return errors.Join(err, g.batch.Close())
	}
	if err := g.store.applyBatch(g.batch, false); err != nil {
		return err
	}
	return g.batch.Close()
}
