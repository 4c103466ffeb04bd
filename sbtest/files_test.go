package sbtest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/sbtest"
)

// The files together have the rows that the generator gives as one stream.
func TestFilesHaveAllRows(t *testing.T) {
	g := sbtest.Generator{Rows: 260_001, Seed: 1}
	dir := t.TempDir()
	var rows atomic.Int64
	require.NoError(t, g.WriteFiles(t.Context(), dir, func(n int) { rows.Add(int64(n)) }))
	require.EqualValues(t, g.Rows, rows.Load())
	paths, err := filepath.Glob(filepath.Join(dir, "sbtest1.*.csv")) // in order
	require.NoError(t, err)
	require.Len(t, paths, 2)
	var all []byte
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		all = append(all, data...)
	}
	var want bytes.Buffer
	_, err = want.ReadFrom(g.Reader(0, g.Blocks()))
	require.NoError(t, err)
	require.True(t, bytes.Equal(want.Bytes(), all))
	require.Equal(t, `IMPORT INTO sbtest1 FROM '/d/sbtest1.*.csv' WITH fields_terminated_by = '\t'`, sbtest.ImportSQL("/d"))
	require.Error(t, g.WriteFiles(t.Context(), dir, func(int) {}), "files that are there are kept")
}
