package pebblekv

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fastddl/internal/errs"
	"fastddl/kv"
)

const (
	// fullDiskBytes is the size of the disk: writes are refused below 4 MiB, and 2 MiB
	// are in reserve.
	fullDiskBytes = 64 << 20
	// soon is long enough for anything on a busy machine.
	soon = 60 * time.Second
)

func openCapped(t *testing.T, fs *cappedFS, log *zap.Logger) *Store {
	t.Helper()
	return open(t, "db", cappedOptions(fs, log))
}

// openWhenLeft opens a store whose folder is in use until the engine of before, which waits for the disk, has ended.
func openWhenLeft(t *testing.T, fs *cappedFS) (s *Store) {
	t.Helper()
	require.Eventually(t, func() (opened bool) {
		var err error
		if s, err = Open("db", cappedOptions(fs, nil)); err != nil {
			require.ErrorIs(t, err, kv.ErrLocked)
			return false
		}
		return true
	}, soon, 10*time.Millisecond, "the store cannot be opened any more")
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func cappedOptions(fs *cappedFS, log *zap.Logger) Options {
	return Options{
		FS: fs, MemTableBytes: 512 << 10, Logger: log,
		GCLifeTime:    func() time.Duration { return -time.Hour },
		GCRunInterval: func() time.Duration { return 0 },
	}
}

// TestRefusalIsRemembered: clients whose writes are refused see a full disk, also where smaller writes still fit.
func TestRefusalIsRemembered(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s := openCapped(t, fs, nil)
	now := time.Now()
	m := &spaceMonitor{
		fs: fs, dir: s.dir, log: zap.NewNop(), now: func() time.Time { return now }, limits: s.space.limits, improved: make(chan struct{}),
	}
	watched := &Store{space: m, health: s.health}
	fs.fill(m.limits.full + m.limits.full/2)
	require.NoError(t, m.admit(ordinaryWrite, 1), "a small one fits")
	require.NoError(t, watched.Refused())
	require.ErrorIs(t, m.admit(ordinaryWrite, int(m.limits.full)), kv.ErrDiskFull)
	require.NoError(t, m.admit(ordinaryWrite, 1))
	require.ErrorIs(t, watched.Refused(), kv.ErrDiskFull)
	now = now.Add(refusalLasts - 1)
	require.ErrorIs(t, watched.Refused(), kv.ErrDiskFull)
	now = now.Add(1)
	require.NoError(t, watched.Refused(), "its writer has given up")

	require.ErrorIs(t, m.admit(ordinaryWrite, int(m.limits.full)), kv.ErrDiskFull)
	fs.clear()
	m.measure(0)
	require.NoError(t, watched.Refused(), "there is room again")
	require.ErrorIs(t, m.admit(ordinaryWrite, fullDiskBytes), kv.ErrDiskFull)
	require.NoError(t, watched.Refused(), "a write that no disk has room for says nothing of this one")
}

// TestFullDisk fills the disk with the store's own data: writes are refused before it is
// full, and everything but them goes on, until the space that deletions give back is
// enough.
func TestFullDisk(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s := openCapped(t, fs, nil)
	require.NoError(t, s.Healthy())
	require.Eventually(t, func() bool {
		free, reserve, state := s.Space()
		return free > 50<<20 && reserve == 2<<20 && state == kv.SpaceOK
	}, soon, time.Millisecond)

	var acked []string
	var refused error
	// Small writes still fit where a large one is refused.
	for i, size := 0, 16<<10; s.Healthy() == nil || refused == nil; i++ {
		require.Less(t, i, 20000, "the disk does not get full")
		key := fmt.Sprintf("k%06d", i)
		if refused = within(t, "writing", func() error { return writeKeys(t.Context(), s, size, key) }); refused == nil {
			acked = append(acked, key)
		} else {
			size = 1 << 10
		}
	}
	var full *kv.DiskFullError
	require.ErrorAs(t, refused, &full)
	require.ErrorIs(t, refused, kv.ErrDiskFull)
	require.Less(t, full.Free, full.Needed)
	require.ErrorContains(t, refused, "deletions go on")
	require.NotErrorIs(t, refused, kv.ErrResultUndetermined)
	require.ErrorIs(t, s.Healthy(), kv.ErrDiskFull)
	_, reserve, state := s.Space()
	require.Equal(t, kv.SpaceFull, state)
	require.NotZero(t, reserve, "the reserve is for when others fill the disk")
	require.ErrorIs(t, s.Import(t.Context(), nil), kv.ErrDiskFull)

	requireReadable(t, s, true, acked...)
	sets, deletes := writesOf(map[string]string{"k": "1"}), writesOf(map[string]string{"k": ""})
	require.ErrorIs(t, writeKeys(t.Context(), s, 100, "data"), kv.ErrDiskFull)
	require.ErrorIs(t, s.Admit(sets, 2), kv.ErrDiskFull)
	// A compaction that has both its input and its output may take the last of the space,
	// until it fails: nothing at all goes on for that moment.
	goesOn := func(what string, fn func() error) {
		t.Helper()
		require.Eventually(t, func() bool {
			err := within(t, what, fn)
			if !errors.Is(err, kv.ErrDiskFull) {
				require.NoError(t, err)
			}
			return err == nil
		}, soon, 10*time.Millisecond, what)
	}
	goesOn("what is essential", func() error {
		meta, err := s.Apply(t.Context(), writesOf(map[string]string{"meta": "1"}), ApplyOptions{Essential: true})
		if err != nil {
			return err
		}
		return meta.Wait()
	})
	goesOn("admitting a deletion", func() error { return s.Admit(deletes, 1) })
	_, err := s.Apply(t.Context(), sets, ApplyOptions{})
	require.ErrorIs(t, err, kv.ErrDiskFull)
	goesOn("deleting", func() error {
		applied, err := s.Apply(t.Context(), deletes, ApplyOptions{})
		if err != nil {
			return err
		}
		return applied.Wait()
	})
	half := acked[:len(acked)/2]
	for _, key := range half {
		goesOn("deleting", func() error { return writeKeys(t.Context(), s, 0, key) })
	}
	goesOn("GC", func() error { return s.RunGC(t.Context()) })
	deleted := kv.KeyRange{Start: []byte(half[0]), End: []byte(acked[len(half)])}
	goesOn("deleting a range", func() error { return s.DeleteRange(t.Context(), deleted) })
	// There may be space, and none again while a compaction has both its input and its output.
	require.Eventually(t, func() bool { return s.Healthy() == nil && writeKeys(t.Context(), s, 16<<10, "again") == nil }, soon, 10*time.Millisecond,
		"the store does not take writes again by itself")
	requireReadable(t, s, true, acked[len(half):]...)
	requireReadable(t, s, false, half...)

	// Where a compaction finds no room a store gives up closing after a second, before a slow machine has closed it.
	fs.grow(fullDiskBytes)
	s = reopen(t, s).(*Store)
	requireReadable(t, s, true, append(acked[len(half):], "again", "meta")...)
}

// TestOthersFillTheDisk: there is nothing left, from one moment to the next. What goes on
// lives on the reserve.
func TestOthersFillTheDisk(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s := openCapped(t, fs, nil)
	require.NoError(t, writeKeys(t.Context(), s, 1000, "a", "b"))
	require.Eventually(t, func() bool { _, reserve, _ := s.Space(); return reserve > 0 }, soon, time.Millisecond)
	fs.fill(0)

	require.Eventually(t, func() bool { _, _, state := s.Space(); return state == kv.SpaceFull }, soon, time.Millisecond)
	require.ErrorIs(t, within(t, "writing", func() error { return writeKeys(t.Context(), s, 1000, "c") }), kv.ErrDiskFull)
	_, reserve, _ := s.Space()
	require.Zero(t, reserve, "the reserve is in use")
	// Timestamps go on, although their bound has to be saved.
	for hours := range 3 {
		s.timeline.mu.Lock()
		s.timeline.now = func() time.Time { return time.Now().Add(time.Duration(hours+1) * time.Hour) }
		s.timeline.mu.Unlock()
		requireReadable(t, s, true, "a", "b")
	}
	require.NoError(t, within(t, "deleting", func() error { return writeKeys(t.Context(), s, 0, "a") }))
	require.NoError(t, within(t, "flushing", s.db.Flush))

	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	after := open(t, "db", Options{FS: crashed})
	requireReadable(t, after, true, "b")
	requireReadable(t, after, false, "a", "c")

	fs.clear()
	require.Eventually(t, func() bool {
		_, reserve, state := s.Space()
		return reserve > 0 && state == kv.SpaceOK
	}, soon, time.Millisecond, "the reserve is not made again")
	require.NoError(t, s.Healthy())
	require.NoError(t, writeKeys(t.Context(), s, 1000, "c"))
}

// TestReserveIsUsedUp: another program takes all space that gets free. Then nothing can
// be written; but later writers do not wait, reads go on, and what was in flight is
// completed as soon as space is free.
func TestReserveIsUsedUp(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s := openCapped(t, fs, nil)
	require.NoError(t, writeKeys(t.Context(), s, 1000, "a"))
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	fs.fillForGood(0)

	inFlight := make(chan error, 1)
	go func() { inFlight <- s.applyDurably(batchOf(s, "b")) }()
	require.Eventually(t, func() bool { return s.space.blocked.Load() > 0 }, soon, time.Millisecond)
	for _, size := range []int{1000, 0} {
		refused := within(t, "writing", func() error { return writeKeys(t.Context(), s, size, "c") })
		require.ErrorIs(t, refused, kv.ErrDiskFull)
		require.ErrorContains(t, refused, "deletions have to wait")
	}
	require.ErrorIs(t, s.Healthy(), kv.ErrDiskFull)
	snap, err := s.Snapshot(t.Context(), ts)
	require.NoError(t, err)
	_, err = snap.Get(t.Context(), []byte("a"))
	require.NoError(t, err)
	require.NoError(t, snap.Close())
	require.Empty(t, inFlight)

	fs.clear()
	require.NoError(t, within(t, "what was in flight", func() error { return <-inFlight }))
	require.Eventually(t, func() bool { return s.Healthy() == nil }, soon, time.Millisecond)
	require.NoError(t, writeKeys(t.Context(), s, 1000, "c"))
	s = reopen(t, s).(*Store)
	requireReadable(t, s, true, "a", "c")
}

// TestCloseOnFullDisk does not wait for space. What was in flight, and the engine, end when there is some, or with the process.
func TestCloseOnFullDisk(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s, err := Open("db", cappedOptions(fs, nil))
	require.NoError(t, err)
	require.NoError(t, writeKeys(t.Context(), s, 1000, "a"))
	fs.fillForGood(0)
	inFlight := make(chan error, 1)
	go func() { inFlight <- s.applyDurably(batchOf(s, "b")) }()
	require.Eventually(t, func() bool { return s.space.blocked.Load() > 0 }, soon, time.Millisecond)
	rotated := make(chan error, 1)
	go func() { // it closes the log that cannot be written
		defer func() { _ = recover() }() // it may come when the engine is closed
		defer close(rotated)
		_, err := s.db.AsyncFlush()
		rotated <- err
	}()
	require.ErrorIs(t, within(t, "closing", s.Close), kv.ErrDiskFull)
	fs.clear()
	require.NoError(t, within(t, "what was in flight", func() error { return <-inFlight }))
	require.NoError(t, within(t, "changing the log", func() error { return <-rotated }))
	requireReadable(t, openWhenLeft(t, fs), true, "a")
}

// TestClosingFillsTheDisk: that the disk is full shows at the last write of all.
func TestClosingFillsTheDisk(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s, err := Open("db", cappedOptions(fs, nil))
	require.NoError(t, err)
	require.NoError(t, writeKeys(t.Context(), s, 1000, "a"))
	fs.fillForGood(0)
	require.Zero(t, s.space.blocked.Load())
	require.ErrorIs(t, within(t, "closing", s.Close), kv.ErrDiskFull)
	fs.clear()
	requireReadable(t, openWhenLeft(t, fs), true, "a")
}

// TestCloseWhileALogCannotBegin: the engine cannot be refused the next log, and is left as it is. It ends when there is
// space.
func TestCloseWhileALogCannotBegin(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s, err := Open("db", cappedOptions(fs, nil))
	require.NoError(t, err)
	require.NoError(t, writeKeys(t.Context(), s, 1000, "a"))
	fs.setNoFiles(true)
	rotated := make(chan error, 1)
	go func() {
		_, err := s.db.AsyncFlush()
		rotated <- err
	}()
	require.Eventually(t, func() bool { return s.space.blocked.Load() > 0 }, soon, time.Millisecond)
	requireNoFiles(t, within(t, "closing", s.Close))
	_, err = Open("db", cappedOptions(fs, nil))
	require.Error(t, err, "the folder is still in use")
	fs.setNoFiles(false)
	require.NoError(t, within(t, "changing the log", func() error { return <-rotated }))
	requireReadable(t, openWhenLeft(t, fs), true, "a")
}

// TestFlushOnFullDisk: a flush that finds no space is tried again now and then, without
// filling the log, and ends when there is space. A manifest that cannot be written does
// not end the process.
func TestFlushOnFullDisk(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	fs := newCappedFS(fullDiskBytes)
	s := openCapped(t, fs, zap.New(core))
	before := fs.created(categoryFlush)
	for i := range 8 {
		require.NoError(t, writeKeys(t.Context(), s, 16<<10, fmt.Sprint("k", i)))
	}
	require.Equal(t, before, fs.created(categoryFlush), "a flush under way would take what is left for the log")
	fs.fillForGood(8 << 10) // for the log, not for a table
	began := time.Now()
	var flushed <-chan struct{}
	require.NoError(t, within(t, "changing the log", func() (err error) {
		flushed, err = s.db.AsyncFlush()
		return err
	}))
	time.Sleep(time.Second)
	// The pauses double.
	attempts := fs.created(categoryFlush) - before
	require.Less(t, attempts, 10+int(time.Since(began)/lastTableRetry), "tried again without a pause")
	require.Less(t, logs.Len(), 40)
	select {
	case <-flushed:
		require.Fail(t, "flushed to nowhere")
	default:
	}
	requireReadable(t, s, true, "k0", "k7")
	fs.clear()
	require.NoError(t, within(t, "the flush", func() error { <-flushed; return nil }))
	requireReadable(t, s, true, "k0", "k7")
	require.Eventually(t, func() bool { return s.Healthy() == nil }, soon, time.Millisecond)
}

// TestManifestOnFullDisk runs out of space at any of the writes of a flush.
func TestManifestOnFullDisk(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	for leave := uint64(0); leave < 8<<10; leave += 256 {
		fs := newCappedFS(fullDiskBytes)
		s := openCapped(t, fs, zap.New(core))
		require.NoError(t, writeKeys(t.Context(), s, 1000, "a"))
		fs.fillForGood(leave)
		flushed := make(chan error, 1)
		go func() { flushed <- s.db.Flush() }()
		failed := func() bool {
			s.engFS.mu.Lock()
			defer s.engFS.mu.Unlock()
			return s.space.blocked.Load() > 0 || s.engFS.failures[categoryFlush] > 0 || len(flushed) > 0
		}
		require.Eventually(t, failed, soon, time.Millisecond)
		fs.clear()
		require.NoError(t, within(t, "the flush", func() error { return <-flushed }))
		requireReadable(t, s, true, "a")
		require.NoError(t, s.Close())
	}
	waited := logs.FilterMessageSnippet("waits for space")
	for _, name := range []string{logSuffix, manifestPrefix} {
		require.NotZero(t, waited.Filter(func(e observer.LoggedEntry) bool {
			file, ok := e.ContextMap()["file"].(string)
			return ok && strings.Contains(file, name)
		}).Len(), "no write to %s has failed", name)
	}
}

// TestLogUsesTheReserve: a write to the log that finds the disk full does not wait, as long
// as there is a reserve.
func TestLogUsesTheReserve(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	require.NoError(t, fs.MkdirAll("db", dirMode))
	opts := cappedOptions(fs, nil)
	opts.EnsureDefaults()
	core, logs := observer.New(zap.InfoLevel)
	opts.Logger = zap.New(core)
	space, err := newSpaceMonitor(fs, "db", opts)
	require.NoError(t, err)
	space.measure(0)
	require.NotZero(t, space.reserved.Load())
	fs.fill(0)
	e := newEngineFS(fs, space, nil, opts)
	f, err := e.Create("db/000001.log", categoryLog)
	require.NoError(t, err)
	n, err := f.Write(make([]byte, 100<<10))
	require.NoError(t, err)
	require.Equal(t, 100<<10, n)
	require.NoError(t, f.Close())
	require.Zero(t, space.reserved.Load())
	require.Zero(t, logs.FilterMessageSnippet("waits").Len())
	require.Equal(t, kv.SpaceFull, space.current())
}

// TestOpenOnFullDisk: where the log cannot be recovered for lack of space, Open says so,
// and can be repeated when there is some.
func TestOpenOnFullDisk(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s := openCapped(t, fs, nil)
	keys := make([]string, 20)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
		require.NoError(t, writeKeys(t.Context(), s, 16<<10, keys[i]))
	}
	require.NoError(t, s.Close())

	// The reserve is enough to recover.
	fs.fill(0)
	s = openCapped(t, fs, nil)
	requireReadable(t, s, true, keys...)
	require.ErrorIs(t, s.Healthy(), kv.ErrDiskFull)
	require.NoError(t, s.Close())

	fs.clear()
	s = openCapped(t, fs, nil)
	require.NoError(t, writeKeys(t.Context(), s, 16<<10, keys...))
	require.NoError(t, s.Close())
	fs.fillForGood(0)
	err := within(t, "opening", func() error {
		_, err := Open("db", cappedOptions(fs, nil))
		return err
	})
	require.ErrorIs(t, err, kv.ErrDiskFull)
	fs.clear()
	requireReadable(t, openWhenLeft(t, fs), true, keys...)
}

// TestNewStoreOnFullDisk: wherever in the making of a store the disk gets full, Open says so,
// and can be repeated when there is space.
func TestNewStoreOnFullDisk(t *testing.T) {
	whole := newCappedFS(fullDiskBytes)
	require.NoError(t, openCapped(t, whole, nil).Close())
	for n := 1; n <= whole.writes; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel() // they wait for a second each
			fs := newCappedFS(fullDiskBytes)
			fs.fullAt = n
			err := within(t, "opening", func() error {
				s, err := Open("db", cappedOptions(fs, nil))
				if err == nil { // it was full at the end only
					_ = s.Close()
				}
				return err
			})
			if err != nil {
				require.True(t, errors.Is(err, kv.ErrDiskFull) || errs.NoSpace(err), "%v", err)
			}
			fs.clear()
			s := openWhenLeft(t, fs)
			require.NoError(t, writeKeys(t.Context(), s, 1000, "a"))
			requireReadable(t, s, true, "a")
		})
	}
}

// TestNoFileDescriptors: a log that cannot be made for lack of file descriptors is made
// once some are free. Errors do not say that the disk is full, and the reserve is kept.
func TestNoFileDescriptors(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	fs := newCappedFS(fullDiskBytes)
	s := openCapped(t, fs, zap.New(core))
	require.NoError(t, writeKeys(t.Context(), s, 1000, "a"))
	require.Eventually(t, func() bool { _, reserve, _ := s.Space(); return reserve > 0 }, soon, time.Millisecond)
	fs.setNoFiles(true)
	done := make(chan error, 1)
	go func() { done <- s.db.Flush() }() // takes a new log first
	require.Eventually(t, func() bool { return s.space.blocked.Load() > 0 }, soon, time.Millisecond)
	requireNoFiles(t, s.Healthy())
	for _, size := range []int{1000, 0} {
		requireNoFiles(t, within(t, "writing", func() error { return writeKeys(t.Context(), s, size, "c") }))
	}
	_, reserve, state := s.Space()
	require.NotZero(t, reserve)
	require.Equal(t, kv.SpaceOK, state)
	require.Empty(t, done)
	require.Zero(t, logs.FilterMessageSnippet("disk").Len())
	require.NotZero(t, logs.FilterMessageSnippet("file descriptors").Len())
	fs.setNoFiles(false)
	require.NoError(t, within(t, "the flush", func() error { return <-done }))
	require.Eventually(t, func() bool { return s.Healthy() == nil }, soon, time.Millisecond)
	require.NoError(t, writeKeys(t.Context(), s, 1000, "b"))
	requireReadable(t, s, true, "a", "b")
}

// requireNoFiles checks that an error is about file descriptors.
func requireNoFiles(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, syscall.EMFILE)
	require.NotErrorIs(t, err, kv.ErrDiskFull)
	require.NotErrorIs(t, err, kv.ErrResultUndetermined)
	require.NotContains(t, err.Error(), "full")
}

// TestOpenWithoutFileDescriptors: nor when the log cannot be recovered.
func TestOpenWithoutFileDescriptors(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s := openCapped(t, fs, nil)
	require.NoError(t, writeKeys(t.Context(), s, 1000, "a"))
	require.NoError(t, s.Close())
	fs.failTables(errNoFiles)
	requireNoFiles(t, within(t, "opening", func() error {
		_, err := Open("db", cappedOptions(fs, nil))
		return err
	}))
	fs.failTables(nil)
	requireReadable(t, openWhenLeft(t, fs), true, "a")
}
