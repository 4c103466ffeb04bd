package pebblekv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fileMode is for files: the rows of all tables are in them, those with the users'
// password hashes among them.
const fileMode = 0o600

// privateFS makes the files of the operating system's file system private,
// independently of the process's umask.
type privateFS struct{ vfs.FS }

func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return private(name, func() (vfs.File, error) { return p.FS.Create(name, category) })
}

func (p privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return private(name, func() (vfs.File, error) { return p.FS.OpenReadWrite(name, category, opts...) })
}

func (p privateFS) Lock(name string) (io.Closer, error) {
	return private(name, func() (io.Closer, error) { return p.FS.Lock(name) })
}

func (p privateFS) Unwrap() vfs.FS { return p.FS }

// private makes the file private that make makes. The moment in between does not
// matter: the folder is private already.
func private[T io.Closer](name string, make func() (T, error)) (T, error) {
	f, err := make()
	if err != nil {
		return f, err
	}
	if err := os.Chmod(name, fileMode); err != nil {
		var none T
		_ = f.Close()
		return none, err
	}
	return f, nil
}

// makePrivate makes a folder and all that is in it private, for stores that an
// earlier version has made and for files that were copied into them.
func makePrivate(dir string) error {
	// A folder may be reached by a link, which walking would not follow.
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("pebblekv: making %s private: %w", dir, err)
	}
	if err := filepath.WalkDir(root, privateFolder(root).visit); err != nil {
		return fmt.Errorf("pebblekv: making %s private: %w", dir, err)
	}
	return nil
}

// privateFolder is a store's folder that is being made private.
type privateFolder string

// visit makes a file or a folder in it private. Nothing has to be done for files that are gone meanwhile: servers may
// share the folder for temporary files. Files of another user are left alone, unless they are the store's: only the
// folder's owner may reach those.
func (p privateFolder) visit(path string, entry fs.DirEntry, err error) error {
	if err == nil {
		err = chmodPrivate(path, entry)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case !errors.Is(err, fs.ErrPermission) || p.own(path, entry):
		return err
	case entry.IsDir():
		return fs.SkipDir
	}
	return nil
}

// own says whether a path is that of a folder that the store has files in, or of a file there.
func (p privateFolder) own(path string, entry fs.DirEntry) bool {
	folder := path
	if entry != nil && !entry.IsDir() {
		folder = filepath.Dir(path)
	}
	inside, err := filepath.Rel(string(p), folder)
	return err == nil && (inside == "." || inside == importDir || inside == damagedLogs)
}

func chmodPrivate(path string, entry fs.DirEntry) error {
	mode := fs.FileMode(fileMode)
	switch {
	case entry.IsDir():
		mode = dirMode
	case !entry.Type().IsRegular():
		return nil
	}
	info, err := entry.Info()
	if err != nil || info.Mode().Perm() == mode {
		return err
	}
	return os.Chmod(path, mode)
}
