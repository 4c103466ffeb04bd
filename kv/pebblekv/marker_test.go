package pebblekv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/kv"
)

// TestOpenFormat1 opens a store that the SQL layer before TiDB's has written: it is
// refused, with what to do, and nothing of it is touched.
func TestOpenFormat1(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/format1")))
	before := contents(t, dir)
	_, err := Open(dir, Options{})
	require.ErrorIs(t, err, kv.ErrFormat)
	for _, part := range []string{dir, "format 1", "dump it with that version", "new store"} {
		require.ErrorContains(t, err, part)
	}
	require.Equal(t, before, contents(t, dir))
}

// A store of a later version is refused in words, and nothing of it is touched: one of a later format, and one whose
// engine is later.
func TestOpenLaterFormats(t *testing.T) {
	for words, make := range map[string]func(t *testing.T, dir string){
		"later version of fastddl: format 3, this version reads up to 2": func(t *testing.T, dir string) {
			name := filepath.Join(dir, markerFile)
			content, err := os.ReadFile(name)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(name, []byte(strings.Replace(string(content), "format 2", "format 3", 1)), 0o600))
		},
		"later version of fastddl: engine's format 999, this version reads up to": func(t *testing.T, dir string) {
			names, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
			require.NoError(t, err)
			require.Len(t, names, 1)
			require.NoError(t, os.Rename(names[0], filepath.Join(dir, "marker.format-version.000999.999")))
		},
	} {
		t.Run(words, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			s := open(t, dir, Options{})
			put(t, s, "a", "1")
			require.NoError(t, s.Close())
			make(t, dir)
			before := contents(t, dir)
			_, err := Open(dir, Options{})
			require.ErrorIs(t, err, kv.ErrFormat)
			require.ErrorContains(t, err, words)
			require.ErrorContains(t, err, "open it with that version")
			require.Equal(t, before, contents(t, dir))
		})
	}
}

// contents reads all files below a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := make(map[string]string)
	for _, path := range list(t, dir) {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			out[path] = string(b)
		}
	}
	return out
}

func TestMarkerDecode(t *testing.T) {
	m, err := newMarker()
	require.NoError(t, err)
	for _, m := range []marker{m, {id: m.id, ready: true}, {id: m.id, ready: true, relaxed: true}} {
		decoded, err := decodeMarker("db/"+markerFile, string(m.encode()))
		require.NoError(t, err)
		require.Equal(t, m, decoded)
	}
	good := string(m.encode())
	for _, c := range []struct {
		name, content string
		want          error
		text          string
	}{
		{"of the earlier SQL layer", "fastddl pebblekv format 1\n", kv.ErrFormat, "dump it with that version"},
		{"without a format", "fastddl store\n", kv.ErrFormat, "dump it with that version"},
		{"newer", strings.Replace(good, "format 2", "format 3", 1), kv.ErrFormat, "later version of fastddl: format 3"},
		{"of a format without a number", strings.Replace(good, "format 2", "format x", 1), kv.ErrFormat, `format "x"`},
		{"somebody else's", "hello\n", kv.ErrNotAStore, `"hello"`},
		{"empty", "", kv.ErrNotAStore, "unknown content"},
		{"without an id", "fastddl pebblekv format 2\nstate ready\n", kv.ErrNotAStore, "damaged"},
		{"cut", good[:40], kv.ErrNotAStore, "damaged"},
		{"without a state", strings.Replace(good, "state new\n", "", 1), kv.ErrNotAStore, "damaged"},
	} {
		_, err := decodeMarker("db/"+markerFile, c.content)
		require.ErrorIs(t, err, c.want, c.name)
		require.ErrorContains(t, err, c.text, c.name)
	}
}

// TestStoreID: a store's id stays, and no two stores have the same.
func TestStoreID(t *testing.T) {
	mem := vfs.NewMem()
	s := open(t, "a", Options{FS: mem})
	other := open(t, "b", Options{FS: mem})
	require.Len(t, s.ID(), 2*idBytes)
	require.NotEqual(t, s.ID(), other.ID())
	id := s.ID()
	require.Equal(t, id, reopen(t, s).(*Store).ID())
}

// TestMissingEngineFiles: a store that lost a file which says what is in it is not
// taken for an empty one.
func TestMissingEngineFiles(t *testing.T) {
	for _, prefix := range []string{"marker.manifest.", "marker.format-version.", "MANIFEST-"} {
		t.Run(prefix, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			s := open(t, dir, Options{})
			put(t, s, "a", "1")
			require.NoError(t, s.Close())
			files, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
			require.NoError(t, err)
			require.NotEmpty(t, files)
			aside := t.TempDir()
			for _, f := range files {
				require.NoError(t, os.Rename(f, filepath.Join(aside, filepath.Base(f))))
			}
			before := contents(t, dir)
			_, err = Open(dir, Options{})
			require.ErrorIs(t, err, kv.ErrDamaged)
			require.ErrorContains(t, err, prefix, "the error names what is missing")
			require.Equal(t, before, contents(t, dir), "the folder was changed")

			for _, f := range files {
				require.NoError(t, os.Rename(filepath.Join(aside, filepath.Base(f)), f))
			}
			s = open(t, dir, Options{})
			require.Equal(t, []version2{{"a", "1"}}, values(t, s))
		})
	}
}

// TestMissingTable: a table that the manifest names and that is not there is named
// when the store is opened.
func TestMissingTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, dir, Options{})
	put(t, s, "a", "1")
	require.NoError(t, s.db.Flush())
	require.NoError(t, s.Close())
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	require.NoError(t, os.Remove(tables[0]))
	_, err = Open(dir, Options{})
	require.ErrorIs(t, err, kv.ErrDamaged)
	require.ErrorContains(t, err, strings.TrimSuffix(filepath.Base(tables[0]), ".sst"))
}

// TestFilesArePrivate: only the owner may read files of the store, of any origin.
func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, dir, Options{})
	put(t, s, "a", "1")
	require.NoError(t, s.db.Flush())
	imports := t.TempDir()
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	w, err := s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: imports, Version: ts})
	require.NoError(t, err)
	require.NoError(t, w.Add([]byte("b"), []byte("1")))
	unit, err := w.Finish(t.Context())
	require.NoError(t, err)
	requirePrivate(t, imports, false)
	require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{unit}))
	requirePrivate(t, dir, true)
	require.NoError(t, s.Close())

	// As an earlier version has left them.
	for _, path := range list(t, dir) {
		info, err := os.Stat(path)
		require.NoError(t, err)
		mode := fs.FileMode(0o644)
		if info.IsDir() {
			mode = 0o755
		}
		require.NoError(t, os.Chmod(path, mode))
	}
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(dir, link))
	open(t, link, Options{})
	requirePrivate(t, dir, true)
}

func requirePrivate(t *testing.T, dir string, folderToo bool) {
	t.Helper()
	for _, path := range list(t, dir) {
		if path == dir && !folderToo {
			continue
		}
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed by the engine meanwhile
		}
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s has mode %s", path, info.Mode())
	}
}

// TestFilesVanishWhileMadePrivate: others may work in the folder for temporary files meanwhile.
func TestFilesVanishWhileMadePrivate(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "x")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		require.NoError(t, os.Remove(path))
		require.NoError(t, privateFolder(dir).visit(path, entry, nil))
		_, err := os.ReadDir(path)
		require.Error(t, err)
		require.NoError(t, privateFolder(dir).visit(path, entry, err))
	}
}
