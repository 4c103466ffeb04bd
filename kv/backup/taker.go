package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// Source is a store that backups are taken of while it is used.
type Source interface {
	// Checkpoint is that of embedded.Store.
	Checkpoint(ctx context.Context) (*pebblekv.Checkpoint, uint64, error)
	// ID is the store's id.
	ID() string
	// Dir is the store's folder.
	Dir() string
}

// Request says what backup to take.
type Request struct {
	// Dir is the folder for the backup. It must be empty or not exist, and lie outside of the store's.
	Dir string
	// Destination is what the client calls the folder.
	Destination string
	// BytesPerSecond bounds the speed of copying to another file system; 0 is no limit.
	BytesPerSecond uint64
	// Client is the connection that has asked for it.
	Client uint64
}

// Result is a backup that was taken.
type Result struct {
	// Dir is the folder, TS the timestamp that the backup is as of, Bytes the size of its files.
	Dir   string
	TS    uint64
	Bytes int64
	// Queued is when it was requested, Begun when the backups before it had ended.
	Queued, Begun time.Time
	// Linked says that its tables are links to those of the store.
	Linked bool
}

// Taker takes the backups of one store, one at a time.
type Taker struct {
	source  Source
	version string
	log     *zap.Logger
	now     func() time.Time
	rename  func(from, to string) error // os.Rename, but in tests
	turn    chan struct{}
	tasks   tasks
}

// NewTaker returns a taker of backups of source by the given version of fastddl. A nil log drops what it says.
func NewTaker(source Source, version string, log *zap.Logger) *Taker {
	if log == nil {
		log = zap.NewNop()
	}
	return &Taker{source: source, version: version, log: log, now: time.Now, rename: os.Rename, turn: make(chan struct{}, 1)}
}

// Take takes a backup, when those before it have ended. If it fails, or ctx ends, nothing of it stays.
func (t *Taker) Take(ctx context.Context, req Request) (res Result, err error) {
	res = Result{Dir: req.Dir, Queued: t.now()}
	task := t.tasks.add(req, res.Queued)
	defer func() { task.end(t.now(), err) }()
	if res.Dir, err = t.checkDir(req.Dir); err != nil {
		return res, err
	}
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return res, ctx.Err()
	}
	res.Begun = t.now()
	task.begin(res.Begun)
	dir, err := takeFolder(res.Dir, "a backup")
	if err != nil {
		return res, err
	}
	if err := t.take(ctx, req, &res, task); err != nil {
		return res, errs.Combine(err, dir.discard())
	}
	t.log.Info("a backup was taken", zap.String("folder", res.Dir), zap.Uint64("timestamp", res.TS), zap.Int64("bytes", res.Bytes),
		zap.Bool("linked", res.Linked), zap.Duration("took", t.now().Sub(res.Begun)))
	return res, nil
}

// checkDir returns the folder of a backup without symbolic links. One in the store's folder would be lost with it.
func (t *Taker) checkDir(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("backup: %q is no absolute path", dir)
	}
	own, err := realPath(t.source.Dir())
	if err != nil {
		return "", fmt.Errorf("backup: %w", err)
	}
	dir, err = realPath(dir)
	if err != nil {
		return "", fmt.Errorf("backup: %w", err)
	}
	if within(dir, own) || within(own, dir) {
		return "", fmt.Errorf("backup: %s lies in the store's folder, or around it: the backup would be lost with the store", dir)
	}
	return dir, nil
}

// take takes a backup into the folder res.Dir, and completes res.
func (t *Taker) take(ctx context.Context, req Request, res *Result, task *task) (err error) {
	defer errs.Contain(&err) // what was made is removed all the same
	c, ts, err := t.source.Checkpoint(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err := c.Discard(); err != nil { // the next start of the store removes it
			t.log.Warn("a checkpoint stays in the store's folder, and no backup can be taken before the next start", zap.Error(err))
		}
	}()
	m := &Metadata{TS: ts, Begun: res.Begun, StoreID: t.source.ID(), StoreFormat: pebblekv.Format, Version: t.version}
	if m.Files, err = describe(ctx, c.Dir); err != nil {
		return fmt.Errorf("backup: reading a checkpoint: %w", err)
	}
	res.TS, res.Bytes = ts, m.Bytes()
	data := filepath.Join(res.Dir, dataFolder)
	switch err := t.rename(c.Dir, data); {
	case err == nil:
		if err := os.Chmod(data, dirMode); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
		res.Linked = linked(t.source.Dir(), data, m.Files)
	case errors.Is(err, syscall.EXDEV):
		task.copies(res.Bytes)
		if err := copyAll(ctx, c.Dir, data, m.Files, newPace(req.BytesPerSecond), task.copied); err != nil {
			return fmt.Errorf("backup: copying to %s: %w", data, roomIn(res.Dir, err))
		}
	default:
		return fmt.Errorf("backup: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.Ended = t.now()
	content, err := m.encode()
	if err == nil {
		err = syncDir(data)
	}
	if err == nil {
		err = writeFile(filepath.Join(res.Dir, pebblekv.BackupFile), content)
	}
	if err != nil {
		return fmt.Errorf("backup: writing the metadata in %s: %w", res.Dir, roomIn(res.Dir, err))
	}
	return nil
}

// describe lists the files of a checkpoint. Tables are not read.
func describe(ctx context.Context, dir string) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []File
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s is not a file", e.Name())
		}
		f := File{Name: e.Name(), Size: info.Size()}
		if !pebblekv.IsTable(f.Name) {
			crc, size, err := sumFile(ctx, filepath.Join(dir, f.Name), nil)
			if err != nil {
				return nil, err
			}
			f.CRC, f.Size = &crc, size
		}
		files = append(files, f)
	}
	return files, nil
}

// copyAll copies the files of a folder into a new one, and notes their checksums.
func copyAll(ctx context.Context, from, to string, files []File, p *pace, done progress) error {
	if err := os.Mkdir(to, dirMode); err != nil {
		return err
	}
	for i := range files {
		f := &files[i]
		crc, size, err := copyFile(ctx, filepath.Join(from, f.Name), filepath.Join(to, f.Name), p, done)
		if err != nil {
			return err
		}
		if size != f.Size || f.CRC != nil && *f.CRC != crc {
			return fmt.Errorf("%w: %s has changed while it was copied", kv.ErrDamaged, f.Name)
		}
		f.CRC = &crc
	}
	return nil
}

// linked says that tables of a backup are files of the store too.
func linked(store, data string, files []File) bool {
	for _, f := range files {
		if !pebblekv.IsTable(f.Name) {
			continue
		}
		mine, err := os.Stat(filepath.Join(store, f.Name))
		if err != nil {
			continue // compacted meanwhile
		}
		theirs, err := os.Stat(filepath.Join(data, f.Name))
		return err == nil && os.SameFile(mine, theirs)
	}
	return true // as far as is known
}

// roomIn names the folder whose file system is full.
func roomIn(dir string, err error) error {
	if errs.NoSpace(err) {
		return fmt.Errorf("no room is left in %s: %w", dir, err)
	}
	return err
}
