package pebblekv

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fastddl/kv"
)

// stallGC opens a store whose garbage collection in the background waits for a flush that
// fails with err whenever it begins.
func stallGC(t *testing.T, fs *cappedFS, err error) *Store {
	t.Helper()
	now := time.Now()
	opts := cappedOptions(fs, nil)
	collect := make(chan struct{})
	opts.GCRunInterval = func() time.Duration { return time.Millisecond }
	opts.GCLifeTime = func() time.Duration {
		select {
		case <-collect:
			return -time.Hour
		default:
			return time.Since(now) + time.Hour
		}
	}
	s, openErr := Open("db", opts)
	require.NoError(t, openErr)
	// The deletions of the old versions take more memory than the memtables have.
	pairs := make(map[string]string)
	for i := range 1000 {
		pairs[fmt.Sprintf("%04d%s", i, strings.Repeat("k", 5000))] = "1"
	}
	for range 2 {
		_, err := commit(t.Context(), s, pairs)
		require.NoError(t, err)
	}
	require.NoError(t, s.db.Flush())
	fs.failTables(err)
	close(collect)
	require.Eventually(t, func() bool { return s.health.stalled() && fs.created(categoryFlush) > 0 }, soon, time.Millisecond)
	return s
}

// TestCloseWhileGCWaitsForSpace does not wait with it.
func TestCloseWhileGCWaitsForSpace(t *testing.T) {
	fs := newCappedFS(fullDiskBytes)
	s := stallGC(t, fs, errNoSpace)
	require.ErrorIs(t, within(t, "closing", s.Close), kv.ErrDiskFull)
	fs.failTables(nil)
	requireReadable(t, openWhenLeft(t, fs), true, "0007"+strings.Repeat("k", 5000))
}

// TestCloseWhileGCWaitsForFlush: Close returns an error after its timeout if flushes fail for another reason than space.
func TestCloseWhileGCWaitsForFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := newCappedFS(fullDiskBytes)
		s := stallGC(t, fs, errInputOutput)
		began := time.Now()
		require.ErrorContains(t, s.Close(), "still open")
		require.Equal(t, closeTimeout, time.Since(began))
		fs.failTables(nil) // what was left as it is ends
		time.Sleep(time.Minute)
		require.NoError(t, errors.Join(s.db.Close(), s.lock.Close()))
	})
}

// TestTableRetriesPauseAfterTheEnd: nothing waits for space when the store is closed, but tables that the engine still retries
// pause between two tries.
func TestTableRetriesPauseAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := Options{FS: vfs.NewMem(), Logger: zap.NewNop()}
		opts.EnsureDefaults()
		space, err := newSpaceMonitor(opts.FS, "", opts)
		require.NoError(t, err)
		e := newEngineFS(opts.FS, space, nil, opts)
		pauses := func() time.Duration {
			began := time.Now()
			e.pauseTable(categoryFlush)
			return time.Since(began)
		}
		require.Zero(t, pauses())
		for range 20 {
			e.failed(categoryFlush, errNoSpace)
		}
		require.Equal(t, lastTableRetry, pauses())
		select {
		case <-e.stuck:
			require.Fail(t, "stuck before the end")
		default:
		}
		e.end()
		require.Equal(t, endedTableRetry, pauses())
		e.failed(categoryFlush, errNoSpace)
		<-e.stuck
		e.finished(categoryFlush)
		require.Zero(t, pauses())
	})
}
