package pebblekv

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"fastddl/kv"
)

const (
	lockFile = "LOCK"
	// lostAndFound is a folder that file systems have in their root.
	lostAndFound = "lost+found"
	// tmpSuffix is added to the name of a file that is being written.
	tmpSuffix = ".tmp"
	// dirMode is for the store's folders, which only their owner may read.
	dirMode = 0o700
)

// openDir makes sure that path is a folder with a store of ours, or an empty
// one to make a store in, and locks it.
func openDir(fsys vfs.FS, path string, allowDamagedLog bool) (*pebble.Lock, marker, error) {
	if err := ensureFolder(fsys, path); err != nil {
		return nil, marker{}, err
	}
	// Checked before locking, so that a stranger's folder gets no lock file.
	if err := checkFolder(fsys, path); err != nil {
		return nil, marker{}, err
	}
	lock, err := pebble.LockDirectory(path, fsys)
	if err != nil {
		if isLockConflict(err) {
			return nil, marker{}, fmt.Errorf("%w: %s", kv.ErrLocked, path)
		}
		return nil, marker{}, fmt.Errorf("pebblekv: locking %s: %w", path, err)
	}
	m, err := ensureMarker(fsys, path)
	if err == nil {
		err = checkEngineFiles(fsys, path, m, allowDamagedLog)
	}
	if err != nil {
		return nil, marker{}, errors.Join(err, lock.Close())
	}
	return lock, m, nil
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
	if err := fsys.MkdirAll(path, dirMode); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := syncDir(fsys, parent); err != nil {
			return err
		}
	}
	return nil
}

// checkFolder refuses folders that hold something else, or a store of another
// format.
func checkFolder(fsys vfs.FS, path string) error {
	names, err := fsys.List(path)
	if err != nil {
		return fmt.Errorf("pebblekv: reading %s: %w", path, err)
	}
	var foreign []string
	for _, name := range names {
		switch name {
		case markerFile:
			if _, err := readMarker(fsys, path); err != nil {
				return err
			}
			return checkEngineFormat(fsys, path)
		case lockFile, markerFile + tmpSuffix:
			// Left by an Open that ended before it wrote the marker.
		case lostAndFound:
			info, err := fsys.Stat(filepath.Join(path, name))
			if err != nil {
				return fmt.Errorf("pebblekv: reading %s: %w", path, err)
			}
			if !info.IsDir() {
				foreign = append(foreign, name)
			}
		default:
			foreign = append(foreign, name)
		}
	}
	for _, name := range foreign {
		switch name {
		case BackupFile:
			return fmt.Errorf("%w: %s holds a backup: fastddl restore --from %s --path FOLDER makes a store of it", kv.ErrNotAStore, path, path)
		case RestoreFile:
			return fmt.Errorf("%w: %s is being restored, or a restore was interrupted: remove the folder and restore again", kv.ErrNotAStore, path)
		}
	}
	if len(foreign) > 0 {
		return fmt.Errorf("%w: %s is not empty (it holds %s) and has no %s file",
			kv.ErrNotAStore, path, foreign[0], markerFile)
	}
	return nil
}

// checkEngineFormat refuses the files of a later engine before anything of them is touched. Each engine takes files of
// earlier ones over to its own format when it opens them.
func checkEngineFormat(fsys vfs.FS, path string) error {
	value, err := atomicfs.ReadMarker(fsys, path, "format-version")
	if err != nil {
		return fmt.Errorf("pebblekv: reading %s: %w", path, err)
	}
	format, err := strconv.Atoi(value)
	if err != nil {
		return nil // there is none yet, or the engine says what it is
	}
	if newest := int(pebble.FormatNewest); format > newest {
		return laterFormat(path, "engine's format", format, newest)
	}
	return nil
}

// checkEngineFiles makes sure that a store that was once complete still has the
// files that say what is in it, and its newest log. Where the manifest's marker is
// missing, the engine would make a new, empty store.
func checkEngineFiles(fsys vfs.FS, path string, m marker, allowDamagedLog bool) error {
	if !m.ready {
		return nil
	}
	var missing []string
	for _, name := range []string{"manifest", "format-version"} {
		value, err := atomicfs.ReadMarker(fsys, path, name)
		if err != nil {
			return fmt.Errorf("pebblekv: reading %s: %w", path, err)
		}
		if value == "" {
			missing = append(missing, "marker."+name+".*")
		} else if name == "manifest" {
			if _, err := fsys.Stat(filepath.Join(path, value)); errors.Is(err, fs.ErrNotExist) {
				missing = append(missing, value)
			}
		}
	}
	names, err := fsys.List(path)
	if err != nil {
		return fmt.Errorf("pebblekv: reading %s: %w", path, err)
	}
	if name := missingLog(fsys, path, names); name != "" && !allowDamagedLog {
		if len(missing) == 0 {
			return fmt.Errorf("%w: %s lacks %s, the newest log; commits would be lost: restore it, or the folder from a backup; "+openWithout, kv.ErrDamaged, path, name)
		}
		missing = append(missing, name)
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s lacks %s; data would be lost: restore the files, or the folder from a backup",
			kv.ErrDamaged, path, strings.Join(missing, ", "))
	}
	return nil
}

func syncDir(fsys vfs.FS, path string) error {
	dir, err := fsys.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// isLockConflict recognises what the file systems report when the lock is held
// already: an error number if by another process, a text if by this one.
func isLockConflict(err error) bool {
	return errors.Is(err, syscall.EAGAIN) ||
		strings.Contains(err.Error(), "lock held by current process")
}
