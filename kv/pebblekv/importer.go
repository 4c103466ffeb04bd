package pebblekv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fastddl/internal/errs"
	"fastddl/kv"
)

const (
	bottomLevel = 6
	// importDir is the folder in the store's for import files that come from
	// another file system.
	importDir = "imports"
)

var (
	errImportOrder     = errors.New("pebblekv: import keys must increase strictly")
	errImportEmpty     = errors.New("pebblekv: import unit holds no pairs")
	errImportVersion   = errors.New("pebblekv: import version must be a timestamp the store has handed out")
	errImportOverlap   = errors.New("pebblekv: import units overlap")
	errImportForeign   = errors.New("pebblekv: import unit belongs to another store")
	errImportDiscarded = errors.New("pebblekv: import unit was discarded")
	errWriterDone      = errors.New("pebblekv: import writer has ended")

	importSeq atomic.Uint64 // makes file names unique in the process
)

// importWriter writes one unit as an SST that Pebble can ingest.
type importWriter struct {
	store   *Store
	version uint64
	path    string
	sst     *sstable.Writer
	suffix  []byte
	key     []byte // the last engine key
	first   []byte // the first user key
	count   int
	done    bool
}

// NewImportWriter implements kv.Store.
func (s *Store) NewImportWriter(ctx context.Context, opts kv.ImportOptions) (kv.ImportWriter, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.exit()
	if opts.Version == 0 {
		return nil, errImportVersion
	}
	if s.opts.FS != nil {
		if err := s.fs.MkdirAll(opts.Dir, dirMode); err != nil {
			return nil, fmt.Errorf("pebblekv: creating import folder: %w", err)
		}
	}
	path := filepath.Join(opts.Dir, fmt.Sprintf("import-%d-%d.sst", opts.Version, importSeq.Add(1)))
	f, err := s.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("pebblekv: creating import file: %w", err)
	}
	return &importWriter{
		store:   s,
		version: opts.Version,
		path:    path,
		sst:     sstable.NewWriter(objstorageprovider.NewFileWritable(f), s.importFileOptions(opts)),
		suffix:  appendVersion(nil, nil, opts.Version),
	}, nil
}

// importFileOptions are those of the files that units are written to.
func (s *Store) importFileOptions(opts kv.ImportOptions) sstable.WriterOptions {
	sstOpts := s.engOpts.MakeWriterOptions(bottomLevel, s.db.TableFormat())
	if opts.RangeReadsOnly {
		sstOpts.FilterPolicy = nil
	}
	return sstOpts
}

func (w *importWriter) Add(key, value []byte) error {
	if w.done {
		return errWriterDone
	}
	if len(value) == 0 {
		return kv.ErrEmptyValue
	}
	if w.count == 0 {
		if err := checkUserKey(key); err != nil {
			return err
		}
		w.first = bytes.Clone(key)
	} else if c := bytes.Compare(key, w.lastKey()); c == 0 {
		return fmt.Errorf("%w: %w: %x", errImportOrder, kv.ErrSameKey, key)
	} else if c < 0 {
		return fmt.Errorf("%w: %x after %x", errImportOrder, key, w.lastKey())
	}
	w.key = append(append(w.key[:0], key...), w.suffix...)
	if err := w.sst.Set(w.key, value); err != nil {
		return fmt.Errorf("pebblekv: writing %s: %w", w.path, err)
	}
	w.count++
	return nil
}

func (w *importWriter) lastKey() []byte { return w.key[:len(w.key)-versionOverhead] }

func (w *importWriter) EstimatedSize() uint64 { return w.sst.Raw().EstimatedSize() }

func (w *importWriter) Finish(ctx context.Context) (kv.ImportUnit, error) {
	if w.done {
		return nil, errWriterDone
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if w.count == 0 {
		return nil, errors.Join(errImportEmpty, w.Abort())
	}
	if err := checkUserKey(w.lastKey()); err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	w.done = true
	// Close syncs the file; its entry in the folder need not survive, because
	// ingestion links it into the store's own folder.
	if err := w.sst.Close(); err != nil {
		return nil, errors.Join(fmt.Errorf("pebblekv: finishing %s: %w", w.path, err), removeIfExists(w.store.fs, w.path))
	}
	meta, err := w.sst.Metadata()
	if err != nil {
		return nil, errors.Join(err, removeIfExists(w.store.fs, w.path))
	}
	return &importUnit{
		store:   w.store,
		path:    w.path,
		version: w.version,
		keys:    kv.KeyRange{Start: w.first, End: kv.NextKey(w.lastKey())},
		size:    meta.Size,
		count:   w.count,
	}, nil
}

func (w *importWriter) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
	// What Close says about a file that is thrown away does not matter.
	_ = w.sst.Close()
	return removeIfExists(w.store.fs, w.path)
}

func removeIfExists(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pebblekv: removing %s: %w", path, err)
	}
	return nil
}

// importUnit implements kv.ImportUnit.
type importUnit struct {
	store   *Store
	path    string
	version uint64
	keys    kv.KeyRange
	size    uint64
	count   int
	// gone says that the file was consumed or discarded.
	consumed, discarded bool
}

func (u *importUnit) Range() kv.KeyRange { return u.keys }
func (u *importUnit) Size() uint64       { return u.size }
func (u *importUnit) Count() int         { return u.count }

func (u *importUnit) Discard() error {
	if u.consumed || u.discarded {
		return nil
	}
	if err := removeIfExists(u.store.fs, u.path); err != nil {
		return err
	}
	u.discarded = true
	return nil
}

// copyIntoStoreFS makes sure that the unit's file can be linked into the store: it
// copies a file on another file system into the store's folder. The engine would copy
// it too, but leave half of it behind when the disk is full.
func (u *importUnit) copyIntoStoreFS() error {
	target := filepath.Join(u.store.dir, importDir, filepath.Base(u.path))
	if u.path == target {
		return nil
	}
	fsys := u.store.fs
	err := fsys.Link(u.path, target)
	if err == nil {
		return removeIfExists(fsys, target)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pebblekv: importing %s: %w", u.path, err)
	}
	if err := vfs.Copy(fsys, u.path, target); err != nil {
		if errs.NoSpace(err) {
			space := u.store.space
			err = fmt.Errorf("%w: %w", &kv.DiskFullError{Free: space.estimate(), Needed: space.limits.full + u.size}, err)
		}
		return errors.Join(fmt.Errorf("pebblekv: copying %s into the store: %w", u.path, err), removeIfExists(fsys, target))
	}
	onOtherFS := u.path
	u.path = target
	return removeIfExists(fsys, onOtherFS)
}

// emptyImportDir makes the folder for copyIntoStoreFS, without what a crash left in it.
func (s *Store) emptyImportDir() error {
	dir := filepath.Join(s.dir, importDir)
	if err := s.fs.RemoveAll(dir); err != nil {
		return fmt.Errorf("pebblekv: emptying %s: %w", dir, err)
	}
	if err := s.fs.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("pebblekv: creating %s: %w", dir, err)
	}
	return nil
}

// Import implements kv.Store: all units are ingested in one step, after their files were checked. It fails with a
// *kv.DamagedUnitError if a file is not its unit's.
func (s *Store) Import(ctx context.Context, units []kv.ImportUnit) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.gate.exit()
	if err := s.admit(ordinaryWrite, 0); err != nil {
		return err
	}
	fresh, err := s.freshUnits(units)
	if err != nil || len(fresh) == 0 {
		return err
	}
	// Being a reader at the lowest version keeps garbage collection from
	// passing it: a tombstone that shadows one of the pairs stays.
	oldest := fresh[0].version
	for _, u := range fresh {
		if err := u.copyIntoStoreFS(); err != nil {
			return err
		}
		oldest = min(oldest, u.version)
	}
	if err := s.checkUnits(ctx, fresh); err != nil {
		return err
	}
	if err := s.timeline.readAt(ctx, oldest); err != nil {
		return fmt.Errorf("pebblekv: importing at %d: %w", oldest, err)
	}
	defer s.timeline.endRead(oldest)
	if err := s.lookBeside(ctx, fresh); err != nil {
		return fmt.Errorf("pebblekv: reading what lies beside an import: %w", err)
	}
	if err := s.ingest(ctx, fresh); err != nil {
		return err
	}
	for _, u := range fresh {
		u.consumed = true
	}
	return nil
}

// lookBeside reads what lies before and behind each unit. Where an import cuts a table in two the engine does the same, but
// takes a block that it cannot read for one that is not there, and lets go of the whole half. Damage that is met here keeps
// the engine from cutting tables (see health.met); after any other error nothing is imported. What is read here is in the
// cache when the engine reads it.
func (s *Store) lookBeside(ctx context.Context, units []*importUnit) error {
	it, err := s.db.NewIterWithContext(ctx, nil)
	if err != nil {
		return err
	}
	failed := func() bool {
		err = it.Error()
		return err != nil && !pebble.IsCorruptionError(err)
	}
	defer func() { _ = it.Close() }() // which repeats the last error
	for _, u := range units {
		// Up to the first entry that is met: who looks for one that shows may have to go far.
		first, last := u.engineSpan()
		if it.SeekLTWithLimit(first, first); failed() {
			return err
		}
		if it.SeekGEWithLimit(last, last); failed() {
			return err
		}
	}
	return nil
}

// freshUnits checks units and returns those that are not consumed yet, in key
// order.
func (s *Store) freshUnits(units []kv.ImportUnit) ([]*importUnit, error) {
	now, err := s.timeline.current()
	if err != nil {
		return nil, err
	}
	var fresh []*importUnit
	for _, unit := range units {
		u, ok := unit.(*importUnit)
		switch {
		case !ok || u.store != s:
			return nil, errImportForeign
		case u.discarded:
			return nil, errImportDiscarded
		case u.version >= now:
			return nil, fmt.Errorf("%w: %d", errImportVersion, u.version)
		case !u.consumed:
			fresh = append(fresh, u)
		}
	}
	slices.SortFunc(fresh, func(a, b *importUnit) int { return bytes.Compare(a.keys.Start, b.keys.Start) })
	for i := 1; i < len(fresh); i++ {
		if bytes.Compare(fresh[i].keys.Start, fresh[i-1].keys.End) < 0 {
			return nil, fmt.Errorf("%w: %s and %s", errImportOverlap, fresh[i-1].keys, fresh[i].keys)
		}
	}
	return fresh, nil
}
