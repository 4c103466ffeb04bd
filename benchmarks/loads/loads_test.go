package loads_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/benchmarks/loads"
)

// TestFastDDL loads few rows with the project's own server.
func TestFastDDL(t *testing.T) { load(t, "fastddl") }

// TestPeers does it with all systems that are installed.
func TestPeers(t *testing.T) {
	if os.Getenv("FASTDDL_LONG") == "" {
		t.Skip("starts servers of other makers: runs with FASTDDL_LONG=1")
	}
	load(t)
}

func load(t *testing.T, systems ...string) {
	binary := os.Getenv("FASTDDL_BIN")
	if binary == "" {
		binary = "../../bin/fastddl"
	}
	binary, err := filepath.Abs(binary)
	require.NoError(t, err)
	require.FileExists(t, binary, "run make build")
	opts := loads.Options{FastDDL: binary, Dir: t.TempDir(), Systems: systems, Rows: 3000, Rounds: 2, Progress: func(line string) { t.Log(line) }}
	require.NoError(t, os.Chmod(opts.Dir, 0o711), "servers under other accounts have folders in it")
	require.NoError(t, os.Chmod(filepath.Dir(opts.Dir), 0o711))
	found, size, err := loads.Run(t.Context(), opts)
	require.NoError(t, err)
	require.Positive(t, size)
	for _, f := range found {
		if f.Unavailable != nil {
			t.Logf("%s skipped: %v", f.Name, f.Unavailable)
			continue
		}
		require.Len(t, f.Loads, opts.Rounds)
		require.NotEmpty(t, f.Version)
	}
	require.Contains(t, loads.Markdown(found), "`IMPORT INTO`")
}
