package pebblekv

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// unitOnDisk returns a finished unit of the keys k0000 to k<n-1>, and the path of its file.
func unitOnDisk(t *testing.T, s *Store, n int, opts kv.ImportOptions) *importUnit {
	t.Helper()
	var err error
	opts.Dir = t.TempDir()
	opts.Version, err = s.CurrentTS(t.Context())
	require.NoError(t, err)
	w, err := s.NewImportWriter(t.Context(), opts)
	require.NoError(t, err)
	for i := range n {
		require.NoError(t, w.Add(fmt.Appendf(nil, "k%04d", i), fmt.Appendf(nil, "%064d", i*i)))
	}
	u, err := w.Finish(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, u.Discard()) })
	return u.(*importUnit)
}

// requireDamaged imports a unit and requires that it is refused, and that the store has taken in nothing.
func requireDamaged(t *testing.T, s *Store, u *importUnit, how string) {
	t.Helper()
	before := s.db.Metrics().Ingest.Count
	err := s.Import(t.Context(), []kv.ImportUnit{u})
	var damaged *kv.DamagedUnitError
	require.ErrorAs(t, err, &damaged)
	require.Equal(t, u.path, damaged.File)
	require.False(t, damaged.Imported)
	require.ErrorContains(t, err, how)
	require.Equal(t, before, s.db.Metrics().Ingest.Count)
	require.Empty(t, rawVersions(t, s))
}

// TestFlippedBitOfAUnitIsFound: any bit of a file may get lost between its writing and its import.
func TestFlippedBitOfAUnitIsFound(t *testing.T) {
	rnd := randtest.Rand(t)
	for _, opts := range []kv.ImportOptions{{}, {RangeReadsOnly: true}} {
		s := open(t, t.TempDir(), Options{})
		u := unitOnDisk(t, s, 3000, opts)
		intact, err := os.ReadFile(u.path)
		require.NoError(t, err)
		require.Len(t, intact, int(u.size))
		for i := range 200 {
			at := rnd.IntN(len(intact))
			if i%2 == 0 { // what describes the file stands at its end
				at = len(intact) - 1 - rnd.IntN(1<<10)
			}
			flipBit(t, u.path, int64(at))
			if i < 20 {
				requireDamaged(t, s, u, "")
			}
			var damaged *kv.DamagedUnitError
			require.ErrorAs(t, s.checkUnits(t.Context(), []*importUnit{u}), &damaged)
			require.NoError(t, os.WriteFile(u.path, intact, 0o600))
		}
		require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{u}))
		require.Len(t, rawVersions(t, s), 3000)
	}
}

// replaceUnit writes another file in the place of a unit's, of the keys k0000 to k<n-1> that write leaves in.
func replaceUnit(t *testing.T, s *Store, u *importUnit, n int, write func(w *sstable.Writer, i int, key []byte) error) {
	t.Helper()
	f, err := s.fs.Create(u.path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), s.engOpts.MakeWriterOptions(bottomLevel, s.db.TableFormat()))
	for i := range n {
		require.NoError(t, write(w, i, appendVersion(nil, fmt.Appendf(nil, "k%04d", i), u.version)))
	}
	require.NoError(t, w.Close())
	info, err := s.fs.Stat(u.path)
	require.NoError(t, err)
	u.size = uint64(info.Size()) // or nothing else would be looked at
}

// TestUnitsAreComparedWithTheirFiles: a file with right checksums need not be that of the unit.
func TestUnitsAreComparedWithTheirFiles(t *testing.T) {
	const n = 100
	value := []byte("1")
	set := func(w *sstable.Writer, _ int, key []byte) error { return w.Set(key, value) }
	for name, test := range map[string]struct {
		damage func(t *testing.T, s *Store, u *importUnit)
		how    string
	}{
		"truncated": {func(t *testing.T, _ *Store, u *importUnit) {
			require.NoError(t, os.Truncate(u.path, int64(u.size)-1))
		}, "bytes, not"},
		"empty": {func(t *testing.T, _ *Store, u *importUnit) { require.NoError(t, os.Truncate(u.path, 0)) }, "it has 0 bytes"},
		"longer": {func(t *testing.T, _ *Store, u *importUnit) {
			f, err := os.OpenFile(u.path, os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = f.WriteString("x")
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}, "bytes, not"},
		"an entry is lost": {func(t *testing.T, s *Store, u *importUnit) {
			replaceUnit(t, s, u, n, func(w *sstable.Writer, i int, key []byte) error {
				if i == n/2 {
					return nil
				}
				return w.Set(key, value)
			})
		}, "it has 99 entries"},
		"a value is a deletion": {func(t *testing.T, s *Store, u *importUnit) {
			replaceUnit(t, s, u, n, func(w *sstable.Writer, i int, key []byte) error {
				if i == n/2 {
					return w.Delete(key)
				}
				return w.Set(key, value)
			})
		}, "1 deletions"},
		"a range is deleted": {func(t *testing.T, s *Store, u *importUnit) {
			replaceUnit(t, s, u, n, func(w *sstable.Writer, i int, key []byte) error {
				if i == 0 {
					if err := w.DeleteRange(appendBare(nil, []byte("a")), appendBare(nil, []byte("b"))); err != nil {
						return err
					}
				}
				return w.Set(key, value)
			})
		}, "1 deletions"},
		"other keys": {func(t *testing.T, s *Store, u *importUnit) {
			replaceUnit(t, s, u, n, func(w *sstable.Writer, i int, key []byte) error {
				key[0] = 'j'
				return w.Set(key, value)
			})
		}, "its first key"},
		"another end": {func(t *testing.T, s *Store, u *importUnit) {
			replaceUnit(t, s, u, n+1, func(w *sstable.Writer, i int, key []byte) error {
				if i == n/2 {
					return nil
				}
				return w.Set(key, value)
			})
		}, "its last key"},
		"another version": {func(t *testing.T, s *Store, u *importUnit) {
			u.version--
			replaceUnit(t, s, u, n, set)
			u.version++
		}, "its first key"},
		"a part that no index names": {func(t *testing.T, s *Store, u *importUnit) {
			replaceUnit(t, s, u, n, set)
			data, err := os.ReadFile(u.path)
			require.NoError(t, err)
			footer := len(data) - int(footerLen(t, s, u))
			data = []byte(string(data[:footer]) + strings.Repeat("x", 100) + string(data[footer:]))
			require.NoError(t, os.WriteFile(u.path, data, 0o600))
			u.size = uint64(len(data))
		}, "its blocks end at"},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), Options{})
			u := unitOnDisk(t, s, n, kv.ImportOptions{})
			require.NoError(t, s.checkUnits(t.Context(), []*importUnit{u}))
			test.damage(t, s, u)
			requireDamaged(t, s, u, test.how)
		})
	}
}

// footerLen returns the length of a file's footer.
func footerLen(t *testing.T, s *Store, u *importUnit) uint64 {
	t.Helper()
	f, err := s.fs.Open(u.path)
	require.NoError(t, err)
	readable, err := sstable.NewSimpleReadable(f)
	require.NoError(t, err)
	r, err := sstable.NewReader(t.Context(), readable, s.engOpts.MakeReaderOptions())
	require.NoError(t, err)
	l, err := r.Layout()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	return l.Footer.Length
}

// TestEndedCheckIsNoDamage: an import that was ended leaves its files as they were.
func TestEndedCheckIsNoDamage(t *testing.T) {
	s := inMemory(t)
	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	unit := finishedUnit(t, s, version, "1", "a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	f, err := s.fs.Open(unit.(*importUnit).path)
	require.NoError(t, err)
	defer f.Close()
	file := untilDone{f, ctx}
	_, err = file.ReadAt(make([]byte, 1), 0)
	require.NoError(t, err)
	cancel()
	_, err = file.ReadAt(make([]byte, 1), 0)
	require.ErrorIs(t, err, context.Canceled)
	err = s.checkUnit(ctx, unit.(*importUnit))
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorAs(t, err, new(*kv.DamagedUnitError))
	require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{unit}))
}
