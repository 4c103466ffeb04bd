package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
	"fastddl/kv/kvtest"
)

// crashWriter commits transactions that write one value to several keys of
// their own, and imports units, and notes what was acknowledged.
type crashWriter struct {
	id    int
	acked atomic.Int64 // transactions 0 to acked-1 are acknowledged
	tried atomic.Int64
}

const crashKeys = 5

func (w *crashWriter) key(n int64, i int) []byte { return fmt.Appendf(nil, "w%d/%06d/%d", w.id, n, i) }

// commit writes transaction n.
func (w *crashWriter) commit(ctx context.Context, s *Store, n int64) error {
	pairs := make(map[string]string)
	for i := range crashKeys {
		pairs[string(w.key(n, i))] = fmt.Sprint(n)
	}
	if n > 0 {
		// The keys of the one before are overwritten, with a deletion.
		pairs[string(w.key(n-1, 0))] = ""
	}
	_, err := commit(ctx, s, pairs)
	return err
}

// load imports what commit would write, as units.
func (w *crashWriter) load(ctx context.Context, s *Store, n int64) error {
	version, err := s.CurrentTS(ctx)
	if err != nil {
		return err
	}
	iw, err := s.NewImportWriter(ctx, kv.ImportOptions{Dir: "tmp", Version: version})
	if err != nil {
		return err
	}
	for i := range crashKeys {
		if err := iw.Add(w.key(n, i), fmt.Append(nil, n)); err != nil {
			return err
		}
	}
	u, err := iw.Finish(ctx)
	if err != nil {
		return err
	}
	return s.Import(ctx, []kv.ImportUnit{u})
}

// TestCrash takes copies of the file system as a crash would leave it, at
// random moments under load: all that was acknowledged is there, whole, and
// what was not is there whole or not at all.
func TestCrash(t *testing.T) {
	rnd := randtest.Rand(t)
	mem := kvtest.NewCrashableFS()
	s := open(t, "a/db", Options{FS: mem})
	// The clock is set back by the crash.
	s.timeline.now = func() time.Time { return time.Now().Add(time.Hour) }
	writers := make([]*crashWriter, 4)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var checking sync.RWMutex // writers pause while a copy is being checked
	for i := range writers {
		w := &crashWriter{id: i}
		writers[i] = w
		wg.Go(func() {
			for n := int64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				w.tried.Store(n + 1)
				write := w.commit
				if w.id == 0 {
					write = w.load
				}
				checking.RLock()
				err := write(context.Background(), s, n)
				checking.RUnlock()
				if err != nil {
					t.Error(err)
					return
				}
				w.acked.Store(n + 1)
				time.Sleep(200 * time.Microsecond) // few enough to be checked
			}
		})
	}
	for round := range 6 {
		time.Sleep(time.Duration(5+rnd.IntN(40)) * time.Millisecond)
		acked := make([]int64, len(writers))
		for i, w := range writers {
			acked[i] = w.acked.Load()
		}
		ts, err := s.CurrentTS(t.Context())
		require.NoError(t, err)
		clone := mem.CrashClone(vfs.CrashCloneCfg{
			UnsyncedDataPercent: 20 * round,
			RNG:                 rnd,
		})
		checking.Lock()
		after := open(t, "a/db", Options{FS: clone})
		next, err := after.CurrentTS(t.Context())
		require.NoError(t, err)
		require.Greater(t, next, ts, "a timestamp is handed out again")
		for i, w := range writers {
			checkCrashed(t, after, w, acked[i])
		}
		require.NoError(t, after.Close())
		checking.Unlock()
		if round == 3 {
			require.NoError(t, s.db.Flush())
		}
	}
	close(stop)
	wg.Wait()
}

func checkCrashed(t *testing.T, s *Store, w *crashWriter, acked int64) {
	t.Helper()
	snap := snapshotNow(t, s)
	defer func() { require.NoError(t, snap.Close()) }()
	exists := func(n int64, i int) bool {
		v, err := snap.Get(t.Context(), w.key(n, i))
		if errors.Is(err, kv.ErrNotExist) {
			return false
		}
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(n), string(v))
		return true
	}
	whole := map[int64]bool{}
	for n := range w.tried.Load() {
		first := exists(n, 1)
		for i := 2; i < crashKeys; i++ {
			require.Equal(t, first, exists(n, i), "half of transaction %d of writer %d", n, w.id)
		}
		if n < acked {
			require.True(t, first, "acknowledged transaction %d of writer %d is lost", n, w.id)
		}
		if first {
			whole[n] = true
		}
	}
	for n := range whole {
		overwritten := w.id != 0 && whole[n+1]
		require.Equal(t, !overwritten, exists(n, 0), "transaction %d of writer %d", n, w.id)
	}
}

// failingFS is a memory file system whose writes to some files fail once it is
// switched on.
func failingFS(match func(errorfs.Op) bool) (*errorfs.FS, *vfs.MemFS, *atomic.Bool) {
	mem := vfs.NewCrashableMem()
	var on atomic.Bool
	return errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && match(op) {
			return errorfs.ErrInjected
		}
		return nil
	})), mem, &on
}

func isLog(op errorfs.Op) bool {
	return op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose && len(op.Path) > 4 && op.Path[len(op.Path)-4:] == ".log"
}

// TestLogFails breaks the write-ahead log under load: every commit from then
// on fails, none waits for ever, reads of what was acknowledged go on, and
// reopening recovers.
func TestLogFails(t *testing.T) {
	fsys, mem, broken := failingFS(isLog)
	s := open(t, "db", Options{FS: fsys})
	acked := put(t, s, "a", "1", "b", "1")
	var failed [4]uint64 // the timestamps of commits whose result is undetermined
	written := []uint64{0}
	var wg sync.WaitGroup
	for w := range failed {
		wg.Go(func() {
			for n := int64(1); ; n++ {
				for w != 0 && n > 20 && !broken.Load() {
					time.Sleep(time.Millisecond) // they stay in the log's first block, however slow the first writer is
				}
				ts, err := commit(t.Context(), s, map[string]string{fmt.Sprintf("w%d", w): fmt.Sprint(n)})
				if err != nil {
					failed[w] = ts
					return
				}
				if w == 0 {
					written = append(written, ts)
					// Early, in the first block of the log: Pebble panics in a record that
					// crosses the end of a block after a write has failed.
					if n > 3 {
						broken.Store(true)
					}
				}
			}
		})
	}
	wg.Wait()

	// Other writers' commits below the last one may be undetermined: of a writer that was
	// preempted after it had its timestamp even below the first.
	written[0] = acked
	n := len(written) - 1
	for _, ts := range failed {
		for ts != 0 && written[n] >= ts {
			n--
		}
	}
	snap, err := s.Snapshot(t.Context(), written[n])
	require.NoError(t, err)
	v, err := snap.Get(t.Context(), []byte("w0"))
	require.NoError(t, snap.Close())
	if n == 0 {
		require.ErrorIs(t, err, kv.ErrNotExist)
	} else {
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(n), string(v), "what is read is not the last acknowledged value")
	}
	_, err = commit(t.Context(), s, map[string]string{"a": "2"})
	require.ErrorIs(t, err, errorfs.ErrInjected)
	require.ErrorIs(t, s.Healthy(), errorfs.ErrInjected)
	require.ErrorIs(t, s.DeleteRange(t.Context(), kv.KeyRange{}), errorfs.ErrInjected)
	require.Error(t, s.Import(t.Context(), []kv.ImportUnit{&importUnit{store: s, version: acked}}))
	snap, err = s.Snapshot(t.Context(), acked)
	require.NoError(t, err)
	_, err = snap.Get(t.Context(), []byte("a"))
	require.NoError(t, err)
	require.NoError(t, snap.Close())
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	_, err = s.Snapshot(t.Context(), ts)
	require.ErrorIs(t, err, kv.ErrResultUndetermined, "a commit below may or may not be there")

	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	broken.Store(false)
	_ = s.Close()
	after := open(t, "db", Options{FS: crashed})
	snap = snapshotNow(t, after)
	v, err = snap.Get(t.Context(), []byte("w0"))
	require.NoError(t, err)
	require.NoError(t, snap.Close())
	// The one commit whose result was undetermined may have succeeded.
	acks := len(written) - 1
	require.Contains(t, []string{fmt.Sprint(acks), fmt.Sprint(acks + 1)}, string(v))
	put(t, after, "a", "3")
}

// TestImportFails breaks the writing of an import file and its ingestion.
func TestImportFails(t *testing.T) {
	fsys, _, broken := failingFS(func(op errorfs.Op) bool {
		return op.Kind == errorfs.OpLink || op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpFileWrite && len(op.Path) > 3 && op.Path[:3] == "tmp"
	})
	s := open(t, "db", Options{FS: fsys})
	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	newWriter := func() (kv.ImportWriter, error) {
		return s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: "tmp", Version: version})
	}
	left := func() []string {
		names, err := fsys.List("tmp")
		require.NoError(t, err)
		return names
	}
	w, err := newWriter()
	require.NoError(t, err)
	require.NoError(t, w.Add([]byte("a"), []byte("1")))
	broken.Store(true)
	_, err = w.Finish(t.Context())
	require.ErrorIs(t, err, errorfs.ErrInjected)
	_, err = newWriter()
	require.ErrorIs(t, err, errorfs.ErrInjected)
	broken.Store(false)
	require.Empty(t, left())

	w, err = newWriter()
	require.NoError(t, err)
	require.NoError(t, w.Add([]byte("a"), []byte("1")))
	u, err := w.Finish(t.Context())
	require.NoError(t, err)
	broken.Store(true)
	require.ErrorIs(t, s.Import(t.Context(), []kv.ImportUnit{u}), errorfs.ErrInjected)
	broken.Store(false)
	require.Len(t, left(), 1)
	require.Empty(t, rawVersions(t, s))
	require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{u}), "again after a failure")
	require.Empty(t, left())
	require.Equal(t, []version2{{"a", "1"}}, values(t, s))
}

// TestImportFromAnotherFileSystem: a file that cannot be linked is copied; when
// the disk is full meanwhile, nothing of the copy stays.
func TestImportFromAnotherFileSystem(t *testing.T) {
	var full atomic.Bool
	mem := vfs.NewMem()
	fsys := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch {
		case op.Kind == errorfs.OpLink && strings.HasPrefix(op.Path, "tmp/"):
			return &os.LinkError{Op: "link", Old: op.Path, Err: syscall.EXDEV}
		case full.Load() && op.Kind == errorfs.OpFileWrite && strings.HasPrefix(op.Path, "db/"):
			return syscall.ENOSPC
		}
		return nil
	}))
	s := open(t, "db", Options{FS: fsys})
	unit := func(key string) kv.ImportUnit {
		version, err := s.CurrentTS(t.Context())
		require.NoError(t, err)
		w, err := s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: "tmp", Version: version})
		require.NoError(t, err)
		require.NoError(t, w.Add([]byte(key), []byte("1")))
		u, err := w.Finish(t.Context())
		require.NoError(t, err)
		return u
	}
	files := func(dir string) []string {
		names, err := mem.List(dir)
		require.NoError(t, err)
		slices.Sort(names)
		return names
	}
	u := unit("a")
	before := files("db")
	full.Store(true)
	err := s.Import(t.Context(), []kv.ImportUnit{u})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, err, kv.ErrDiskFull, "builds wait for room")
	require.Equal(t, before, files("db"))
	require.Empty(t, files("db/"+importDir))
	require.Len(t, files("tmp"), 1)

	full.Store(false)
	require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{u}))
	require.Equal(t, []version2{{"a", "1"}}, values(t, s))
	require.Empty(t, files("tmp"))
	require.Empty(t, files("db/"+importDir))

	// What a crash leaves goes when the store is opened.
	require.NoError(t, vfs.Copy(mem, "db/"+markerFile, "db/"+importDir+"/import-1-1.sst"))
	require.NoError(t, s.Close())
	s = open(t, "db", s.opts)
	require.Empty(t, files("db/"+importDir))
	require.Equal(t, []version2{{"a", "1"}}, values(t, s))
}

// version2 is a version without its timestamp.
type version2 struct{ key, value string }

func values(t *testing.T, s *Store) []version2 {
	var out []version2
	for _, v := range rawVersions(t, s) {
		out = append(out, version2{v.key, v.value})
	}
	return out
}

// TestReadFails lets reading files fail: no read takes the error for the end
// of the data, and the store lives on.
func TestReadFails(t *testing.T) {
	fsys, _, broken := failingFS(func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileReadAt })
	s := open(t, "db", Options{FS: fsys, GCLifeTime: func() time.Duration { return -time.Hour }})
	rnd := rand.New(rand.NewPCG(1, 1))
	var pairs []string
	for i := range 4000 {
		value := make([]byte, 100)
		for k := range value {
			value[k] = byte(rnd.Uint32())
		}
		pairs = append(pairs, fmt.Sprintf("%04d", i), string(value))
	}
	put(t, s, pairs...)
	ts := put(t, s, "2000", "x")
	require.NoError(t, s.db.Flush())
	require.NoError(t, s.Close())
	s = open(t, "db", s.opts)
	snap, err := s.Snapshot(t.Context(), ts)
	require.NoError(t, err)
	defer func() { require.NoError(t, snap.Close()) }()

	broken.Store(true)
	_, err = snap.Get(t.Context(), []byte("1500"))
	require.ErrorIs(t, err, errorfs.ErrInjected)
	require.ErrorIs(t, drain(snap.Iter(kv.KeyRange{})), errorfs.ErrInjected)
	require.ErrorIs(t, drain(snap.IterReverse(kv.KeyRange{})), errorfs.ErrInjected)
	require.ErrorIs(t, s.RunGC(t.Context()), errorfs.ErrInjected)
	broken.Store(false)

	v, err := snap.Get(t.Context(), []byte("2000"))
	require.NoError(t, err)
	require.Equal(t, "x", string(v))
	require.NoError(t, drain(snap.Iter(kv.KeyRange{})))
	put(t, s, "2000", "y")
	require.NoError(t, s.RunGC(t.Context()))
}

// drain iterates to the end or the first error.
func drain(it kv.Iterator, err error) error {
	if err != nil {
		return err
	}
	for it.Valid() && err == nil {
		err = it.Next()
	}
	return errors.Join(err, it.Close())
}
