package pebblekv

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fastddl/kv"
)

var errInputOutput = errors.New("input/output error")

// stallWrites writes until a commit waits for memory or for compactions.
func stallWrites(t *testing.T, s *Store) (stalled <-chan error) {
	t.Helper()
	done := make(chan error, 1)
	var enough atomic.Bool
	go func() {
		var err error
		for !enough.Load() && err == nil {
			err = writeKeys(t.Context(), s, 100<<10, "filler")
		}
		done <- err
	}()
	require.Eventually(t, s.health.stalled, soon, time.Millisecond)
	enough.Store(true)
	return done
}

// failCompactions fills L0 with n tables, which cannot be compacted.
func failCompactions(t *testing.T, s *Store, fs *cappedFS, n int) {
	t.Helper()
	fs.beforeTables(func(c vfs.DiskWriteCategory) error {
		if c == categoryCompacted {
			return errInputOutput
		}
		return nil
	})
	for range n {
		require.NoError(t, writeKeys(t.Context(), s, 100, "a", "z"))
		require.NoError(t, s.db.Flush())
	}
	require.Eventually(t, func() bool { return s.db.Metrics().Compact.FailedCount > 0 }, soon, time.Millisecond)
}

// TestStallAfterACompactionFailed: who waits for a flush is not refused for something else that has failed before.
func TestStallAfterACompactionFailed(t *testing.T) {
	fs := newCappedFS(4 * fullDiskBytes)
	s := openCapped(t, fs, nil)
	failCompactions(t, s, fs, 2*l0CompactionSubs)
	goOn := make(chan struct{})
	fs.beforeTables(func(c vfs.DiskWriteCategory) error {
		if c == categoryCompacted {
			return errInputOutput
		}
		<-goOn
		return nil
	})
	stalled := stallWrites(t, s)
	require.NoError(t, s.Healthy())
	close(goOn)
	require.NoError(t, within(t, "the commit", func() error { return <-stalled }))
}

// TestStallWhileCompactionsFail: writers do not wait for compactions that fail.
func TestStallWhileCompactionsFail(t *testing.T) {
	fs := newCappedFS(4 * fullDiskBytes)
	s := openCapped(t, fs, nil)
	failCompactions(t, s, fs, l0StopSubs)
	stalled := stallWrites(t, s)
	require.Eventually(t, func() bool { return errors.Is(s.Healthy(), errInputOutput) }, soon, time.Millisecond)
	require.ErrorIs(t, writeKeys(t.Context(), s, 100, "b"), errInputOutput)
	fs.failTables(nil)
	require.NoError(t, within(t, "the commit", func() error { return <-stalled }))
	require.Eventually(t, func() bool { return s.Healthy() == nil }, soon, time.Millisecond)
}

// TestStallWhileFlushesFail: nor for flushes.
func TestStallWhileFlushesFail(t *testing.T) {
	fs := newCappedFS(4 * fullDiskBytes)
	s := openCapped(t, fs, nil)
	require.NoError(t, s.db.Flush(), "of nothing")
	require.Nil(t, s.health.flush.Load(), "a flush of nothing has not failed")
	fs.failTables(errInputOutput)
	stalled := stallWrites(t, s)
	require.Eventually(t, func() bool { return errors.Is(s.Healthy(), errInputOutput) }, soon, time.Millisecond)
	fs.failTables(nil)
	require.NoError(t, within(t, "the commit", func() error { return <-stalled }))
	require.Eventually(t, func() bool { return s.Healthy() == nil }, soon, time.Millisecond)
}

// TestStallForSpace: clients get the error of the resource that flushes lack: space, or file descriptors.
func TestStallForSpace(t *testing.T) {
	for _, lack := range []struct {
		err     error
		require func(err error)
	}{
		{errNoSpace, func(err error) {
			require.ErrorIs(t, err, kv.ErrDiskFull)
			require.ErrorContains(t, err, "deletions have to wait")
		}},
		{errNoFiles, func(err error) { requireNoFiles(t, err) }},
	} {
		fs := newCappedFS(4 * fullDiskBytes)
		s := openCapped(t, fs, nil)
		fs.failTables(lack.err)
		stalled := stallWrites(t, s)
		require.Eventually(t, func() bool { return s.Healthy() != nil }, soon, time.Millisecond)
		lack.require(s.Healthy())
		for _, size := range []int{100, 0} {
			lack.require(writeKeys(t.Context(), s, size, "b"))
		}
		lack.require(s.SaveMeta(t.Context(), "a", []byte("1")))
		fs.failTables(nil)
		require.NoError(t, within(t, "the commit", func() error { return <-stalled }))
		require.Eventually(t, func() bool { return s.Healthy() == nil }, soon, time.Millisecond)
	}
}

// TestDamageGoesWithItsFile: what a compaction has removed is not damaged any more, and what else is damaged still is.
func TestDamageGoesWithItsFile(t *testing.T) {
	h := &health{log: zap.NewNop()}
	events := h.listener()
	met := func(path string) {
		events.DataCorruption(pebble.DataCorruptionInfo{Path: path, Details: errors.New("bad checksum")})
	}
	require.NoError(t, h.damaged())
	met("db/000001.sst")
	met("db/000002.sst")
	met("db/000001.sst")
	require.ErrorIs(t, h.damaged(), kv.ErrDamaged)
	require.ErrorContains(t, h.damaged(), "000001.sst")
	events.TableDeleted(pebble.TableDeleteInfo{Path: "db/000003.sst"})
	events.TableDeleted(pebble.TableDeleteInfo{Path: "db/000001.sst", Err: errInputOutput})
	require.ErrorContains(t, h.damaged(), "000001.sst")
	events.TableDeleted(pebble.TableDeleteInfo{Path: "db/000001.sst"})
	require.ErrorIs(t, h.damaged(), kv.ErrDamaged)
	require.ErrorContains(t, h.damaged(), "000002.sst")
	events.TableDeleted(pebble.TableDeleteInfo{Path: "db/000002.sst"})
	require.NoError(t, h.damaged())
}

// TestTimestampsWhileFlushesFail: callers do not wait for a bound of timestamps that waits for memory, if flushes begin to
// fail only after its wait has begun.
func TestTimestampsWhileFlushesFail(t *testing.T) {
	fs := newCappedFS(4 * fullDiskBytes)
	s := openCapped(t, fs, nil)
	fail := make(chan struct{})
	fs.beforeTables(func(vfs.DiskWriteCategory) error {
		<-fail
		return errInputOutput
	})
	stalled := stallWrites(t, s)
	require.NoError(t, s.Healthy(), "no flush has failed yet")
	s.timeline.mu.Lock()
	s.timeline.now = func() time.Time { return time.Now().Add(time.Hour) }
	s.timeline.mu.Unlock()
	got := make(chan error, 1)
	go func() {
		_, err := s.CurrentTS(t.Context())
		got <- err
	}()
	require.Eventually(t, func() bool {
		s.timeline.mu.Lock()
		defer s.timeline.mu.Unlock()
		return s.timeline.extending != nil
	}, soon, time.Millisecond)
	time.Sleep(10 * time.Millisecond) // most times the write is in the engine by then; if not, it is refused in time
	close(fail)
	require.ErrorIs(t, within(t, "taking a timestamp", func() error { return <-got }), errInputOutput)
	fs.failTables(nil)
	require.NoError(t, within(t, "the commit", func() error { return <-stalled }))
	require.Eventually(t, func() bool { _, err := s.CurrentTS(t.Context()); return err == nil }, soon, time.Millisecond)
}
