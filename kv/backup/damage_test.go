package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
)

// TestDamageIsFound: a changed, shortened or missing file fails the verification, which names it; what is copied for a restore is checked too,
// and nothing stays of that.
func TestDamageIsFound(t *testing.T) {
	rnd := randtest.Rand(t)
	for _, copied := range []bool{false, true} {
		dir := t.TempDir()
		s := openStore(t, filepath.Join(dir, "db"))
		for i := range 200 {
			set(t, s, fmt.Sprint("key", i), string(make([]byte, 10_000)))
		}
		tk := NewTaker(s, "v1", nil)
		if copied {
			otherFileSystem(tk)
		}
		to := filepath.Join(dir, "backup")
		_, err := tk.Take(t.Context(), Request{Dir: to})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		m, err := Read(to)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(m.Files, func(f File) bool { return pebblekv.IsTable(f.Name) }), "there are no tables")
		for _, f := range m.Files {
			if f.Size == 0 {
				continue
			}
			path := filepath.Join(to, dataFolder, f.Name)
			whole, err := os.ReadFile(path)
			require.NoError(t, err)
			flipped := slices.Clone(whole)
			flipped[rnd.IntN(len(flipped))] ^= 1 << rnd.IntN(8)
			for what, content := range map[string][]byte{"a flipped bit": flipped, "a shorter file": whole[:len(whole)-1], "a longer file": append(slices.Clone(whole), 0), "no file": nil} {
				require.NoError(t, os.RemoveAll(path)) // a new file: the store may share the old one
				if content != nil {
					require.NoError(t, os.WriteFile(path, content, 0o600))
				}
				_, err := Verify(t.Context(), to, nil)
				require.ErrorIs(t, err, kv.ErrDamaged, "%s of %s", what, f.Name)
				require.ErrorContains(t, err, f.Name, what)
				if what == "a flipped bit" && pebblekv.IsTable(f.Name) {
					continue // a table is not read to be linked
				}
				_, err = Restore(t.Context(), to, filepath.Join(dir, "restored"), nil)
				require.ErrorIs(t, err, kv.ErrDamaged, "%s of %s", what, f.Name)
				require.NoDirExists(t, filepath.Join(dir, "restored"))
			}
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, os.WriteFile(path, whole, 0o600))
		}
		_, err = Verify(t.Context(), to, nil)
		require.NoError(t, err)
	}
}

// TestRestoreIsRefused where it would overwrite something, or there is no backup.
func TestRestoreIsRefused(t *testing.T) {
	dir := t.TempDir()
	db, to := filepath.Join(dir, "db"), filepath.Join(dir, "backup")
	s := openStore(t, db)
	_, err := NewTaker(s, "v1", nil).Take(t.Context(), Request{Dir: to})
	require.NoError(t, err)
	for path, says := range map[string]string{db: "is not empty", to: "lie in one another", filepath.Join(to, "db"): "lie in one another", dir: "lie in one another"} {
		_, err := Restore(t.Context(), to, path, nil)
		require.ErrorContains(t, err, says, path)
	}
	_, err = pebblekv.Open(to, pebblekv.Options{})
	require.ErrorContains(t, err, "holds a backup")
	interrupted, empty := filepath.Join(dir, "interrupted"), filepath.Join(dir, "empty")
	require.NoError(t, os.MkdirAll(filepath.Join(interrupted, dataFolder), 0o700))
	require.NoError(t, os.Mkdir(empty, 0o700))
	for path, says := range map[string]string{
		interrupted: "interrupted", empty: "is empty", db: "has no FASTDDL-BACKUP", filepath.Join(dir, "none"): "no such file",
	} {
		_, err := Restore(t.Context(), path, filepath.Join(dir, "restored"), nil)
		require.ErrorIs(t, err, ErrNotABackup, path)
		require.ErrorContains(t, err, says, path)
		_, err = Verify(t.Context(), path, nil)
		require.ErrorIs(t, err, ErrNotABackup, path)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Restore(ended, to, filepath.Join(dir, "restored"), nil)
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, filepath.Join(dir, "restored"))
}

// TestMetadataAreChecked: other formats are refused in words, and changes of the text are damage.
func TestMetadataAreChecked(t *testing.T) {
	crc := uint32(7)
	m := &Metadata{TS: 42, StoreID: "x", StoreFormat: pebblekv.Format, Version: "v1", Files: []File{{Name: "000001.sst", Size: 7}, {Name: "MANIFEST-1", Size: 3, CRC: &crc}}}
	good, err := m.encode()
	require.NoError(t, err)
	read, err := decode("d", good)
	require.NoError(t, err)
	require.Equal(t, m.Files, read.Files)
	require.EqualValues(t, 42, read.TS)
	for i := range good {
		changed := slices.Clone(good)
		changed[i] ^= 1
		_, err := decode("d", changed)
		require.Error(t, err, "byte %d", i)
	}
	later := slices.Clone(good)
	later[len(title)] = '2'
	_, err = decode("d", later)
	require.ErrorIs(t, err, kv.ErrFormat)
	require.ErrorContains(t, err, "format 2, this version reads 1: restore it with the version that took it")
	for change, want := range map[*func(*Metadata)]error{
		ptr(func(m *Metadata) { m.StoreFormat++ }):              kv.ErrFormat,
		ptr(func(m *Metadata) { m.Files[0].Name = "../x.sst" }): kv.ErrDamaged,
		ptr(func(m *Metadata) { m.Files[0].Name = ".." }):       kv.ErrDamaged,
		ptr(func(m *Metadata) { m.Files[0].Name = "" }):         kv.ErrDamaged,
		ptr(func(m *Metadata) { m.Files[0].Size = -1 }):         kv.ErrDamaged,
	} {
		other := *m
		other.Files = slices.Clone(m.Files)
		(*change)(&other)
		content, err := other.encode()
		require.NoError(t, err)
		_, err = decode("d", content)
		require.ErrorIs(t, err, want)
	}
}

func ptr[T any](v T) *T { return &v }

// FuzzDecode: no content of a file of metadata makes a panic, and what is accepted is written as it was read.
func FuzzDecode(f *testing.F) {
	good, err := (&Metadata{TS: 1, StoreFormat: pebblekv.Format, Files: []File{{Name: "a", Size: 1}}}).encode()
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(title + "1\ncrc32c 00000000\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		m, err := decode("d", content)
		if err != nil {
			return
		}
		again, err := m.encode()
		require.NoError(t, err)
		read, err := decode("d", again)
		require.NoError(t, err)
		require.Equal(t, m.Files, read.Files)
	})
}
