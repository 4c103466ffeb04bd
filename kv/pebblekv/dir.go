package pebblekv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/kv"
)

const (
	// markerFile tells a store's folder from any other.
	markerFile    = "FASTDDL-STORE"
	markerContent = "fastddl pebblekv format 1\n"
	lockFile      = "LOCK"
)

// openDir makes sure that path is a folder with a store of ours, or an empty
// one to make a store in, and locks it.
func openDir(fsys vfs.FS, path string) (*pebble.Lock, error) {
	if err := ensureFolder(fsys, path); err != nil {
		return nil, err
	}
	// Checked before locking, so that a stranger's folder gets no lock file.
	if err := checkMarker(fsys, path); err != nil {
		return nil, err
	}
	lock, err := pebble.LockDirectory(path, fsys)
	if err != nil {
		if isLockConflict(err) {
			return nil, fmt.Errorf("%w: %s", kv.ErrLocked, path)
		}
		return nil, fmt.Errorf("pebblekv: locking %s: %w", path, err)
	}
	if err := ensureMarker(fsys, path); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func ensureFolder(fsys vfs.FS, path string) error {
	info, err := fsys.Stat(path)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("%w: %s is not a folder", kv.ErrNotAStore, path)
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: a part of %s is not a folder", kv.ErrNotAStore, path)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("pebblekv: opening %s: %w", path, err)
	}
	if err := makeFolder(fsys, path); err != nil {
		return fmt.Errorf("pebblekv: creating %s: %w", path, err)
	}
	return nil
}

// makeFolder makes a folder and what is missing above it, durably: a store
// that loses its folder in a crash has lost everything.
func makeFolder(fsys vfs.FS, path string) error {
	var parents []string
	for parent := fsys.PathDir(path); ; parent = fsys.PathDir(parent) {
		parents = append(parents, parent)
		if _, err := fsys.Stat(parent); err == nil || fsys.PathDir(parent) == parent {
			break
		}
	}
	if err := fsys.MkdirAll(path, 0o755); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := syncDir(fsys, parent); err != nil {
			return err
		}
	}
	return nil
}

// checkMarker refuses folders that hold something else.
func checkMarker(fsys vfs.FS, path string) error {
	names, err := fsys.List(path)
	if err != nil {
		return fmt.Errorf("pebblekv: reading %s: %w", path, err)
	}
	var foreign []string
	for _, name := range names {
		switch name {
		case markerFile:
			return checkFormat(fsys, filepath.Join(path, markerFile))
		case lockFile, markerFile + ".tmp":
			// Left by an Open that ended before it wrote the marker.
		default:
			foreign = append(foreign, name)
		}
	}
	if len(foreign) > 0 {
		return fmt.Errorf("%w: %s is not empty (it holds %s) and has no %s file",
			kv.ErrNotAStore, path, foreign[0], markerFile)
	}
	return nil
}

func checkFormat(fsys vfs.FS, name string) error {
	f, err := fsys.Open(name)
	if err != nil {
		return fmt.Errorf("pebblekv: opening %s: %w", name, err)
	}
	content, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("pebblekv: reading %s: %w", name, err)
	}
	if string(content) != markerContent {
		return fmt.Errorf("%w: unknown format %q in %s", kv.ErrNotAStore, strings.TrimSpace(string(content)), name)
	}
	return nil
}

// ensureMarker writes the marker of a new store, before anything else is put
// into its folder.
func ensureMarker(fsys vfs.FS, path string) (err error) {
	name := filepath.Join(path, markerFile)
	if _, err := fsys.Stat(name); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pebblekv: opening %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("pebblekv: creating %s: %w", name, err)
		}
	}()
	tmp := name + ".tmp"
	f, err := fsys.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(markerContent))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	return syncDir(fsys, path)
}

func syncDir(fsys vfs.FS, path string) error {
	dir, err := fsys.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// isLockConflict recognises what the file systems report when somebody else
// holds the lock: an error number for another process, a text for this one.
func isLockConflict(err error) bool {
	return errors.Is(err, syscall.EAGAIN) ||
		strings.Contains(err.Error(), "lock held by current process")
}
