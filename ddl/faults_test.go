package ddl

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/check"
	"fastddl/config"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
	"fastddl/table"
)

// diskEnv is a node with the real backfill on a real disk, whose writes a test
// can fail or hold up, and a table t that is too big to be sorted in memory.
type diskEnv struct {
	*env
	dbDir  string
	faulty *faultyDisk
	// before, if set, is called before each import.
	before func()
	// onEvent, if set, gets every event.
	onEvent func(event.Event)
	// gcInterval is that of the store, whose life time is next to nothing; 0 is no
	// garbage collection. It is used when the store is opened.
	gcInterval time.Duration
}

// faultyDisk fails or delays writes to files.
type faultyDisk struct {
	mu    sync.Mutex
	write func(path string) error
}

// set makes every write to a file ask write first; nil is a disk in order.
func (d *faultyDisk) set(write func(path string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write = write
}

func (d *faultyDisk) ask(path string) error {
	d.mu.Lock()
	write := d.write
	d.mu.Unlock()
	if write == nil {
		return nil
	}
	return write(path)
}

func (d *faultyDisk) createRun(path string) (ingest.RunFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &faultyRun{f, d}, nil
}

type faultyRun struct {
	*os.File
	disk *faultyDisk
}

func (f *faultyRun) Write(b []byte) (int, error) {
	if err := f.disk.ask(f.Name()); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

// importHook is a store whose imports a test can step before.
type importHook struct {
	kv.Store
	e *diskEnv
}

func (s *importHook) Import(ctx context.Context, units []kv.ImportUnit) error {
	if s.e.before != nil {
		s.e.before()
	}
	return s.Store.Import(ctx, units)
}

const diskRows = 12_000

func newDiskEnv(t *testing.T, tempDir string) *diskEnv {
	t.Helper()
	e := &diskEnv{faulty: &faultyDisk{}, dbDir: filepath.Join(t.TempDir(), "db")}
	e.env = &env{t: t, tempDir: tempDir}
	e.openStore()
	e.startNode()
	e.must("create table t (id bigint primary key, k int, c varchar(255))", "create table u (id bigint primary key, k int, c varchar(255))")
	text := rand.NewChaCha8([32]byte{})
	for from := 0; from < diskRows; from += 4000 {
		rows := make([][]any, 4000)
		for i := range rows {
			var c [100]byte // that does not compress
			_, _ = text.Read(c[:])
			rows[i] = []any{int64(from + i), int64(i % 7), fmt.Sprintf("%x", c)}
		}
		e.insert("t", rows...)
	}
	e.insert("u", []any{int64(1), int64(1), "x"})
	return e
}

// openStore opens the store, on files that may fail.
func (e *diskEnv) openStore() {
	gcInterval := e.gcInterval
	fsys := errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpFileWrite, errorfs.OpCreate:
			return e.faulty.ask(op.Path)
		case errorfs.OpLink: // its path is the old one
			return e.faulty.ask(filepath.Join(e.dbDir, filepath.Base(op.Path)))
		}
		return nil
	}))
	store, err := pebblekv.Open(e.dbDir, pebblekv.Options{
		FS: noMkdir{fsys}, CacheBytes: 8 << 20,
		GCLifeTime:    func() time.Duration { return time.Millisecond },
		GCRunInterval: func() time.Duration { return gcInterval },
	})
	require.NoError(e.t, err)
	e.store = &importHook{store, e}
	e.t.Cleanup(func() { _ = store.Close() })
}

// noMkdir leaves it to the build to make its folder, as on a server.
type noMkdir struct{ vfs.FS }

func (f noMkdir) MkdirAll(dir string, perm os.FileMode) error {
	if strings.Contains(dir, "job-") {
		return nil
	}
	return f.FS.MkdirAll(dir, perm)
}

func (e *diskEnv) startNode() {
	e.t.Helper()
	e.start(func(o *Options) {
		o.Bus.Subscribe(func(ev event.Event) {
			if e.onEvent != nil {
				e.onEvent(ev)
			}
		})
		o.Backfiller = NewBackfiller(backfill.Options{
			Store: e.store, Globals: e.globals, Bus: e.bus, CreateRun: e.faulty.createRun,
			BatchRows: 256, TaskBytes: 1 << 20,
		})
	})
	_, _, err := e.globals.Set(config.MemoryQuota, "1") // the least there is, so that workers spill
	require.NoError(e.t, err)
}

// requireBuilt checks that index c is there, equals the rows, and that nothing of
// its build is left.
func (e *diskEnv) requireBuilt() {
	e.t.Helper()
	require.Equal(e.t, model.StatePublic, e.index("t", "c").State)
	ts, err := e.store.CurrentTS(context.Background())
	require.NoError(e.t, err)
	require.NoError(e.t, check.Table(context.Background(), e.store, e.table("t"), ts, check.Options{Workers: 1}))
	e.requireNoTrace()
}

// reopen restarts everything on the same folders.
func (e *diskEnv) reopen() {
	e.t.Helper()
	require.NoError(e.t, e.ddl.Close())
	require.NoError(e.t, e.store.Close())
	e.openStore()
	e.startNode()
}

// live inserts a row into t and reads it: what the foreground does.
func (e *diskEnv) live(id int64) {
	e.t.Helper()
	n := e.entries(e.rows())
	e.insert("t", []any{id, int64(0), "live"})
	require.Equal(e.t, n+1, e.entries(e.rows()))
}

func (e *diskEnv) rows() kv.KeyRange { return table.Of(e.table("t")).RecordRange() }

// fullIn returns a disk that is full for the files of one stage of a build.
func (e *diskEnv) fullIn(stage string) func(path string) error {
	full := map[string]func(path string) bool{
		"runs":   func(path string) bool { return strings.HasSuffix(path, ".run") },
		"files":  func(path string) bool { return strings.HasPrefix(path, e.tempDir) && strings.HasSuffix(path, ".sst") },
		"import": func(path string) bool { return strings.HasPrefix(path, e.dbDir) && strings.HasSuffix(path, ".sst") },
	}[stage]
	return func(path string) error {
		if full(path) {
			return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
		}
		return nil
	}
}

var diskStages = []string{"runs", "files", "import"}

// TestDiskFullForAWhile: while the disk is full in one stage of a build, the job
// tries again and the foreground goes on; when there is space the job does too.
func TestDiskFullForAWhile(t *testing.T) {
	for _, stage := range diskStages {
		t.Run(stage, func(t *testing.T) {
			e := newDiskEnv(t, t.TempDir())
			retries := make(chan error, 100)
			e.onEvent = func(ev event.Event) {
				if r, ok := ev.(event.Retry); ok {
					select {
					case retries <- r.Err:
					default:
					}
				}
			}
			e.faulty.set(e.fullIn(stage))
			done := e.async(context.Background(), "alter table t add index c (c)")
			for i := range 3 {
				select {
				case err := <-retries:
					require.ErrorIs(t, err, syscall.ENOSPC)
				case err := <-done:
					require.FailNow(t, "the job has ended", "%v", err)
				}
				e.live(int64(1_000_000 + i))
			}
			e.faulty.set(nil)
			require.NoError(t, <-done)
			e.requireBuilt()
		})
	}
}

// TestDiskStaysFull: after tidb_ddl_error_count_limit the job fails, says why,
// and leaves nothing.
func TestDiskStaysFull(t *testing.T) {
	for _, stage := range diskStages {
		t.Run(stage, func(t *testing.T) {
			e := newDiskEnv(t, t.TempDir())
			_, _, err := e.globals.Set(config.ErrorCountLimit, "1")
			require.NoError(t, err)
			e.faulty.set(e.fullIn(stage))
			err = e.exec("alter table t add index c (c)")
			require.ErrorContains(t, err, "no space left on device")
			require.Nil(t, e.index("t", "c"))
			require.Zero(t, e.entries(table.IndexRange(e.table("t").Info.ID, e.table("t").Info.MaxIndexID)))
			e.requireNoTrace()
			require.Equal(t, "rollback done", e.jobs()[0].State)
			e.live(1_000_000)
			e.faulty.set(nil)
			e.must("alter table t add index c (c)")
			e.requireBuilt()
		})
	}
}

// TestStoreDiskFull: when the store's own log cannot be written, reads go on,
// writes fail instead of hanging, and the job goes on after a restart.
func TestStoreDiskFull(t *testing.T) {
	e := newDiskEnv(t, t.TempDir())
	var once sync.Once
	e.before = func() {
		once.Do(func() {
			e.faulty.set(func(path string) error {
				if strings.HasPrefix(path, e.dbDir) && !strings.Contains(path, "MANIFEST") {
					return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
				}
				return nil
			})
		})
	}
	failed := make(chan struct{})
	e.onEvent = func(ev event.Event) {
		if _, ok := ev.(event.Retry); ok {
			select {
			case failed <- struct{}{}:
			default:
			}
		}
	}
	done := e.async(context.Background(), "alter table t add index c (c)")
	<-failed
	require.Equal(t, diskRows, e.entries(e.rows()), "reads go on")
	commit, _ := e.write("t", func(txn kv.Txn, tbl *table.Table) {
		_, err := tbl.AddRecord(context.Background(), txn, datums(int64(1_000_000), int64(0), "lost"), table.AddOptions{})
		require.NoError(t, err)
	})
	require.ErrorIs(t, commit(), syscall.ENOSPC)
	require.NoError(t, e.ddl.Close())
	require.ErrorIs(t, <-done, ErrClosed)
	_ = e.store.Close() // it has failed
	e.faulty.set(nil)
	e.onEvent = nil
	e.openStore()
	e.startNode()
	waitFor(t, "the job ends", func() bool { return e.jobs()[0].State == "synced" })
	e.requireBuilt()
	e.live(1_000_001)
}

// TestTempFolderVanishes removes the temp folder in each stage of a build: the
// job recovers by itself.
func TestTempFolderVanishes(t *testing.T) {
	for _, stage := range []string{"runs", "scan", "merge", "files", "import", "verify"} {
		t.Run(stage, func(t *testing.T) {
			e := newDiskEnv(t, t.TempDir())
			var once sync.Once
			vanish := func() { once.Do(func() { require.NoError(t, os.RemoveAll(e.tempDir)) }) }
			switch stage {
			case "import":
				e.before = vanish
			case "runs", "files":
				suffix := map[string]string{"runs": ".run", "files": ".sst"}[stage]
				var writes atomic.Int64
				e.faulty.set(func(path string) error {
					if strings.HasPrefix(path, e.tempDir) && strings.HasSuffix(path, suffix) && writes.Add(1) == 3 {
						vanish()
					}
					return nil
				})
			default:
				e.onEvent = func(ev event.Event) {
					if s, ok := ev.(event.StageChanged); ok && s.Stage == stage {
						vanish()
					}
				}
			}
			done := e.async(context.Background(), "alter table t add index c (c)")
			select {
			case err := <-done:
				require.NoError(t, err)
			case <-time.After(30 * time.Second):
				require.FailNow(t, "the job does not recover")
			}
			e.faulty.set(nil)
			require.NoError(t, os.MkdirAll(e.tempDir, 0o700))
			e.requireBuilt()
			require.Less(t, e.jobs()[0].ErrorCount, int64(3))
		})
	}
}

// TestTempFolderStalls holds up writes to the temp folder: other jobs and the
// foreground do not notice, the job survives, or is cancelled as soon as the
// write returns.
func TestTempFolderStalls(t *testing.T) {
	for _, stage := range []string{"runs", "files"} {
		for _, cancel := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/cancel=%v", stage, cancel), func(t *testing.T) {
				e := newDiskEnv(t, t.TempDir())
				stalled, goOn := make(chan struct{}), make(chan struct{})
				var once sync.Once
				inStage := e.fullIn(stage)
				e.faulty.set(func(path string) error {
					if inStage(path) != nil {
						once.Do(func() { close(stalled) })
						<-goOn
					}
					return nil
				})
				done := e.async(context.Background(), "alter table t add index c (c)")
				<-stalled
				e.live(1_000_000)
				var id int64
				for _, j := range e.jobs() {
					if j.Table == "t" && j.State == "running" {
						id = j.ID
					}
				}
				if cancel {
					start := time.Now()
					require.NoError(t, e.ddl.Cancel(context.Background(), []int64{id})[0])
					require.Less(t, time.Since(start), time.Second)
				}
				e.must("alter table u add column d int", "create table v (a int primary key)")
				time.Sleep(300 * time.Millisecond)
				close(goOn)
				if !cancel {
					require.NoError(t, <-done)
					e.requireBuilt()
					return
				}
				start := time.Now()
				e.requireCode(<-done, 8214, "Cancelled DDL job")
				require.Less(t, time.Since(start), 2*time.Second)
				require.Nil(t, e.index("t", "c"))
				e.requireNoTrace()
			})
		}
	}
}

// TestTempFolderOnAnotherFileSystem: files that cannot be linked into the store
// are copied.
func TestTempFolderOnAnotherFileSystem(t *testing.T) {
	const memory = "/dev/shm"
	dir, err := os.MkdirTemp(memory, "fastddl-test-")
	if err != nil {
		t.Skipf("there is no file system in memory to compare with: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	probe := filepath.Join(dir, "probe")
	require.NoError(t, os.WriteFile(probe, nil, 0o600))
	if err := os.Link(probe, filepath.Join(t.TempDir(), "probe")); !errors.Is(err, syscall.EXDEV) {
		t.Skipf("the test's folder and %s are one file system (%v)", memory, err)
	}
	require.NoError(t, os.Remove(probe))
	e := newDiskEnv(t, dir)
	e.must("alter table t add index c (c)")
	e.requireBuilt()
	require.Empty(t, dirEntries(t, filepath.Join(e.dbDir, "imports")))
}
