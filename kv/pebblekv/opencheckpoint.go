package pebblekv

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/kv"
)

// OpenCheckpoint opens a checkpoint in the folder dir, for a reader in another process than the store's. The folder belongs to the
// caller, who removes it: nothing that is written to it is kept, nothing is synced, compacted or collected. The checkpoint's
// timestamps can be read, and units be imported, so that later reads see them. It fails as Open does.
func OpenCheckpoint(dir string, opts Options) (*Store, error) {
	fsys := opts.FS
	if fsys == nil {
		fsys = privateFS{vfs.Default}
	}
	if _, err := fsys.Stat(filepath.Join(dir, markerFile)); err == nil {
		return nil, fmt.Errorf("pebblekv: %s is a store, or a checkpoint that was opened before", dir)
	}
	m, err := newMarker()
	if err != nil {
		return nil, err
	}
	m.ready = true // so that a file that is missing is a loss
	if err := writeMarker(fsys, dir, m); err != nil {
		return nil, err
	}
	opts.DisableSync, opts.scratch = true, true
	opts.GCRunInterval = func() time.Duration { return 0 }
	return Open(dir, opts)
}

// UnitFile describes a finished import unit to another process.
type UnitFile struct {
	// Path is that of the file.
	Path string
	// Version is the commit timestamp of the pairs, Start the first key and End the successor of the last.
	Version    uint64
	Start, End []byte
	// Size is the number of bytes of the file, Count that of its pairs.
	Size  uint64
	Count int
}

// Keys is the range of the unit's keys.
func (f *UnitFile) Keys() kv.KeyRange { return kv.KeyRange{Start: f.Start, End: f.End} }

// FileOf describes a unit of an embedded store that was neither imported nor discarded.
func FileOf(unit kv.ImportUnit) (UnitFile, error) {
	u, ok := unit.(*importUnit)
	switch {
	case !ok:
		return UnitFile{}, errImportForeign
	case u.consumed || u.discarded:
		return UnitFile{}, errImportDiscarded
	}
	return UnitFile{Path: u.path, Version: u.version, Start: u.keys.Start, End: u.keys.End, Size: u.size, Count: u.count}, nil
}

// Unit returns the unit of a file that another process has finished. Nothing is read before Import, which compares the file with the
// description. It fails if the description is none of a unit.
func (s *Store) Unit(f UnitFile) (kv.ImportUnit, error) {
	switch {
	case f.Version == 0:
		return nil, errImportVersion
	case f.Count <= 0 || len(f.End) == 0 || f.Keys().Empty():
		return nil, errImportEmpty
	}
	if err := checkUserKey(f.End); err != nil {
		return nil, err
	}
	return &importUnit{store: s, path: f.Path, version: f.Version, keys: f.Keys(), size: f.Size, count: f.Count}, nil
}
