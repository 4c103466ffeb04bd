package pebblekv

import (
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fastddl/internal/errs"
)

const (
	// firstRetry is how long an engine's write waits before it is tried again on a
	// full disk. The wait doubles up to lastRetry, that for tables up to lastTableRetry.
	firstRetry     = 50 * time.Millisecond
	lastRetry      = time.Second
	lastTableRetry = 10 * time.Second
	// endedTableRetry replaces lastTableRetry when the store is being closed: Close
	// waits for the table to fail.
	endedTableRetry = stuckTimeout / 2
	// openRetries is the number of writes that may fail for lack of space before Open
	// gives up.
	openRetries = 4
)

// engineFS is the file system that the engine works on. It hides errors that the engine
// does not handle well: if the disk is full, or file descriptors are used up,
//
//   - a write to the log or the manifest is tried again, out of the reserve first, and
//     then until there is space. The engine would give up the log for good, or end the
//     process.
//   - a flush or a compaction fails, so that the engine removes what it has written so
//     far, and the next one begins after a pause. The engine would try again at once,
//     and so it would after any other error.
//
// While a log or manifest write waits, spaceMonitor.blocked is not 0, and no write is
// admitted.
type engineFS struct {
	vfs.FS
	space *spaceMonitor
	log   *zap.Logger
	// relaxed leaves out the syncing of the log.
	relaxed bool

	// logs are the logs that are being written, by name.
	logs sync.Map
	// checkpoints is the folder of checkpoints.
	checkpoints string

	ending chan struct{} // closed by end
	once   sync.Once
	// stuck is closed when, after end, something waits for space that the engine cannot be refused.
	stuck     chan struct{}
	stuckOnce sync.Once

	// opening is true until the engine is open. Until then check examines the files
	// that it reads.
	opening atomic.Bool
	check   *logCheck
	// noRoomToOpen is closed when the engine cannot be opened for lack of space.
	noRoomToOpen chan struct{}

	mu           sync.Mutex
	failures     map[vfs.DiskWriteCategory]int // in a row, of tables by category
	openFailures int                           // failures while opening
}

func newEngineFS(fsys vfs.FS, space *spaceMonitor, check *logCheck, o Options) *engineFS {
	return &engineFS{
		FS: fsys, space: space, check: check, log: o.Logger, relaxed: o.DisableSync,
		ending: make(chan struct{}), stuck: make(chan struct{}), noRoomToOpen: make(chan struct{}),
		failures: make(map[vfs.DiskWriteCategory]int),
	}
}

// end lets everything that waits for space fail, now and from now on, but for what ends the process if it fails: the
// manifest and the log, of which the engine closes the old one before it begins the next. Those go on waiting, as do
// writes that find no room in memory before a table is written.
func (e *engineFS) end() { e.once.Do(func() { close(e.ending) }) }

// markStuck reports to Close that the engine may wait for space for ever.
func (e *engineFS) markStuck() { e.stuckOnce.Do(func() { close(e.stuck) }) }

// exhausted says whether err is about a resource that may become free again by itself.
func exhausted(err error) bool { return errs.NoSpace(err) || noFiles(err) }

func noFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Categories of the engine's files. Those of no category are markers and options.
const (
	categoryLog       vfs.DiskWriteCategory = "pebble-wal"
	categoryManifest  vfs.DiskWriteCategory = "pebble-manifest"
	categoryFlush     vfs.DiskWriteCategory = "pebble-memtable-flush"
	categoryCompacted vfs.DiskWriteCategory = "pebble-compaction"
	categoryBlob      vfs.DiskWriteCategory = "pebble-blob-file-rewrite"
)

func isTable(category vfs.DiskWriteCategory) bool {
	return category == categoryFlush || category == categoryCompacted || category == categoryBlob
}

func (e *engineFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return e.create(name, category, func() (vfs.File, error) { return e.FS.Create(name, category) })
}

func (e *engineFS) ReuseForWrite(oldName, newName string, category vfs.DiskWriteCategory) (vfs.File, error) {
	renamed := false
	return e.create(newName, category, func() (vfs.File, error) {
		if renamed {
			// The first try has renamed the file, and failed to open it.
			return e.FS.OpenReadWrite(newName, category)
		}
		f, err := e.FS.ReuseForWrite(oldName, newName, category)
		if err != nil {
			_, statErr := e.FS.Stat(oldName)
			renamed = statErr != nil
		}
		return f, err
	})
}

func (e *engineFS) create(name string, category vfs.DiskWriteCategory, create func() (vfs.File, error)) (vfs.File, error) {
	if e.inCheckpoint(name) {
		return create()
	}
	if isTable(category) {
		e.pauseTable(category)
	}
	var f vfs.File
	err := e.withRoom(name, category, func() (err error) {
		f, err = create()
		return err
	})
	if err != nil {
		e.failed(category, err)
		return nil, err
	}
	file := &engineFile{File: f, fs: e, name: name, category: category}
	if category == categoryLog {
		e.logs.Store(name, file)
	}
	return file, nil
}

func (e *engineFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if e.opening.Load() {
		return e.check.open(name, opts...)
	}
	if log, ok := e.logs.Load(name); ok {
		return e.openWritten(log.(*engineFile))
	}
	return e.FS.Open(name, opts...)
}

func (e *engineFS) Unwrap() vfs.FS { return e.FS }

// withRoom does op, and again as long as it fails for lack of space or file descriptors. Tables fail in the end.
func (e *engineFS) withRoom(name string, category vfs.DiskWriteCategory, op func() error) error {
	err := op()
	if errs.NoSpace(err) && e.space.giveUp() {
		err = op()
	}
	if !exhausted(err) || isTable(category) {
		return err
	}
	return e.retryUntilRoom(name, err, category == categoryLog || category == categoryManifest, op)
}

// retryUntilRoom does op until it does not fail like that any more, or, unless it is vital, the store is closed.
func (e *engineFS) retryUntilRoom(name string, err error, vital bool, op func() error) error {
	e.space.lacks(err) // before blocked makes readers ask for it
	e.space.blocked.Add(1)
	defer e.space.blocked.Add(-1)
	began := time.Now()
	message := "the disk is full: the store waits for space"
	if noFiles(err) {
		message = "the store waits for file descriptors"
	}
	e.log.Error(message, zap.String("file", name), zap.Error(err))
	for wait := firstRetry; exhausted(err); wait = min(2*wait, lastRetry) {
		e.space.lacks(err)
		e.countOpenFailure()
		if !e.sleep(wait) {
			if !vital {
				return err
			}
			e.markStuck()
			time.Sleep(wait)
		}
		err = op()
	}
	e.log.Info("the store has stopped waiting", zap.String("file", name),
		zap.Duration("waited", time.Since(began)), zap.Error(err))
	return err
}

// pauseTable pauses before a table is begun if the ones before it have failed, until more
// room is free. The engine tries again also while the store is being closed.
func (e *engineFS) pauseTable(category vfs.DiskWriteCategory) {
	e.mu.Lock()
	n := e.failures[category]
	e.mu.Unlock()
	if n == 0 {
		return
	}
	pause := firstRetry << min(n, 16)
	if !e.sleep(min(pause, lastTableRetry)) {
		time.Sleep(min(pause, endedTableRetry))
	}
}

// sleep waits until d has passed or more room is free. It says whether to go on.
func (e *engineFS) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-e.space.improves():
	case <-e.ending:
		return false
	}
	return true
}

// failed counts a table that could not be written.
func (e *engineFS) failed(category vfs.DiskWriteCategory, err error) {
	if !isTable(category) {
		return
	}
	e.mu.Lock()
	e.failures[category]++
	e.mu.Unlock()
	if !exhausted(err) {
		return
	}
	e.space.lacks(err)
	e.countOpenFailure()
	select {
	case <-e.ending:
		e.markStuck() // Close may wait for the table
	default:
	}
}

// finished notes that a table was written.
func (e *engineFS) finished(category vfs.DiskWriteCategory) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.failures, category)
}

// countOpenFailure counts a failure while the store is being opened.
func (e *engineFS) countOpenFailure() {
	if !e.opening.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.openFailures++; e.openFailures == openRetries {
		close(e.noRoomToOpen)
	}
}

// engineFile is a file that the engine writes.
type engineFile struct {
	vfs.File
	fs       *engineFS
	name     string
	category vfs.DiskWriteCategory
	failed   bool // something could not be written

	// Of a log: how much was written, and preallocated, and what the engine has asked for.
	offset            atomic.Int64
	allocated, wanted int64
}

// noted counts the file as failed if err says so, and returns err.
func (f *engineFile) noted(err error) error {
	if err != nil && !f.failed {
		f.failed = true
		f.fs.failed(f.category, err)
	}
	return err
}

// Write goes on after the bytes that a write has managed before the disk was full.
func (f *engineFile) Write(p []byte) (int, error) {
	f.preallocate(int64(len(p)))
	done, err := f.File.Write(p)
	defer func() { f.offset.Add(int64(done)) }()
	f.fs.space.wrote(done)
	if exhausted(err) {
		err = f.fs.withRoom(f.name, f.category, func() error {
			n, err := f.File.Write(p[done:])
			done += n
			f.fs.space.wrote(n)
			return err
		})
	}
	return done, f.noted(err)
}

// Sync is not repeated when it fails: what was not synced may be gone then.
func (f *engineFile) Sync() error {
	if f.fs.relaxed && f.category == categoryLog {
		return nil
	}
	return f.noted(f.File.Sync())
}

func (f *engineFile) SyncData() error {
	if f.fs.relaxed && f.category == categoryLog {
		return nil
	}
	return f.noted(f.File.SyncData())
}

func (f *engineFile) Close() error {
	if f.category == categoryLog {
		f.fs.logs.CompareAndDelete(f.name, f)
	}
	if err := f.noted(f.File.Close()); err != nil {
		return err
	}
	if !f.failed && isTable(f.category) {
		f.fs.finished(f.category)
	}
	return nil
}
