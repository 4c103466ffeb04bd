package bench

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatchSeesPeaks(t *testing.T) {
	dir := t.TempDir()
	stop, err := watch(dir)
	require.NoError(t, err)
	file := filepath.Join(dir, "sub", "run")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, make([]byte, 5000), 0o600))
	time.Sleep(5 * sampleEvery)
	require.NoError(t, os.Remove(file))
	time.Sleep(2 * sampleEvery)
	p, err := stop()
	require.NoError(t, err)
	require.Equal(t, int64(5000), p.tempBytes)
	require.Greater(t, p.rssBytes, uint64(1<<20))
}

func TestWatchOfAFolderThatIsNotThere(t *testing.T) {
	stop, err := watch(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	p, err := stop()
	require.NoError(t, err)
	require.Zero(t, p.tempBytes)
}
