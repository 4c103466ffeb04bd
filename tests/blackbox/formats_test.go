package blackbox

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFormats opens a store of each format that was ever released and that this
// version must read. Each was left by kill -9, with a paused job that adds two
// indexes to table big. (kv/pebblekv has the formats that are refused.)
func TestFormats(t *testing.T) {
	stores, err := filepath.Glob("testdata/format*.tar.gz")
	require.NoError(t, err)
	require.NotEmpty(t, stores)
	for _, store := range stores {
		t.Run(filepath.Base(store), func(t *testing.T) {
			dir := t.TempDir()
			unpack(t, store, dir)
			n := startNodeAsIs(t, dir)
			db := n.db()
			require.Equal(t, [][]string{{"1", "10", "a", "[1, 2]"}, {"2", "20", "b", "[2, 3]"}, {"3", "NULL", "c", "NULL"}},
				queryAll(t, db, "SELECT * FROM t"))
			require.Equal(t, [][]string{{"2"}}, queryAll(t, db, "SELECT id FROM t USE INDEX (b) WHERE b = 20"))
			require.Equal(t, [][]string{{"y"}, {"z"}}, queryAll(t, db, "SELECT id FROM p USE INDEX (b) WHERE b = 2 ORDER BY id"))
			before := queryAll(t, db, "SELECT COUNT(*), SUM(a), SUM(b) FROM big")
			require.Equal(t, "883", before[0][0])

			var jobs [][]string // which are loaded while statements are served already
			require.Eventually(t, func() bool {
				jobs = queryAll(t, db, "SELECT job_id FROM mysql.fastddl_ddl_jobs WHERE state = 'paused'")
				return len(jobs) == 1
			}, startTimeout, pollInterval)
			mustExec(t, db, "INSERT INTO big (a, b) VALUES (-2, -2)")
			mustExec(t, db, "ADMIN RESUME DDL JOBS "+jobs[0][0])
			waitForJobs(t, db)
			require.Equal(t, []string{"PRIMARY", "ab", "b"}, indexNames(t, db, "big"))
			require.Equal(t, [][]string{{"884"}}, queryAll(t, db, "SELECT COUNT(*) FROM big USE INDEX (ab)"))
			for _, table := range []string{"t", "p", "big"} {
				checkTable(t, db, table)
			}

			reader := n.openAs("reader", "secret", "test")
			require.Equal(t, "884", value(t, reader, "SELECT COUNT(*) FROM big"))
			_, err := reader.Exec("DELETE FROM t")
			require.ErrorContains(t, err, "Error 1142")
			require.Zero(t, n.terminate())
		})
	}
}

// unpack extracts an archive of a store.
func unpack(t *testing.T, archive, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		name := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(name, 0o700))
			continue
		}
		out, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = io.Copy(out, r)
		require.NoError(t, errors.Join(err, out.Close()))
	}
}
