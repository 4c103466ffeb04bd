package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/kv"
	"fastddl/kv/embedded"
	"fastddl/kv/pebblekv"
)

// Restored is a store that was made of a backup.
type Restored struct {
	// ID is the store's id, TS the timestamp that it is as of.
	ID string
	TS uint64
	// Bytes is the size of its files, of which Linked are those that are links to files of the backup.
	Bytes, Linked int64
	Took          time.Duration
}

// Restore makes a store in the folder to of the backup in the folder from. It links tables where it can and copies the rest, and
// leaves the backup as it is. If it fails, or ctx ends, nothing stays. A nil log drops what the engine says.
func Restore(ctx context.Context, from, to string, log *zap.Logger) (res Restored, err error) {
	begun := time.Now()
	m, err := Read(from)
	if err != nil {
		return res, err
	}
	if to, err = separate(from, to); err != nil {
		return res, err
	}
	dir, err := takeFolder(to, "a restored store")
	if err != nil {
		return res, err
	}
	res = Restored{TS: m.TS, Bytes: m.Bytes()}
	if err := restore(ctx, m, from, to, &res, log); err != nil {
		return res, errs.Combine(roomIn(to, err), dir.discard())
	}
	res.Took = time.Since(begun)
	return res, nil
}

// separate returns the folder of a store without symbolic links, if it lies apart from that of a backup.
func separate(backup, store string) (string, error) {
	a, err := realPath(backup)
	if err != nil {
		return "", fmt.Errorf("backup: %w", err)
	}
	b, err := realPath(store)
	if err != nil {
		return "", fmt.Errorf("backup: %w", err)
	}
	if within(a, b) || within(b, a) {
		return "", fmt.Errorf("backup: %s and %s lie in one another: a store that is restored lies apart from its backup", backup, store)
	}
	return b, nil
}

// restore makes the store of the backup with metadata m, and completes res.
func restore(ctx context.Context, m *Metadata, from, to string, res *Restored, log *zap.Logger) (err error) {
	defer errs.Contain(&err) // what was made is removed all the same
	unfinished := filepath.Join(to, pebblekv.RestoreFile)
	if err := writeFile(unfinished, fmt.Appendf(nil, "of %s\n", from)); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		isLink, err := place(ctx, f, filepath.Join(from, dataFolder), to)
		if err != nil {
			return fmt.Errorf("backup: restoring %s: %w", f.Name, err)
		}
		if isLink {
			res.Linked += f.Size
		}
	}
	if err := syncDir(to); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if res.ID, err = embedded.Adopt(to, m.TS, log); err != nil {
		return err
	}
	if err := os.Remove(unfinished); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return syncDir(to)
}

// place puts a file of a backup into a store: a table by a link, if the file system lets it, anything else by a copy.
func place(ctx context.Context, f File, from, to string) (isLink bool, err error) {
	source, target := filepath.Join(from, f.Name), filepath.Join(to, f.Name)
	info, err := os.Stat(source)
	if err != nil {
		return false, missing(err)
	}
	if info.Size() != f.Size {
		return false, otherSize(f, info.Size())
	}
	if pebblekv.IsTable(f.Name) && os.Link(source, target) == nil {
		return true, nil
	}
	crc, size, err := copyFile(ctx, source, target, nil, nil)
	if err != nil {
		return false, err
	}
	return false, f.compare(crc, size)
}

// compare compares a file that was read with what the metadata say of it.
func (f *File) compare(crc uint32, size int64) error {
	if size != f.Size {
		return otherSize(*f, size)
	}
	if f.CRC != nil && *f.CRC != crc {
		return fmt.Errorf("%w: file %s of the backup has changed: its checksum is %08x, not %08x", kv.ErrDamaged, f.Name, crc, *f.CRC)
	}
	return nil
}

func otherSize(f File, size int64) error {
	return fmt.Errorf("%w: file %s of the backup has %d bytes, not %d", kv.ErrDamaged, f.Name, size, f.Size)
}

// missing makes damage of the error of a file that is not there.
func missing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: the backup lacks a file: %w", kv.ErrDamaged, err)
	}
	return err
}
