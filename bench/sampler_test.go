package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSamplerKeepsPeaks(t *testing.T) {
	dir := t.TempDir()
	s, err := newSampler(dir)
	require.NoError(t, err)
	file := filepath.Join(dir, "sub", "run")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, make([]byte, 5000), 0o600))
	require.NoError(t, s.look())
	require.NoError(t, os.Remove(file))
	require.NoError(t, s.look())
	require.Equal(t, int64(5000), s.tempBytes)
	require.Greater(t, s.rssBytes, uint64(1<<20))
}

func TestWatchLooksAtLeastOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run"), make([]byte, 5000), 0o600))
	stop, err := watch(dir)
	require.NoError(t, err)
	p, err := stop()
	require.NoError(t, err)
	require.Equal(t, int64(5000), p.tempBytes)
	require.Positive(t, p.rssBytes)
}

func TestWatchOfAFolderThatIsNotThere(t *testing.T) {
	stop, err := watch(filepath.Join(t.TempDir(), "none"))
	require.NoError(t, err)
	p, err := stop()
	require.NoError(t, err)
	require.Zero(t, p.tempBytes)
}
