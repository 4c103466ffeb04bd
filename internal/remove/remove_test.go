package remove_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/remove"
)

func TestFoldersThatGetNewFilesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notEmpty := fmt.Errorf("unlink: %w", syscall.ENOTEMPTY)
		calls := 0
		require.NoError(t, remove.Tree(func() error {
			if calls++; calls < 5 {
				return notEmpty
			}
			return nil
		}))
		require.Equal(t, 5, calls)

		begin := time.Now()
		require.ErrorIs(t, remove.Tree(func() error { return notEmpty }), syscall.ENOTEMPTY)
		require.InDelta(t, 2*time.Second, time.Since(begin), float64(100*time.Millisecond))

		other := errors.New("read-only file system")
		calls = 0
		require.ErrorIs(t, remove.Tree(func() error { calls++; return other }), other)
		require.Equal(t, 1, calls)
	})
	dir := filepath.Join(t.TempDir(), "a")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "b"), 0o700))
	require.NoError(t, remove.Tree(func() error { return os.RemoveAll(dir) }))
	require.NoDirExists(t, dir)
}
