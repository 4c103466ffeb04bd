package pebblekv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fastddl/kv"
)

// TestRealDiskIsFull fills a real file system: one in memory, that is small and nobody
// else's.
func TestRealDiskIsFull(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=96m"); err != nil {
		t.Skipf("mounting a file system is not possible here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(disk, unix.MNT_DETACH)) })
	s := open(t, filepath.Join(disk, "db"), Options{
		MemTableBytes: 512 << 10,
		GCLifeTime:    func() time.Duration { return -time.Hour },
		GCRunInterval: func() time.Duration { return 0 },
	})
	var acked []string
	for i := range 200 {
		acked = append(acked, fmt.Sprintf("k%06d", i))
		require.NoError(t, writeKeys(t.Context(), s, 16<<10, acked[i]))
	}
	require.Eventually(t, func() bool { _, reserve, _ := s.Space(); return reserve > 0 }, soon, time.Millisecond)
	blocks := func() int64 {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(disk, "db", reserveFile), &st))
		return st.Blocks * 512
	}
	require.GreaterOrEqual(t, blocks(), int64(3<<20), "the reserve occupies nothing")

	others := filepath.Join(disk, "others")
	fillFile(t, others)
	require.Eventually(t, func() bool { return errors.Is(s.Healthy(), kv.ErrDiskFull) }, soon, time.Millisecond)
	require.ErrorIs(t, within(t, "writing", func() error { return writeKeys(t.Context(), s, 1000, "new") }), kv.ErrDiskFull)
	requireReadable(t, s, true, acked...)
	for _, key := range acked[:100] {
		require.NoError(t, within(t, "deleting", func() error { return writeKeys(t.Context(), s, 0, key) }))
	}
	require.NoError(t, within(t, "flushing", s.db.Flush))

	require.NoError(t, os.Remove(others))
	require.Eventually(t, func() bool { return s.Healthy() == nil }, soon, time.Millisecond)
	require.NoError(t, writeKeys(t.Context(), s, 16<<10, "new"))

	// The disk fills while it is written to from several sides, and there is space
	// again, several times.
	for round := range 3 {
		fillFile(t, others)
		for i := range 50 {
			key := fmt.Sprintf("round%d/%d", round, i)
			if within(t, "writing", func() error { return writeKeys(t.Context(), s, 16<<10, key) }) == nil {
				acked = append(acked, key)
			}
		}
		require.NoError(t, os.Remove(others))
		require.Eventually(t, func() bool { return s.Healthy() == nil }, soon, time.Millisecond)
	}
	s = reopen(t, s).(*Store)
	requireReadable(t, s, true, append(acked[100:], "new")...)
	requireReadable(t, s, false, acked[:100]...)
	require.NoError(t, s.Close())
}

// fillFile writes a file until the disk is full.
func fillFile(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	buf := make([]byte, 64<<10)
	for err == nil {
		_, err = f.Write(buf)
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, f.Close())
}
