package pebblekv

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/internal/memory"
	"fastddl/kv"
)

func TestOpenTwice(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir, Options{})
	_, err := Open(dir, Options{})
	require.ErrorIs(t, err, kv.ErrLocked)
	require.ErrorContains(t, err, dir)
	require.NoError(t, s.Close())
	require.NoError(t, open(t, dir, Options{}).Close())

	mem := vfs.NewMem()
	open(t, "db", Options{FS: mem})
	_, err = Open("db", Options{FS: mem})
	require.ErrorIs(t, err, kv.ErrLocked)
}

const lockedDirVar = "PEBBLEKV_TEST_LOCKED_DIR"

// TestOpenElsewhere opens a store that this process holds from another one.
func TestOpenElsewhere(t *testing.T) {
	if dir := os.Getenv(lockedDirVar); dir != "" {
		_, err := Open(dir, Options{})
		require.ErrorIs(t, err, kv.ErrLocked)
		return
	}
	dir := t.TempDir()
	open(t, dir, Options{})
	cmd := exec.Command(os.Args[0], "-test.run=^TestOpenElsewhere$", "-test.v")
	cmd.Env = append(os.Environ(), lockedDirVar+"="+dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "PASS: TestOpenElsewhere")
}

func TestOpenNotAStore(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, path string)
		sub     string
		want    error
	}{
		{"file", func(t *testing.T, path string) { write(t, path, "x") }, "", kv.ErrNotAStore},
		{"below a file", func(t *testing.T, path string) { write(t, path, "x") }, "db", kv.ErrNotAStore},
		{"other files", func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o755))
			write(t, filepath.Join(path, "thesis.txt"), "x")
		}, "", kv.ErrNotAStore},
		{"a file of that name", func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o755))
			write(t, filepath.Join(path, lostAndFound), "x")
		}, "", kv.ErrNotAStore},
		{"files in the root of a file system", func(t *testing.T, path string) {
			require.NoError(t, os.MkdirAll(filepath.Join(path, lostAndFound), 0o700))
			write(t, filepath.Join(path, "thesis.txt"), "x")
		}, "", kv.ErrNotAStore},
		{"root of a new file system", func(t *testing.T, path string) {
			require.NoError(t, os.MkdirAll(filepath.Join(path, lostAndFound), 0o700))
		}, "", nil},
		{"newer format", func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o755))
			write(t, filepath.Join(path, markerFile), "fastddl pebblekv format 9\n")
		}, "", kv.ErrFormat},
		{"empty folder", func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o755)) }, "", nil},
		{"nothing", func(*testing.T, string) {}, "", nil},
		{"interrupted", func(t *testing.T, path string) {
			require.NoError(t, os.Mkdir(path, 0o755))
			write(t, filepath.Join(path, lockFile), "")
			write(t, filepath.Join(path, markerFile+".tmp"), "fast")
		}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "path")
			c.prepare(t, path)
			before := list(t, filepath.Dir(path))
			s, err := Open(filepath.Join(path, c.sub), Options{})
			if c.want == nil {
				require.NoError(t, err)
				require.NoError(t, s.Close())
				return
			}
			require.ErrorIs(t, err, c.want)
			require.Equal(t, before, list(t, filepath.Dir(path)), "a stranger's folder was changed")
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// list names everything below a folder.
func list(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		out = append(out, path)
		return err
	}))
	return out
}

func TestOpenWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("nothing is forbidden to root")
	}
	dir := filepath.Join(t.TempDir(), "locked")
	require.NoError(t, os.Mkdir(dir, 0o500))
	_, err := Open(filepath.Join(dir, "db"), Options{})
	require.ErrorIs(t, err, fs.ErrPermission)
	require.True(t, strings.Contains(err.Error(), dir))
}

func TestOptionsValidate(t *testing.T) {
	_, err := Open("db", Options{FS: vfs.NewMem(), CacheBytes: -1, MemTableBytes: -1})
	require.ErrorContains(t, err, "cache")
	require.ErrorContains(t, err, "memtable")
	var opts Options
	opts.EnsureDefaults()
	require.NoError(t, opts.Validate())
	budget := memory.Divide(0)
	require.Equal(t, budget.BlockCache, opts.CacheBytes)
	require.Equal(t, budget.MemTable, opts.MemTableBytes)
	require.Equal(t, defaultGCLifeTime, opts.GCLifeTime())
	require.Equal(t, defaultGCInterval, opts.GCRunInterval())
}
