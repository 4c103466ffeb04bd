package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a load removes is what loads into the same folder have left, and nothing of a user's.
func TestOldSpoolFoldersAreThoseOfLoads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	own, err := newSpoolFolder(path)
	require.NoError(t, err)
	left, err := newSpoolFolder(path)
	require.NoError(t, err)
	for _, other := range []string{path + "2", path + ".load-2"} { // the folder of the second begins as those of loads into path do
		_, err = newSpoolFolder(other)
		require.NoError(t, err)
	}
	require.NoError(t, os.Mkdir(path+".load-17", 0o700))
	require.NoError(t, os.WriteFile(path+".load-18", nil, 0o600))
	old, err := oldSpoolFolders(path, own)
	require.NoError(t, err)
	require.Equal(t, []string{left}, old)
}

// A socket is one by any path, also without a directory.
func TestLoadTakesARelativeSocket(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("d.t.csv", []byte("1\n"), 0o600))
	dir, err := os.Getwd()
	require.NoError(t, err)
	t.Setenv("HOME", dir)
	for _, args := range [][]string{{"load", "--socket", "no.sock", "d.t.csv"}, {"ctl", "load", "-S", "no.sock", "d.t.csv"}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, 1, run(args, &stdout, &stderr))
		require.Contains(t, stderr.String(), "connect to "+filepath.Join(dir, "no.sock")+": dial unix")
	}
}
