package pebblekv

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/kv"
)

// Format is the format of stores that this version reads and writes.
const Format = storeFormat

const (
	// BackupFile marks a folder with a backup, which is not a store before it is restored.
	BackupFile = "FASTDDL-BACKUP"
	// RestoreFile marks a folder that a store is being restored into. It is removed after Adopt.
	RestoreFile = "FASTDDL-RESTORE"
)

// AdoptOptions configures Adopt. The zero value is ready for use.
type AdoptOptions struct {
	// Forget are the records of the layer above (see Store.SaveMeta) by which a store differs from all others: they are
	// removed, and made anew.
	Forget []string
	// FS is the file system; nil is the operating system's.
	FS vfs.FS
	// Logger receives the engine's messages; nil discards them.
	Logger *zap.Logger
}

// Adopt makes a store of its own of the files of a checkpoint, which are in the folder dir and belong to the caller: as it was at the
// timestamp at. A crash before it returns leaves a folder that no Open takes for a store. It returns the store's id.
//
// A checkpoint holds all commits at or below at, if at was taken and all of these had ended when it began, and some later ones. Those
// are removed: among them may be one whose reader had seen, in another store, what the checkpoint does not hold. What has no
// versions is as of the end of the checkpoint: records of the layer above, and deleted ranges. The caller of Checkpoint holds garbage
// collection at at, so that nothing was deleted that a reader at at sees.
//
// The new store differs from the old one by its id, so that both may run side by side. Nothing below at can be read: garbage
// collection is no longer held for what ran in the old store, and what began at an earlier timestamp, such as an index build, begins
// again at a new one. Holds are removed for that reason.
func Adopt(dir string, at uint64, opts AdoptOptions) (id string, err error) {
	fsys := opts.FS
	if fsys == nil {
		fsys = privateFS{vfs.Default}
	}
	log := opts.Logger
	if log == nil {
		log = zap.NewNop()
	}
	if _, err := fsys.Stat(filepath.Join(dir, markerFile)); err == nil {
		return "", fmt.Errorf("pebblekv: %s is a store already", dir)
	}
	if err := checkEngineFormat(fsys, dir); err != nil {
		return "", err
	}
	if err := checkEngineFiles(fsys, dir, marker{ready: true}, false); err != nil {
		return "", err
	}
	m, err := newMarker()
	if err != nil {
		return "", err
	}
	if err := adoptEngine(dir, at, opts.Forget, fsys, log); err != nil {
		if pebble.IsCorruptionError(err) {
			err = fmt.Errorf("%w: %w", kv.ErrDamaged, err)
		}
		return "", fmt.Errorf("pebblekv: making a store of %s: %w", dir, err)
	}
	m.ready = true
	return m.id, writeMarker(fsys, dir, m)
}

// adoptEngine changes the engine's data into those of the new store.
func adoptEngine(dir string, at uint64, forget []string, fsys vfs.FS, log *zap.Logger) (err error) {
	defer errs.Contain(&err)
	eo := offlineOptions(fsys, log)
	eo.DisableAutomaticCompactions = true
	db, err := pebble.Open(dir, eo)
	if err != nil {
		return err
	}
	s := &Store{db: db}
	defer func() {
		err = errs.Combine(err, db.Close())
	}()
	if err := s.checkTimestamps(at); err != nil {
		return err
	}
	removed, err := s.removeAfter(at)
	if err != nil {
		return err
	}
	log.Info("commits after the timestamp of a checkpoint were removed", zap.Uint64("timestamp", at), zap.Int("versions", removed))
	b := db.NewBatch()
	holds := append([]byte{reservedByte}, recordHolds...)
	err = errors.Join(
		b.Set(recordKey(recordSafePoint), encodeTS(at), nil),
		b.DeleteRange(appendBare(nil, holds), appendBare(nil, kv.PrefixNext(holds)), nil),
	)
	for _, name := range forget {
		err = errors.Join(err, b.Delete(recordKey(recordMeta+name), nil))
	}
	if err != nil {
		return errs.Combine(err, b.Close())
	}
	if err := db.Apply(b, pebble.Sync); err != nil {
		return err
	}
	return db.Flush() // so that the new store begins without a log to replay
}

// checkTimestamps compares at with what the checkpoint says of timestamps.
func (s *Store) checkTimestamps(at uint64) error {
	bound, err := s.tsRecord(recordTSBound)
	if err != nil {
		return err
	}
	safePoint, err := s.tsRecord(recordSafePoint)
	if err != nil {
		return err
	}
	if at >= bound || at < safePoint {
		return fmt.Errorf("%w: the timestamp %d is not one of the checkpoint, which has those from %d to below %d", kv.ErrDamaged, at, safePoint, bound)
	}
	return nil
}

// removeAfter removes all versions above at, and returns their number. Only blocks with such versions are read.
func (s *Store) removeAfter(at uint64) (removed int, err error) {
	var bounds pebble.IterOptions
	bounds.LowerBound, bounds.UpperBound = engineBounds(kv.KeyRange{})
	bounds.PointKeyFilters = versionsWithin(at+1, math.MaxUint64-1) // the filter adds 1
	it, err := s.db.NewIter(&bounds)
	if err != nil {
		return 0, err
	}
	defer func() { err = errs.Combine(err, it.Close()) }()
	b := s.db.NewBatch()
	defer func() { err = errs.Combine(err, b.Close()) }()
	for valid := it.First(); valid; valid = it.Next() {
		_, ts, err := splitVersion(it.Key())
		if err != nil {
			return removed, err
		}
		if ts <= at {
			continue
		}
		if err := b.Delete(bytes.Clone(it.Key()), nil); err != nil {
			return removed, err
		}
		removed++
		if b.Len() < gcBatchBytes {
			continue
		}
		if err := s.db.Apply(b, pebble.NoSync); err != nil {
			return removed, err
		}
		b.Reset()
	}
	if err := it.Error(); err != nil {
		return removed, err
	}
	return removed, s.db.Apply(b, pebble.NoSync) // synced with what follows
}

// offlineOptions are the engine's for files that no store has open.
func offlineOptions(fsys vfs.FS, log *zap.Logger) *pebble.Options {
	o := Options{CacheBytes: testCache, FS: fsys, Logger: log}
	o.EnsureDefaults()
	eo := engineOptions(o, &health{log: log})
	eo.FS = fsys
	return eo
}
