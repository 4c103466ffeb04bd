package backup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDiscardRemovesOnlyWhatItMade: what another has put beside the folder stays.
func TestDiscardRemovesOnlyWhatItMade(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a", "b", "c")
	made, err := takeFolder(path, "a test")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
	require.NoError(t, made.discard())
	require.NoDirExists(t, filepath.Join(root, "a"))

	made, err = takeFolder(path, "a test")
	require.NoError(t, err)
	other := filepath.Join(root, "a", "other")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, made.discard())
	require.NoDirExists(t, filepath.Dir(path))
	require.FileExists(t, other)
}
