package pebblekv

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"

	"fastddl/kv"
)

// openEngine opens the engine, which recovers the log. The folder's lock is given back
// if it fails.
func (s *Store) openEngine() error {
	check, err := newLogCheck(s.fs, s.dir, s.marker, s.opts)
	if err != nil {
		return errors.Join(err, s.lock.Close())
	}
	s.health = &health{log: s.log}
	s.engFS = newEngineFS(s.fs, s.space, check, s.opts)
	s.engFS.checkpoints = filepath.Join(s.dir, checkpointDir)
	s.engOpts = engineOptions(s.opts, s.health)
	s.engOpts.FS = s.engFS
	s.engOpts.Lock = s.lock
	s.engOpts.EventListener.WALCreated = func(info pebble.WALCreateInfo) { s.noteLog(info) }
	s.engOpts.EventListener.TableIngested = s.ingestions.report
	return s.awaitEngine()
}

// makeEngine opens the engine and sees to it that a new one is complete. It returns the marker
// that the folder has then.
func (s *Store) makeEngine() (db *pebble.DB, m marker, err error) {
	m = s.marker
	db, err = pebble.Open(s.dir, s.engOpts)
	if err != nil {
		if pebble.IsCorruptionError(err) || errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", kv.ErrDamaged, err)
		}
		return nil, m, fmt.Errorf("pebblekv: opening %s: %w", s.dir, err)
	}
	if !m.ready {
		// The engine begins the first log before it has set the store's version, in an
		// older format in which damage cannot be distinguished from the end.
		if err := db.Flush(); err != nil {
			return nil, m, errors.Join(fmt.Errorf("pebblekv: making %s: %w", s.dir, err), db.Close())
		}
	}
	// From now on there is something to lose.
	if ready := (marker{id: m.id, ready: true, relaxed: s.opts.DisableSync}); ready != m {
		if err := writeMarker(s.fs, s.dir, ready); err != nil {
			return nil, m, errors.Join(err, db.Close())
		}
		m = ready
	}
	return db, m, nil
}

// noteLog notes the number of each new log.
func (s *Store) noteLog(info pebble.WALCreateInfo) {
	if info.Err != nil {
		return
	}
	if err := noteLog(s.fs, s.dir, uint64(info.FileNum)); err != nil {
		s.log.Warn("the number of the newest log could not be noted", zap.Error(err))
	}
}

type openedEngine struct {
	db     *pebble.DB
	marker marker
	err    error
}

// awaitEngine opens the engine, or gives up when there is no space for that: the engine
// itself would try for ever. What it has begun then ends in the background, as soon as
// there is space; until then the folder stays locked.
func (s *Store) awaitEngine() error {
	opened := make(chan openedEngine, 1)
	s.engFS.opening.Store(true)
	go func() {
		var o openedEngine
		defer func() {
			if r := recover(); r != nil {
				o.err = fmt.Errorf("pebblekv: opening %s: storage engine: %v", s.dir, r)
			}
			opened <- o
		}()
		o.db, o.marker, o.err = s.makeEngine()
	}()
	select {
	case o := <-opened:
		s.engFS.opening.Store(false)
		if o.err != nil {
			return errors.Join(o.err, s.lock.Close())
		}
		s.db, s.marker = o.db, o.marker
		return nil
	case <-s.engFS.noRoomToOpen:
		go s.abandon(opened)
		s.space.measure(0)
		doing := "recovering the log"
		if !s.marker.ready {
			doing = "making the store"
		}
		return fmt.Errorf("pebblekv: opening %s: %s: %w", s.dir, doing, s.space.lack())
	}
}

// abandon closes the engine of an Open that was given up, once it is open.
func (s *Store) abandon(opened <-chan openedEngine) {
	o := <-opened
	if o.err == nil {
		o.err = o.db.Close()
	}
	if err := errors.Join(o.err, s.lock.Close()); err != nil {
		s.log.Error("closing a store that there was no space to open", zap.String("folder", s.dir), zap.Error(err))
	}
}
