package backup

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/time/rate"

	"fastddl/internal/errs"
)

const (
	dirMode  = 0o700
	fileMode = 0o600
	// copyChunk is how much is copied between two looks at the context and the bound on speed.
	copyChunk = 1 << 20
)

// pace bounds the speed of copying; nil does not.
type pace = rate.Limiter

// newPace returns a bound of bytesPerSecond; 0 is none.
func newPace(bytesPerSecond uint64) *pace {
	if bytesPerSecond == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytesPerSecond), copyChunk)
}

// progress adds up the bytes that were read; it may be nil.
type progress func(bytes int64)

func (p progress) add(n int64) {
	if p != nil {
		p(n)
	}
}

// pump reads r to its end into w and returns its CRC and its size.
func pump(ctx context.Context, w io.Writer, r io.Reader, p *pace, done progress) (crc uint32, size int64, err error) {
	buf := make([]byte, copyChunk)
	for {
		if err := ctx.Err(); err != nil {
			return 0, size, err
		}
		n, err := r.Read(buf)
		if n > 0 {
			if p != nil {
				if err := p.WaitN(ctx, n); err != nil {
					return 0, size, err
				}
			}
			if _, err := w.Write(buf[:n]); err != nil {
				return 0, size, err
			}
			crc = crc32.Update(crc, castagnoli, buf[:n])
			size += int64(n)
			done.add(int64(n))
		}
		if errors.Is(err, io.EOF) {
			return crc, size, nil
		}
		if err != nil {
			return 0, size, err
		}
	}
}

// sumFile reads a file to its end.
func sumFile(ctx context.Context, path string, done progress) (crc uint32, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errs.Combine(err, f.Close()) }()
	return pump(ctx, io.Discard, f, nil, done)
}

// copyFile copies a file to one that does not exist, durably but for its entry in the folder.
func copyFile(ctx context.Context, from, to string, p *pace, done progress) (crc uint32, size int64, err error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errs.Combine(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return 0, 0, err
	}
	if crc, size, err = pump(ctx, out, in, p, done); err == nil {
		err = out.Sync()
	}
	return crc, size, errs.Combine(err, out.Close())
}

// writeFile makes a file as a whole or not at all, durably.
func writeFile(path string, content []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errs.Combine(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errs.Combine(err, removeIfExists(tmp))
	}
	return syncDir(filepath.Dir(path))
}

func removeIfExists(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errs.Combine(dir.Sync(), dir.Close())
}

// folder is a folder that was made, or was there and empty.
type folder struct {
	path string
	// top is the uppermost folder that was made for it, "" if it was there.
	top string
}

// takeFolder makes a folder and what is missing above it, durably. One that is there must be empty. what names what it
// is for.
func takeFolder(path, what string) (folder, error) {
	entries, err := os.ReadDir(path)
	switch {
	case err == nil:
		for _, e := range entries {
			if e.Name() != lostAndFound || !e.IsDir() {
				return folder{}, fmt.Errorf("backup: %s is not empty, it holds %s: %s needs an empty folder, or a new one", path, e.Name(), what)
			}
		}
		return folder{path: path}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return folder{}, fmt.Errorf("backup: %w", err)
	}
	made := folder{path: path, top: path}
	for parent := filepath.Dir(path); ; parent = filepath.Dir(parent) {
		if _, err := os.Stat(parent); err == nil || parent == filepath.Dir(parent) {
			break
		}
		made.top = parent
	}
	if err := os.MkdirAll(path, dirMode); err != nil {
		return folder{}, errs.Combine(fmt.Errorf("backup: %w", err), made.discard())
	}
	return made, made.sync()
}

// sync makes the folder's entry durable, and those of the folders that were made for it.
func (f folder) sync() error {
	if f.top == "" {
		return nil
	}
	for path := f.path; ; path = filepath.Dir(path) {
		if err := syncDir(filepath.Dir(path)); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
		if path == f.top {
			return nil
		}
	}
}

// discard removes what is in the folder, and the folder if it was made, with those above it that were made for it and hold
// nothing else.
func (f folder) discard() error {
	if f.top != "" {
		err := os.RemoveAll(f.path)
		for at := f.path; err == nil && at != f.top; {
			at = filepath.Dir(at)
			if removeIfExists(at) != nil {
				break // another has put something there
			}
		}
		return err
	}
	entries, err := os.ReadDir(f.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != lostAndFound {
			err = errs.Combine(err, os.RemoveAll(filepath.Join(f.path, e.Name())))
		}
	}
	return err
}

// realPath is a path without symbolic links. What does not exist of it may be missing.
func realPath(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := absolute; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return "", err
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// within says that one path is another, or below it. Both are without symbolic links.
func within(path, parent string) bool {
	inside, err := filepath.Rel(parent, path)
	return err == nil && filepath.IsLocal(inside)
}
