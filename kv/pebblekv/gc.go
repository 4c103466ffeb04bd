package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"fastddl/kv"
)

const (
	// gcSlice is how long collection works before it pauses for as long.
	gcSlice = 10 * time.Millisecond
	// gcBatchBytes is the size at which the deletions found so far are applied.
	gcBatchBytes = 1 << 20
	// gcSeekAfterSkips is how many keys without a recent version are walked over before
	// seeking to the next one that has one.
	gcSeekAfterSkips = 32
	// gcPoll is how often a changed run interval is noticed.
	gcPoll = 5 * time.Second
)

// collector is the state of garbage collection.
type collector struct {
	mu sync.Mutex // one run at a time
	// done is the safe point of the last complete run.
	done uint64
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
	_, err := s.CollectGarbage(ctx, timestampOf(time.Now().Add(-s.opts.GCLifeTime())))
	return err
}

// CollectGarbage moves the safe point up to target, though not beyond holds and
// what is being read or is in flight, and deletes the versions that no snapshot
// at or after it can see. It returns the safe point, which never goes back.
func (s *Store) CollectGarbage(ctx context.Context, target uint64) (safePoint uint64, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.gate.exit()
	s.gc.mu.Lock()
	defer s.gc.mu.Unlock()
	safePoint, err = s.holds.advanceSafePoint(target)
	if err != nil || safePoint <= s.gc.done {
		return safePoint, err
	}
	return safePoint, s.collectUpTo(ctx, safePoint)
}

// collectUpTo is one run of garbage collection. The caller holds gc.mu.
func (s *Store) collectUpTo(ctx context.Context, safePoint uint64) error {
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
// newest, or gone, at the last one already. Where such versions are is found
// through the time property of files and blocks.
type gcRun struct {
	store *Store
	// from and safePoint bound the versions that make a key worth a look. Both
	// are included: an import at exactly from may have come after that run.
	from, safePoint uint64

	batch    *pebble.Batch
	key      []byte // the bare engine key of the key being looked at
	keys     int    // looked at
	versions int    // deleted
}

// collectAll walks over the key space in slices with pauses in between. It skips what is
// damaged and returns that error when everything else was collected: the next run looks at
// all of it again.
func (g *gcRun) collectAll(ctx context.Context) (err error) {
	pos := []byte{}
	var damage error
	for {
		g.key = appendBare(g.key[:0], pos)
		next, err := g.collectSlice(ctx, pos)
		if pebble.IsCorruptionError(err) {
			if damage == nil {
				damage = err
			}
			next, err = g.pastDamage(pos)
		}
		if err != nil || next == nil {
			return errors.Join(err, damage)
		}
		pos = next
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(gcSlice):
		}
	}
}

// pastDamage returns where to go on after damage that was met from pos on: with the next file
// behind the key that was looked at last. If that is the damaged one, the one behind it is next.
func (g *gcRun) pastDamage(pos []byte) (next []byte, err error) {
	if reached := userKey(g.key); bytes.Compare(reached, pos) > 0 {
		pos = reached
	}
	cuts, err := g.store.fileBoundaries(kv.KeyRange{Start: pos})
	if err != nil || len(cuts) == 0 {
		return nil, err
	}
	return cuts[0], nil
}

// collectSlice works from pos on for about gcSlice. It returns where to go on,
// or nil at the end of the key space.
//
// Two iterators take turns: one that sees only blocks with versions of the
// right time finds the next key worth a look, and one that sees everything
// looks at it and at what follows, until there is nothing of interest nearby.
func (g *gcRun) collectSlice(ctx context.Context, pos []byte) (next []byte, err error) {
	var bounds pebble.IterOptions
	bounds.LowerBound, bounds.UpperBound = engineBounds(kv.KeyRange{Start: pos})
	all, err := g.store.db.NewIterWithContext(ctx, &bounds)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	bounds.PointKeyFilters = versionsWithin(g.from, g.safePoint)
	recent, err := g.store.db.NewIterWithContext(ctx, &bounds)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, recent.Close()) }()

	g.batch = g.store.db.NewBatch()
	deadline := time.Now().Add(gcSlice)
	for seek := bounds.LowerBound; ; seek = appendBare(seek[:0], next) {
		found, err := g.findRecent(recent, seek)
		if err == nil && found {
			all.SeekGE(g.key)
			next, err = g.collectRun(all, deadline)
		}
		if pebble.IsCorruptionError(err) {
			return nil, errors.Join(err, g.flush()) // what was deleted before it is garbage all the same
		}
		if err != nil {
			if g.batch != nil {
				err = errors.Join(err, g.batch.Close())
			}
			return nil, err
		}
		if !found || next == nil {
			return nil, g.flush()
		}
		if time.Now().After(deadline) {
			return next, g.flush()
		}
	}
}

// findRecent finds the first key from seek on that has a version of the right
// time, and puts its bare engine key into g.key.
func (g *gcRun) findRecent(recent *pebble.Iterator, seek []byte) (bool, error) {
	for valid := recent.SeekGE(seek); valid; valid = recent.Next() {
		key, ts, err := splitVersion(recent.Key())
		if err != nil {
			return false, err
		}
		if g.isRecent(ts) {
			g.key = appendBare(g.key[:0], key)
			return true, nil
		}
	}
	return false, recent.Error()
}

func (g *gcRun) isRecent(ts uint64) bool { return g.from <= ts && ts <= g.safePoint }

// collectRun looks at one key after the other, as long as there is one with a
// recent version among the last few, or until the deadline. It returns the key
// that is next, or nil at the end.
func (g *gcRun) collectRun(all *pebble.Iterator, deadline time.Time) ([]byte, error) {
	for skipped := 0; all.Valid(); g.keys++ {
		if skipped == gcSeekAfterSkips || g.keys%64 == 63 && time.Now().After(deadline) {
			return append([]byte{}, userKey(all.Key())...), nil
		}
		recent, err := g.collectKey(all)
		if err != nil {
			return nil, err
		}
		if skipped++; recent {
			skipped = 0
		}
	}
	return nil, all.Error()
}

// collectKey deletes what is shadowed at the safe point of the key the iterator
// stands on: everything older than the newest version at or below it, and that
// version too if it is a tombstone, but only after all that it hides. It moves
// the iterator to the next key, and reports whether there was a recent version.
func (g *gcRun) collectKey(all *pebble.Iterator) (recent bool, err error) {
	g.key = appendBare(g.key[:0], userKey(all.Key()))
	var shadowing uint64 // timestamp of the newest version at or below the safe point
	tombstone := false
	for ; all.Valid() && sameUserKey(all.Key(), g.key); all.Next() {
		_, ts, err := splitVersion(all.Key())
		if err != nil {
			return false, err
		}
		recent = recent || g.isRecent(ts)
		switch {
		case ts > g.safePoint:
		case shadowing == 0:
			value, err := all.ValueAndErr()
			if err != nil {
				return false, err
			}
			shadowing, tombstone = ts, len(value) == 0
		default:
			if err := g.delete(all.Key()); err != nil {
				return false, err
			}
		}
	}
	if err := all.Error(); err != nil || !tombstone {
		return recent, err
	}
	key := g.key[:len(g.key)-1]
	return recent, g.delete(appendVersion(make([]byte, 0, len(key)+versionOverhead), key, shadowing))
}

func (g *gcRun) delete(engineKey []byte) error {
	g.versions++
	if err := g.batch.Delete(engineKey, nil); err != nil {
		return err
	}
	if g.batch.Len() < gcBatchBytes {
		return nil
	}
	if err := g.flush(); err != nil {
		return err
	}
	g.batch = g.store.db.NewBatch()
	return nil
}

// flush applies the deletions found so far. They need not be synced: what is
// lost in a crash is found again, and the log keeps their order. It closes the
// batch once, also after an error: the engine reuses closed ones, so a second
// Close could close the batch of another writer.
func (g *gcRun) flush() (err error) {
	b := g.batch
	g.batch = nil
	defer func() { err = errors.Join(err, b.Close()) }()
	if b.Empty() {
		return nil
	}
	if err := g.store.admit(essentialWrite, b.Len()); err != nil {
		return err
	}
	return g.store.applyBatch(b, false)
}
