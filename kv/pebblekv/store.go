package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/kv"
)

// Store is an embedded kv.Store.
type Store struct {
	opts    Options
	engOpts *pebble.Options
	fs      vfs.FS
	engFS   *engineFS // fs, as the engine sees it
	dir     string
	marker  marker
	log     *zap.Logger
	lock    *pebble.Lock
	db      *pebble.DB
	space   *spaceMonitor
	// ingestions has the engine's reports of imports.
	ingestions *ingestions
	// checkpoints is held while the folder of a checkpoint is made or removed.
	checkpoints sync.Mutex

	// maxBatch is maxBatch, but in tests.
	maxBatch int

	gate     gate
	health   *health
	timeline *timeline
	holds    *holds
	gc       collector
	load     *loadMeter

	stop context.CancelFunc // ends the work in the background
}

var _ kv.Store = (*Store)(nil)

// Open opens the store in the folder path, which is created if it does not
// exist. It fails with kv.ErrLocked if the store is open already, and with
// kv.ErrNotAStore if path holds something else.
func Open(path string, opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts.EnsureDefaults()
	s := &Store{
		opts: opts,
		fs:   opts.FS,
		dir:  path,
		log:  opts.Logger,
		load: newLoadMeter(),

		ingestions: newIngestions(),

		maxBatch: maxBatch,
	}
	if s.fs == nil {
		s.fs = privateFS{vfs.Default}
		abs, err := filepath.Abs(path)
		if err != nil {
			return nil, fmt.Errorf("pebblekv: opening %s: %w", path, err)
		}
		s.dir = abs
	}
	opts.Stage("opening the store")
	lock, m, err := openDir(s.fs, s.dir, opts.AllowDamagedLog)
	if err != nil {
		return nil, err
	}
	s.lock, s.marker = lock, m
	if err := s.prepareDir(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := s.openEngine(); err != nil {
		return nil, err
	}
	opts.Stage("reading the store's records")
	if err := s.start(); err != nil {
		if pebble.IsCorruptionError(err) {
			err = fmt.Errorf("%w: its own records cannot be read: %w", kv.ErrDamaged, err)
		}
		return nil, errors.Join(err, s.db.Close(), lock.Close())
	}
	return s, nil
}

// prepareDir does what has to be done in the folder before the engine works in it.
func (s *Store) prepareDir() (err error) {
	if s.opts.FS == nil {
		if err := makePrivate(s.dir); err != nil {
			return err
		}
	}
	if err := s.emptyImportDir(); err != nil {
		return err
	}
	if err := s.dropCheckpoints(); err != nil {
		return err
	}
	s.space, err = newSpaceMonitor(s.fs, s.dir, s.opts)
	return err
}

// start reads the store's own records and starts the background work.
func (s *Store) start() error {
	bound, err := s.tsRecord(recordTSBound)
	if err != nil {
		return err
	}
	safePoint, err := s.tsRecord(recordSafePoint)
	if err != nil {
		return err
	}
	if s.gc.done, err = s.tsRecord(recordGCDone); err != nil {
		return err
	}
	s.timeline = newTimeline(bound, safePoint, s.persistTSBound)
	s.timeline.refused = func() error { return errors.Join(s.writable(ownWrite), s.space.blockedErr()) }
	if s.holds, err = s.loadHolds(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	return errors.Join(s.goInside(func() { s.collectPeriodically(ctx) }), s.goInside(func() { s.space.watch(ctx) }))
}

// goInside does work in the background, for which Close waits as for an operation.
func (s *Store) goInside(work func()) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	go func() {
		defer s.gate.exit()
		work()
	}()
	return nil
}

// persistTSBound is called by the timeline, possibly in the background.
func (s *Store) persistTSBound(bound uint64) error {
	if err := s.gate.enter(); err != nil {
		return err
	}
	defer s.gate.exit()
	return s.setRecord(recordTSBound, encodeTS(bound))
}

// ID names this store among all stores, for good: 32 hexadecimal digits. What belongs
// to the store but lies elsewhere, such as the files of index builds, is named by it.
func (s *Store) ID() string { return s.marker.id }

// Dir is the store's folder.
func (s *Store) Dir() string { return s.dir }

// Name is "pebble".
func (s *Store) Name() string { return "pebble" }

// Healthy says why the store takes no writes at the moment, if so. A store that
// has failed stays so until it is opened again; reads of what was acknowledged
// go on. A full disk is a kv.DiskFullError, and over by itself when there is space.
func (s *Store) Healthy() error {
	return s.admit(ordinaryWrite, 0)
}

// Damaged returns the first damage that a read or a compaction has met since the store
// was opened, in a file that is still there: a kv.ErrDamaged, or nil. Reads of the damaged
// part fail; everything else goes on.
func (s *Store) Damaged() error { return s.health.damaged() }

// Close implements kv.Store. It waits for running operations, open iterators and
// work in the background; open transactions and snapshots fail afterwards. If some are still
// open after half a minute it gives up with an error and leaves the store to
// the end of the process, which it survives like any crash. Nothing waits for space
// or file descriptors any more; if the engine cannot end without, it is left as it is,
// the folder locked, with an error that says what it lacks.
func (s *Store) Close() error {
	s.stop()
	stuck := s.StopWaiting()
	closed := make(chan error, 1)
	go func() { closed <- s.close() }()
	select {
	case err := <-closed:
		return err
	case <-stuck:
	}
	select { // it may have gone on
	case err := <-closed:
		return err
	case <-time.After(stuckTimeout):
		return fmt.Errorf("pebblekv: closing: %w", s.space.lack())
	}
}

// StopWaiting lets writes that wait for space on a full disk fail, now and from now on, but for the log, the manifest, and
// writes that wait for memory until a table is written: stuck is closed if there is no space for one of these, and the caller
// should not wait for them any more. It is for callers that have to wait for writes before they close the store.
func (s *Store) StopWaiting() (stuck <-chan struct{}) {
	s.engFS.end()
	return s.engFS.stuck
}

// stuckTimeout is how long Close waits for an engine that has waited for space since the closing began.
const stuckTimeout = time.Second

func (s *Store) close() (err error) {
	defer errs.Contain(&err)
	blocked := s.space.blocked.Load() > 0
	if first, err := s.gate.close(closeTimeout); !first || err != nil {
		return err
	}
	if s.health.poisoned.Load() {
		// The engine may hold its locks for ever; what is durable is.
		return errors.Join(s.health.failed(), s.lock.Close())
	}
	if !blocked {
		err = s.saveFinalBound()
	}
	return errors.Join(err, s.db.Close(), s.lock.Close())
}

// saveFinalBound takes back what is left of the timestamp window, so that the
// next life of the store need not begin ahead of the clock.
func (s *Store) saveFinalBound() error {
	if s.health.failed() != nil {
		return nil
	}
	return s.setRecord(recordTSBound, encodeTS(s.timeline.last))
}

// CurrentTS implements kv.Store.
func (s *Store) CurrentTS(ctx context.Context) (uint64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.gate.exit()
	return s.timeline.current()
}

// enter begins an operation unless the store is closed or ctx has ended.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.gate.enter()
}

// DeleteRange implements kv.Store.
func (s *Store) DeleteRange(ctx context.Context, r kv.KeyRange) error {
	lower, upper := engineBounds(r)
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.gate.exit()
	return s.writeRecord(essentialWrite, func(b *pebble.Batch) error { return b.DeleteRange(lower, upper, nil) })
}

// applyDurably applies and closes a batch and waits until it is on stable
// storage.
func (s *Store) applyDurably(b *pebble.Batch) error {
	if err := s.applyBatch(b, true); err != nil {
		return err
	}
	return s.awaitSync(b)
}

// applyBatch puts a batch into the write-ahead log and the memtable. With sync
// it must be followed by awaitSync. The engine panics in some places where its
// log has failed already; that is turned into an error.
func (s *Store) applyBatch(b *pebble.Batch, sync bool) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.health.poisoned.Store(true)
			err = fmt.Errorf("pebblekv: storage engine: %v", r)
			s.health.fail(err)
		}
	}()
	if sync {
		err = s.db.ApplyNoSyncWait(b, pebble.Sync)
	} else {
		err = s.db.Apply(b, pebble.NoSync)
	}
	if err != nil {
		err = fmt.Errorf("pebblekv: writing: %w", err)
		s.health.fail(err)
	}
	return err
}

// awaitSync waits until a batch applied with sync is on stable storage, and
// closes it. After an error the contents of the log are unknown, so the store
// takes no more writes.
func (s *Store) awaitSync(b *pebble.Batch) error {
	if err := b.SyncWait(); err != nil {
		err = fmt.Errorf("pebblekv: syncing the log: %w", err)
		s.health.fail(err)
		return err
	}
	return b.Close()
}
