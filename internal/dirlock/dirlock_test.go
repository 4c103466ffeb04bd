package dirlock_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/dirlock"
)

func TestAcquire(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	l, err := dirlock.Acquire(dir)
	require.NoError(t, err)
	require.Equal(t, dir, l.Dir())

	_, err = dirlock.Acquire(dir)
	var inUse *dirlock.InUseError
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, dirlock.InUseError{Dir: dir, PID: os.Getpid()}, *inUse)
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, strconv.Itoa(os.Getpid()))

	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "its own file only")

	require.NoError(t, l.Release())
	require.NoError(t, l.Release(), "twice")
	l, err = dirlock.Acquire(dir)
	require.NoError(t, err)
	require.NoError(t, l.Release())
}

func TestSubFolder(t *testing.T) {
	parent := t.TempDir()
	one, err := dirlock.SubFolder(parent, "one")
	require.NoError(t, err)
	other, err := dirlock.SubFolder(parent, "other")
	require.NoError(t, err, "another store in the same folder")
	require.NotEqual(t, one.Dir(), other.Dir())
	require.Equal(t, parent, filepath.Dir(one.Dir()))
	_, err = dirlock.SubFolder(parent, "one")
	require.ErrorAs(t, err, new(*dirlock.InUseError))
	require.NoError(t, one.Release())
	require.NoError(t, other.Release())
}

const dirVar = "DIRLOCK_TEST_DIR"

// TestOtherProcess: the folder of another process is refused with its number, and free
// when that process has been killed.
func TestOtherProcess(t *testing.T) {
	if dir := os.Getenv(dirVar); dir != "" {
		if _, err := dirlock.Acquire(dir); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("locked\n")
		time.Sleep(time.Minute)
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestOtherProcess$")
	cmd.Env = append(os.Environ(), dirVar+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	buf := make([]byte, 64)
	n, err := out.Read(buf)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(buf[:n]), "locked"), "%s", buf[:n])

	_, err = dirlock.Acquire(dir)
	var inUse *dirlock.InUseError
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, cmd.Process.Pid, inUse.PID)

	require.NoError(t, cmd.Process.Kill())
	var killed *exec.ExitError
	require.True(t, errors.As(cmd.Wait(), &killed))
	l, err := dirlock.Acquire(dir)
	require.NoError(t, err)
	require.NoError(t, l.Release())
}

func TestAcquireFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := dirlock.Acquire(file)
	require.ErrorContains(t, err, file)
	require.False(t, errors.As(err, new(*dirlock.InUseError)))
}
