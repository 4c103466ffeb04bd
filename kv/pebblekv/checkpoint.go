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
	"fastddl/internal/remove"
	"fastddl/kv"
)

const (
	// checkpointDir is the folder in the store's for checkpoints, of which each has a folder of its own. Open removes what a
	// crash has left of them.
	checkpointDir = "checkpoint"
	// checkpointEngine is the folder in that of a checkpoint for the engine's files.
	checkpointEngine = "engine"
	// wholeCheckpoint is the name of one of the whole store.
	wholeCheckpoint = "store"
)

// Checkpoint is the engine's files as they were at one moment. It is in the store's folder until its taker moves it away.
type Checkpoint struct {
	store *Store
	base  string
	// Dir is the folder that holds nothing but these files.
	Dir string
}

// CheckpointOptions says what a checkpoint is of.
type CheckpointOptions struct {
	// Name distinguishes it from other checkpoints of the store; it is the name of a folder.
	Name string
	// Spans are the keys that are read in it; nil is all of them. Other keys may be missing, or have older versions only. The store's own
	// records are in it always.
	Spans []kv.KeyRange
	// LinksOnly refuses a checkpoint on a file system without links, where all tables would be copied.
	LinksOnly bool
}

// Checkpoint makes a checkpoint that holds everything that was acknowledged before the call, and some of what is written
// during it. It links the engine's tables, where the file system has links, and copies the rest: the logs up to what has been
// written, the manifest. Writes go on meanwhile, imports wait: the engine may work on one between two of the moments at which it
// collects the names of its files. It is not to be opened as it is: see Adopt. A store has one checkpoint at a
// time; the caller ends it by Discard. CheckpointOf makes others beside it.
//
// Not in it are the marker with the store's id, the lock, the reserve, files of imports that have not been taken
// in, and all else that lies in the store's folder without being the engine's.
func (s *Store) Checkpoint(ctx context.Context) (*Checkpoint, error) {
	return s.CheckpointOf(ctx, CheckpointOptions{Name: wholeCheckpoint})
}

// CheckpointOf is Checkpoint of some keys, under a name: there may be several, each with a name of its own. What it holds of the
// disk is what the store has compacted or deleted since.
func (s *Store) CheckpointOf(ctx context.Context, opts CheckpointOptions) (*Checkpoint, error) {
	if opts.Name == "" || opts.Name != filepath.Base(opts.Name) {
		return nil, fmt.Errorf("pebblekv: %q is no name of a checkpoint", opts.Name)
	}
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
	base := filepath.Join(s.dir, checkpointDir, opts.Name)
	if _, err := s.fs.Stat(base); err == nil {
		return nil, errors.New("pebblekv: another checkpoint of the store has not been moved away yet")
	}
	c := &Checkpoint{store: s, base: base, Dir: filepath.Join(base, checkpointEngine)}
	err := s.makeCheckpointDir(base)
	if err == nil && opts.LinksOnly {
		err = s.fs.Link(filepath.Join(s.dir, markerFile), filepath.Join(base, markerFile))
	}
	if err == nil {
		err = s.linkEngine(c.Dir, opts.Spans)
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
func (s *Store) linkEngine(dir string, spans []kv.KeyRange) (err error) {
	defer errs.Contain(&err)
	opts := []pebble.CheckpointOption{pebble.WithFlushedWAL()}
	if spans != nil {
		records := recordSpan()
		only := []pebble.CheckpointSpan{{Start: records.Start, End: records.End}}
		for _, r := range spans {
			lower, upper := engineBounds(r)
			only = append(only, pebble.CheckpointSpan{Start: lower, End: upper})
		}
		opts = append(opts, pebble.WithRestrictToSpans(only))
	}
	return s.db.Checkpoint(dir, opts...)
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
	s := c.store
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
	if err := s.removeCheckpoints(c.base); err != nil {
		return err
	}
	_ = s.fs.Remove(filepath.Dir(c.base)) // unless others are there
	return nil
}

// makeCheckpointDir makes the folder of a checkpoint, and that of all checkpoints if there is none.
func (s *Store) makeCheckpointDir(base string) error {
	s.checkpoints.Lock()
	defer s.checkpoints.Unlock()
	return s.fs.MkdirAll(base, dirMode)
}

// dropCheckpoints removes what a crash has left of checkpoints.
func (s *Store) dropCheckpoints() error {
	return s.removeCheckpoints(filepath.Join(s.dir, checkpointDir))
}

func (s *Store) removeCheckpoints(dir string) error {
	// A reader whose store has died may still write to its copy.
	if err := remove.Tree(func() error { return s.fs.RemoveAll(dir) }); err != nil {
		return fmt.Errorf("pebblekv: removing %s: %w", dir, err)
	}
	return nil
}

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
