package pebblekv

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestForeignFoldersInStoreAreLeftAlone: a file system has a folder of root's in its root, and servers of several users may share the
// one for temporary files. What cannot be made private there is no file of the store.
func TestForeignFoldersInStoreAreLeftAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes files of several users")
	}
	const user = 65534
	for _, c := range []struct {
		path string // of root's, in the store's folder of another user
		mode fs.FileMode
		fail bool
	}{
		{path: lostAndFound + "/#12", mode: 0o600},
		{path: "tmp/fastddl-1/LOCK", mode: 0o600},
		{path: "tmp/fastddl-1/sorted", mode: 0o644},
		{path: "000004.sst", mode: 0o644, fail: true},
		{path: damagedLogs + "/000002.log", mode: 0o644, fail: true},
		{path: importDir + "/import-1-1.sst", mode: 0o644, fail: true},
	} {
		for _, folder := range []struct {
			owner int
			mode  fs.FileMode
		}{{0, 0o700}, {0, 0o755}, {user, 0o755}} {
			dir := filepath.Join(t.TempDir(), "db")
			path := filepath.Join(dir, c.path)
			own := filepath.Join(dir, "zzz")
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			write(t, own, "x")
			write(t, path, "x")
			require.NoError(t, os.Chmod(path, c.mode))
			if parent := filepath.Dir(path); parent != dir {
				require.NoError(t, os.Chmod(parent, folder.mode))
				require.NoError(t, os.Chown(parent, folder.owner, folder.owner))
				require.NoError(t, os.Chown(filepath.Dir(parent), user, user))
			}
			require.NoError(t, os.Chown(dir, user, user))
			require.NoError(t, os.Chown(own, user, user))
			require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)) // so that the user gets there
			err := as(t, user, func() error { return makePrivate(dir) })
			if c.fail {
				require.ErrorIs(t, err, fs.ErrPermission, c.path)
				continue
			}
			require.NoError(t, err, c.path)
			info, err := os.Stat(own)
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(fileMode), info.Mode().Perm(), "a file behind that of somebody else")
		}
	}
}

// as calls fn with the rights that another user has to files.
func as(t *testing.T, user int, fn func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: no other goroutine gets the thread
		if err := unix.Setfsuid(user); err != nil {
			done <- err
			return
		}
		done <- fn()
	}()
	return <-done
}
