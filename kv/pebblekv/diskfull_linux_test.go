package pebblekv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"fastddl/kv"
)

// realDiskVar is set for a process of this test binary that has its own mount namespace.
const realDiskVar = "PEBBLEKV_TEST_REAL_DISK"

// TestRealDiskIsFull fills a real file system: a small one in memory. Only a process of
// the test's own sees it, so that it goes with that process, however it ends.
func TestRealDiskIsFull(t *testing.T) {
	if os.Getenv(realDiskVar) != "" {
		testRealDisk(t)
		return
	}
	runtime.LockOSThread() // whose end would be taken for that of this process
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRealDiskIsFull$", "-test.v")
	cmd.Env = append(os.Environ(), realDiskVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Skipf("a process with mounts of its own is not possible here: %v", err)
	}
	require.NoError(t, err, "%s", out)
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("%s", out)
	}
}

func testRealDisk(t *testing.T) {
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
	// What is in flight when others fill the disk lives on the reserve, and would wait for
	// space without it.
	recovered := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			_, reserve, _ := s.Space()
			return reserve > 0 && s.Healthy() == nil
		}, soon, time.Millisecond)
	}
	recovered()
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
	recovered()
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
		recovered()
	}
	s = reopen(t, s).(*Store)
	requireReadable(t, s, true, append(acked[100:], "new")...)
	requireReadable(t, s, false, acked[:100]...)
	require.NoError(t, s.Close())
}

// fillFile takes all that is left of the disk at one moment. What the store gives up of its
// reserve is not taken.
func fillFile(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	for err = syscall.ENOSPC; errors.Is(err, syscall.ENOSPC); { // the store writes, too
		var disk unix.Statfs_t
		require.NoError(t, unix.Statfs(filepath.Dir(path), &disk))
		if disk.Bavail == 0 {
			break
		}
		err = unix.Fallocate(int(f.Fd()), 0, 0, int64(disk.Bavail)*disk.Bsize)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
}
