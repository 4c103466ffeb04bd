package dirlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	lockFile = "LOCK"
	// subFolderPrefix begins the names of the folders that SubFolder makes.
	subFolderPrefix = "fastddl-"

	dirMode  = 0o700
	fileMode = 0o600
)

// InUseError says that another owner holds a folder.
type InUseError struct {
	Dir string
	// PID is the process that holds the lock, 0 if it could not be read.
	PID int
}

func (e *InUseError) Error() string {
	owner := "another process"
	if e.PID != 0 {
		owner = "process " + strconv.Itoa(e.PID)
	}
	return fmt.Sprintf("folder %s is in use by %s", e.Dir, owner)
}

// Lock is a folder that is this process's own until Release.
type Lock struct {
	dir  string
	file *os.File
}

// Acquire makes the folder dir if it is not there, and locks it. If it is locked
// already, by this process or another one, the error is an InUseError.
func Acquire(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("dirlock: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("dirlock: %w", err)
	}
	if err := lock(f); err != nil {
		if errors.Is(err, errHeld) {
			err = &InUseError{Dir: dir, PID: ownerOf(f)}
		} else {
			err = fmt.Errorf("dirlock: locking %s: %w", dir, err)
		}
		return nil, errors.Join(err, f.Close())
	}
	if err := writeOwner(f); err != nil {
		return nil, errors.Join(fmt.Errorf("dirlock: locking %s: %w", dir, err), f.Close())
	}
	return &Lock{dir: dir, file: f}, nil
}

// SubFolder locks the folder for one store's files in parent, which stores may
// share: id is the store's.
func SubFolder(parent, id string) (*Lock, error) {
	return Acquire(filepath.Join(parent, subFolderPrefix+id))
}

// Dir is the locked folder.
func (l *Lock) Dir() string { return l.dir }

// Release gives the folder back. The files in it stay.
func (l *Lock) Release() error {
	if err := l.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("dirlock: releasing %s: %w", l.dir, err)
	}
	return nil
}

// writeOwner writes the ID of this process into the lock's file, for processes that
// find it locked.
func writeOwner(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func ownerOf(f *os.File) int {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0) // at the end of the file there is an error always
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		return 0
	}
	return pid
}
