package pebblekv

import (
	"errors"
	"fmt"
	"io/fs"

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
	s.engOpts = engineOptions(s.opts, s.health)
	s.engOpts.FS = s.engFS
	s.engOpts.Lock = s.lock
	s.engOpts.EventListener.WALCreated = func(info pebble.WALCreateInfo) { s.noteLog(info) }
	db, err := s.awaitEngine()
	if err != nil {
		return fmt.Errorf("pebblekv: opening %s: %w", s.dir, err)
	}
	s.db = db
	if !s.marker.ready {
		// The engine begins the first log before it has set the store's version, in an
		// older format that does not tell damage from the end.
		if err := s.db.Flush(); err != nil {
			return errors.Join(fmt.Errorf("pebblekv: making %s: %w", s.dir, err), s.db.Close(), s.lock.Close())
		}
	}
	// From now on there is something to lose.
	if m := (marker{id: s.marker.id, ready: true, relaxed: s.opts.DisableSync}); m != s.marker {
		if err := writeMarker(s.fs, s.dir, m); err != nil {
			return errors.Join(err, s.db.Close(), s.lock.Close())
		}
		s.marker = m
	}
	return nil
}

// noteLog is told of each new log.
func (s *Store) noteLog(info pebble.WALCreateInfo) {
	if info.Err != nil {
		return
	}
	if err := noteLog(s.fs, s.dir, uint64(info.FileNum)); err != nil {
		s.log.Warn("the number of the newest log could not be noted", zap.Error(err))
	}
}

type openedEngine struct {
	db  *pebble.DB
	err error
}

// awaitEngine opens the engine, or gives up when there is no space to recover the log
// in: the engine itself would try for ever. What it has begun then ends in the
// background, as soon as there is space; until then the folder stays locked.
func (s *Store) awaitEngine() (*pebble.DB, error) {
	opened := make(chan openedEngine, 1)
	s.engFS.opening.Store(true)
	go func() {
		var o openedEngine
		defer func() {
			if r := recover(); r != nil {
				o.err = fmt.Errorf("storage engine: %v", r)
			}
			opened <- o
		}()
		o.db, o.err = pebble.Open(s.dir, s.engOpts)
	}()
	select {
	case o := <-opened:
		s.engFS.opening.Store(false)
		if o.err != nil {
			if pebble.IsCorruptionError(o.err) || errors.Is(o.err, fs.ErrNotExist) {
				o.err = fmt.Errorf("%w: %w", kv.ErrDamaged, o.err)
			}
			return nil, errors.Join(o.err, s.lock.Close())
		}
		return o.db, nil
	case <-s.engFS.starved:
		go s.abandon(opened)
		s.space.measure(0)
		return nil, fmt.Errorf("recovering the log: %w", s.space.lack())
	}
}

// abandon ends an Open that was given up, when it comes to its end.
func (s *Store) abandon(opened <-chan openedEngine) {
	o := <-opened
	if o.err == nil {
		o.err = o.db.Close()
	}
	if err := errors.Join(o.err, s.lock.Close()); err != nil {
		s.log.Error("closing a store that there was no space to open", zap.String("folder", s.dir), zap.Error(err))
	}
}
