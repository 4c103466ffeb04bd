package embedded

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// brokenFS begins no tables while it is broken.
type brokenFS struct {
	vfs.FS
	broken atomic.Bool
}

func (f *brokenFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.broken.Load() && category == "pebble-memtable-flush" {
		return nil, errors.New("input/output error")
	}
	return f.FS.Create(name, category)
}

// TestCloseWhileGCWaits: garbage collection waits for memory, because no table can be written. Closing goes on to the data
// all the same, which wait for it with everything else, and not for ever.
func TestCloseWhileGCWaits(t *testing.T) {
	fs := &brokenFS{FS: vfs.NewMem()}
	s, err := Open("db", Options{Pebble: pebblekv.Options{FS: fs, MemTableBytes: 512 << 10}})
	require.NoError(t, err)
	// The deletions of the old versions take more memory than the memtables have.
	long := strings.Repeat("k", 5000)
	for range 2 {
		a, err := s.pebble.Apply(t.Context(), func(yield func(key, value []byte) bool) {
			for i := 0; i < 1000 && yield(fmt.Appendf(nil, "%04d%s", i, long), []byte("1")); i++ {
			}
		}, pebblekv.ApplyOptions{})
		require.NoError(t, err)
		require.NoError(t, a.Wait())
	}
	ts, err := s.Builds().CurrentTS(t.Context())
	require.NoError(t, err)
	fs.broken.Store(true)
	_, err = s.PDClient().UpdateGCSafePoint(t.Context(), ts)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.Builds().LoadSignals().WriteStalled }, time.Minute, time.Millisecond)

	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	require.Eventually(t, func() bool {
		_, err := s.Builds().CurrentTS(t.Context())
		return errors.Is(err, kv.ErrClosed)
	}, time.Minute, time.Millisecond, "closing waits for garbage collection")
	require.Empty(t, closed)
	fs.broken.Store(false)
	require.NoError(t, <-closed)
}
