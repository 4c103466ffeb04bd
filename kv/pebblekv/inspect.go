package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fastddl/internal/errs"
	"fastddl/kv"
)

// IsTable says by a file's name whether it is a table of the engine: its blocks have checksums, and it never changes, so that stores may
// share it by links. The other files of a checkpoint are small.
func IsTable(name string) bool { return strings.HasSuffix(name, ".sst") }

// CheckTable reads a table and compares all of its blocks with their checksums. Damage is a kv.ErrDamaged.
func CheckTable(ctx context.Context, path string) (err error) {
	defer errs.Contain(&err)
	f, err := vfs.Default.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(untilDone{f, ctx})
	if err != nil {
		return errs.Combine(err, f.Close())
	}
	eo := offlineOptions(vfs.Default, zap.NewNop())
	eo.EnsureDefaults()
	r, err := sstable.NewReader(ctx, readable, eo.MakeReaderOptions())
	if err != nil {
		return errs.Combine(damagedTable(path, err), readable.Close())
	}
	return errs.Combine(damagedTable(path, checkBlocks(ctx, r)), r.Close())
}

// damagedTable returns an error of reading a table with the table's name.
func damagedTable(path string, err error) error {
	if damage := (*unitDamage)(nil); pebble.IsCorruptionError(err) || errors.As(err, &damage) {
		return fmt.Errorf("%w: %s: %w", kv.ErrDamaged, path, err)
	}
	return err
}

// CheckCheckpoint opens the files of a checkpoint in the folder dir as Adopt would, without writing anything, and compares what it
// says of timestamps with at: the manifest and the logs can be read, and all tables that they name are there.
func CheckCheckpoint(dir string, at uint64) (err error) {
	defer errs.Contain(&err)
	fsys := readOnlyFS{vfs.Default}
	if err := errors.Join(checkEngineFormat(fsys, dir), checkEngineFiles(fsys, dir, marker{ready: true}, false)); err != nil {
		return err
	}
	eo := offlineOptions(fsys, zap.NewNop())
	eo.ReadOnly, eo.DisableAutomaticCompactions = true, true
	db, err := pebble.Open(dir, eo)
	if err != nil {
		return fmt.Errorf("%w: %w", kv.ErrDamaged, err)
	}
	return errs.Combine((&Store{db: db}).checkTimestamps(at), db.Close())
}

// readOnlyFS is a file system of which nothing is changed, not even by a lock: it may be on a medium that takes no writes.
type readOnlyFS struct{ vfs.FS }

func (readOnlyFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (readOnlyFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, fmt.Errorf("pebblekv: %s is not written: its folder is only read", name)
}
