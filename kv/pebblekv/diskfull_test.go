package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

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

func cappedOptions(fs *cappedFS, log *zap.Logger) Options {
	return Options{
		FS: fs, MemTableBytes: 512 << 10, Logger: log,
		GCLifeTime:    func() time.Duration { return -time.Hour },
		GCRunInterval: func() time.Duration { return 0 },
		Essential:     func(key []byte) bool { return len(key) > 0 && key[0] == 'm' },
	}
}

// within fails the test if fn does not return soon.
func within(t *testing.T, what string, fn func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-time.After(soon):
		require.FailNow(t, what+" hangs")
		return nil
	}
}

// write commits values of a kind for some keys; a size of 0 deletes.
func writeKeys(ctx context.Context, s *Store, size int, keys ...string) error {
	txn, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for _, key := range keys {
		value := make([]byte, size)
		for i := range value {
			value[i] = byte(rnd.Uint32())
		}
		if size == 0 {
			err = txn.Delete([]byte(key))
		} else {
			err = txn.Set([]byte(key), value)
		}
		if err != nil {
			return errors.Join(err, txn.Rollback())
		}
	}
	return txn.Commit(ctx)
}

// requireReadable reads keys at a fresh timestamp.
func requireReadable(t *testing.T, s *Store, there bool, keys ...string) {
	t.Helper()
	require.NoError(t, within(t, "reading", func() error {
		ts, err := s.CurrentTS(t.Context())
		if err != nil {
			return err
		}
		snap, err := s.Snapshot(t.Context(), ts)
		if err != nil {
			return err
		}
		defer func() { _ = snap.Close() }()
		for _, key := range keys {
			if _, err := snap.Get(t.Context(), []byte(key)); errors.Is(err, kv.ErrNotExist) == there {
				return fmt.Errorf("key %s: %w", key, err)
			}
		}
		return nil
	}))
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
	require.NotErrorIs(t, refused, kv.ErrResultUndetermined)
	require.ErrorIs(t, s.Healthy(), kv.ErrDiskFull)
	_, reserve, state := s.Space()
	require.Equal(t, kv.SpaceFull, state)
	require.NotZero(t, reserve, "the reserve is for when others fill the disk")
	require.ErrorIs(t, s.Import(t.Context(), nil), kv.ErrDiskFull)

	requireReadable(t, s, true, acked...)
	require.NoError(t, writeKeys(t.Context(), s, 100, "meta"), "what is essential goes on")
	require.ErrorIs(t, writeKeys(t.Context(), s, 100, "meta", "data"), kv.ErrDiskFull)
	half := acked[:len(acked)/2]
	for _, key := range half {
		require.NoError(t, within(t, "deleting", func() error { return writeKeys(t.Context(), s, 0, key) }))
	}
	require.NoError(t, within(t, "GC", func() error { return s.RunGC(t.Context()) }))
	require.NoError(t, s.DeleteRange(t.Context(), kv.KeyRange{Start: []byte(half[0]), End: []byte(acked[len(half)])}))
	require.Eventually(t, func() bool { return s.Healthy() == nil }, soon, 10*time.Millisecond,
		"the store does not take writes again by itself")
	require.NoError(t, writeKeys(t.Context(), s, 16<<10, "again"))
	requireReadable(t, s, true, acked[len(half):]...)
	requireReadable(t, s, false, half...)

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

// TestReserveIsUsedUp: somebody takes whatever gets free. Then nothing can be written;
// but nobody waits who comes later, reads go on, and what was in flight is completed
// as soon as there is space.
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
		require.ErrorIs(t, within(t, "writing", func() error { return writeKeys(t.Context(), s, size, "c") }), kv.ErrDiskFull)
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

// TestCloseOnFullDisk does not wait for space.
func TestCloseOnFullDisk(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s, err := Open("db", cappedOptions(fs, nil))
	require.NoError(t, err)
	require.NoError(t, writeKeys(t.Context(), s, 1000, "a"))
	fs.fillForGood(0)
	inFlight := make(chan error, 1)
	go func() { inFlight <- s.applyDurably(batchOf(s, "b")) }()
	require.Eventually(t, func() bool { return s.space.blocked.Load() > 0 }, soon, time.Millisecond)
	require.Error(t, within(t, "closing", s.Close))
	require.Error(t, within(t, "what was in flight", func() error { return <-inFlight }))
	fs.clear()
	requireReadable(t, openCapped(t, fs, nil), true, "a")
}

// TestFlushOnFullDisk: a flush that finds no space is tried again now and then, without
// filling the log, and ends when there is space. A manifest that cannot be written does
// not end the process.
func TestFlushOnFullDisk(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	fs := newCappedFS(fullDiskBytes)
	s := openCapped(t, fs, zap.New(core))
	for i := range 20 {
		require.NoError(t, writeKeys(t.Context(), s, 16<<10, fmt.Sprint("k", i)))
	}
	fs.fillForGood(8 << 10) // for the log, not for a table
	before, began := fs.created(categoryFlush), time.Now()
	flushed, err := s.db.AsyncFlush()
	require.NoError(t, err)
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
	requireReadable(t, s, true, "k0", "k19")
	fs.clear()
	require.NoError(t, within(t, "the flush", func() error { <-flushed; return nil }))
	requireReadable(t, s, true, "k0", "k19")
	require.Eventually(t, func() bool { return s.Healthy() == nil }, soon, time.Millisecond)
}

// TestManifestOnFullDisk runs out of space at any of the writes of a flush.
func TestManifestOnFullDisk(t *testing.T) {
	for leave := uint64(0); leave < 8<<10; leave += 512 {
		fs := newCappedFS(fullDiskBytes)
		s := openCapped(t, fs, nil)
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
}

// TestOpenOnFullDisk: where the log cannot be recovered for want of space, Open says so,
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
	require.Eventually(t, func() bool {
		s, err = Open("db", cappedOptions(fs, nil))
		if err != nil {
			require.ErrorIs(t, err, kv.ErrLocked)
			return false
		}
		t.Cleanup(func() { _ = s.Close() })
		return true
	}, soon, 10*time.Millisecond, "the store cannot be opened any more")
	requireReadable(t, s, true, keys...)
}

// TestNoFileDescriptors: a log that cannot be made for want of file descriptors is made
// when there are some.
func TestNoFileDescriptors(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s := openCapped(t, fs, nil)
	require.NoError(t, writeKeys(t.Context(), s, 1000, "a"))
	fs.setNoFiles(true)
	var flushed atomic.Bool
	done := make(chan error, 1)
	go func() {
		err := s.db.Flush() // takes a new log first
		flushed.Store(true)
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	require.False(t, flushed.Load())
	fs.setNoFiles(false)
	require.NoError(t, within(t, "the flush", func() error { return <-done }))
	require.NoError(t, writeKeys(t.Context(), s, 1000, "b"))
	requireReadable(t, s, true, "a", "b")
}

func TestLogLimiter(t *testing.T) {
	var l logLimiter
	logged := 0
	for range 1000 {
		if _, ok := l.allow("same"); ok {
			logged++
		}
	}
	require.Equal(t, logBurst, logged)
	_, ok := l.allow("other")
	require.True(t, ok)
	l.kinds["same"].last = time.Now().Add(-logPause)
	held, ok := l.allow("same")
	require.True(t, ok)
	require.Equal(t, 1000-logBurst, held, "how many were held back is told")
	for i := range 3 * logKinds {
		l.allow(fmt.Sprint(i))
	}
	require.LessOrEqual(t, len(l.kinds), logKinds)
}

func TestSpaceLimits(t *testing.T) {
	for _, total := range []uint64{0, 1 << 20, 64 << 20, 1 << 30, 100 << 30, 10 << 40} {
		l := limitsOf(total, 64<<20)
		require.LessOrEqual(t, l.last, l.reserve)
		require.LessOrEqual(t, l.reserve, l.full)
		require.LessOrEqual(t, l.full, l.low)
		require.LessOrEqual(t, l.low+l.reserve, total/4, "most of the disk is for data")
	}
	require.Equal(t, uint64(4*64<<20+32<<20), limitsOf(1<<40, 64<<20).full, "what is in memory can be flushed")
}

// batchOf is a batch with one version of a key.
func batchOf(s *Store, key string) *pebble.Batch {
	b := s.db.NewBatch()
	// A batch in memory takes any key.
	_ = b.Set(appendVersion(nil, []byte(key), s.timeline.lastTS()), []byte("1"), nil)
	return b
}
