package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/internal/errs"
	"fastddl/kv"
)

const (
	// checkpointDir is the folder in the store's for a checkpoint until it is moved to where it belongs. Open removes what a
	// crash has left of one.
	checkpointDir = "checkpoint"
	// checkpointEngine is the folder in that for the engine's files.
	checkpointEngine = "engine"
)

// Checkpoint is the engine's files as they were at one moment. It is in the store's folder until its taker moves it away.
type Checkpoint struct {
	store *Store
	// Dir is the folder that holds nothing but these files.
	Dir string
}

// Checkpoint makes a checkpoint that holds everything that was acknowledged before the call, and some of what is written
// during it. It links the engine's tables, where the file system has links, and copies the rest: the logs up to what has been
// written, the manifest. Writes go on meanwhile, imports wait: the engine may work on one between two of the moments at which it
// collects the names of its files. It is not to be opened as it is: see Adopt. A store has one checkpoint at a
// time; the caller ends it by Discard.
//
// Not in it are the marker with the store's id, the lock, the reserve, files of imports that have not been taken
// in, and all else that lies in the store's folder without being the engine's.
func (s *Store) Checkpoint(ctx context.Context) (*Checkpoint, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.exit()
	if err := s.Damaged(); err != nil {
		return nil, err
	}
	if err := s.admitCheckpoint(); err != nil {
		return nil, err
	}
	select {
	case s.ingestions.turn <- struct{}{}:
		defer func() { <-s.ingestions.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	base := filepath.Join(s.dir, checkpointDir)
	if _, err := s.fs.Stat(base); err == nil {
		return nil, errors.New("pebblekv: another checkpoint of the store has not been moved away yet")
	}
	c := &Checkpoint{store: s, Dir: filepath.Join(base, checkpointEngine)}
	err := s.fs.MkdirAll(base, dirMode)
	if err == nil {
		err = s.linkEngine(c.Dir)
	}
	if err == nil {
		err = ctx.Err() // it may have taken long where files are copied
	}
	if err != nil {
		return nil, errs.Combine(fmt.Errorf("pebblekv: making a checkpoint: %w", err), c.Discard())
	}
	return c, nil
}

// linkEngine has the engine make the checkpoint. The engine panics in some places where its log has failed.
func (s *Store) linkEngine(dir string) (err error) {
	defer errs.Contain(&err)
	return s.db.Checkpoint(dir, pebble.WithFlushedWAL())
}

// admitCheckpoint refuses a checkpoint if there is no room for what it copies: the logs and the manifest.
func (s *Store) admitCheckpoint() error {
	if err := s.admit(ordinaryWrite, 0); err != nil || !s.space.enabled() {
		return err
	}
	wal := s.db.Metrics().WAL
	needed := s.space.limits.full + wal.PhysicalSize + wal.ObsoletePhysicalSize
	s.space.measure(spaceMaxAge)
	if free := s.space.estimate(); free < needed {
		return &kv.DiskFullError{Free: free, Needed: needed}
	}
	return nil
}

// Discard removes what is left of the checkpoint in the store's folder. The links that are removed leave the store's files as they are.
func (c *Checkpoint) Discard() error {
	dir := filepath.Join(c.store.dir, checkpointDir)
	if err := c.store.fs.RemoveAll(dir); err != nil {
		return fmt.Errorf("pebblekv: removing %s: %w", dir, err)
	}
	return nil
}

// dropCheckpoint removes what a crash has left of a checkpoint.
func (s *Store) dropCheckpoint() error { return (&Checkpoint{store: s}).Discard() }

// inCheckpoint says that a file is one of a checkpoint that is being made. Such a file fails on a full disk; otherwise the store
// would wait for it as for its own.
func (e *engineFS) inCheckpoint(name string) bool {
	return e.checkpoints != "" && strings.HasPrefix(name, e.checkpoints)
}

// openWritten opens the log that is being written, up to what has been written. A log may be a former one that is written
// again: a reader that goes on while it is written would see what is new, then what was there before, then what is newer.
func (e *engineFS) openWritten(log *engineFile) (vfs.File, error) {
	written := log.offset.Load()
	f, err := e.FS.Open(log.name)
	if err != nil {
		return nil, err
	}
	return &cutFile{File: f, left: written}, nil
}
