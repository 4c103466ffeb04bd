package pebblekv

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// checkpointOf makes a checkpoint of some keys at a new timestamp.
func checkpointOf(t *testing.T, s *Store, name string, spans ...kv.KeyRange) (c *Checkpoint, ts uint64) {
	t.Helper()
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	c, err = s.CheckpointOf(t.Context(), CheckpointOptions{Name: name, Spans: spans})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Discard()) })
	return c, ts
}

// TestCheckpointsOfSpans: each holds its keys as they were, regardless of later flushes, compactions and writes, and can be read beside
// the store, at timestamps from before it.
func TestCheckpointsOfSpans(t *testing.T) {
	r := randtest.Rand(t)
	s := open(t, filepath.Join(t.TempDir(), "db"), Options{})
	write := func(n int) {
		for range n {
			put(t, s, fmt.Sprintf("%c%03d", 'a'+r.IntN(4), r.IntN(200)), fmt.Sprint(r.Uint64()))
		}
	}
	for round := range 8 {
		write(100)
		if r.IntN(2) == 0 {
			require.NoError(t, s.db.Flush())
		}
		span := kv.PrefixRange([]byte{byte('a' + r.IntN(4))})
		c, ts := checkpointOf(t, s, fmt.Sprintf("one-%d", round), span)
		want := seenAt(t, s, ts)
		write(50)
		if r.IntN(2) == 0 {
			require.NoError(t, s.db.Compact(t.Context(), appendBare(nil, []byte("a")), appendBare(nil, []byte("e")), false))
		}
		copied, err := OpenCheckpoint(c.Dir, Options{})
		require.NoError(t, err)
		got := seenAt(t, copied, ts)
		for key, value := range want {
			if span.Contains([]byte(key)) {
				require.Equal(t, value, got[key], "round %d, key %s", round, key)
			}
		}
		for key := range got {
			if span.Contains([]byte(key)) {
				require.Contains(t, want, key, "round %d", round)
			}
		}
		require.NoError(t, copied.Close())
		require.NoFileExists(t, filepath.Join(c.Dir, reserveFile), "a copy needs no reserve")
		_, err = OpenCheckpoint(c.Dir, Options{})
		require.ErrorContains(t, err, "was opened before")
	}
}

// TestCheckpointNames: several have names of their own, which are none of other folders; a crash leaves none of them.
func TestCheckpointNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, dir, Options{})
	put(t, s, "a", "1")
	for _, name := range []string{"one", "two"} {
		_, err := s.CheckpointOf(t.Context(), CheckpointOptions{Name: name})
		require.NoError(t, err)
		_, err = s.CheckpointOf(t.Context(), CheckpointOptions{Name: name})
		require.ErrorContains(t, err, "another checkpoint")
	}
	for _, name := range []string{"", "..", ".", "../one", "one/two"} {
		_, err := s.CheckpointOf(t.Context(), CheckpointOptions{Name: name})
		require.Error(t, err, "name %q", name)
	}
	s = reopen(t, s).(*Store)
	require.NoDirExists(t, filepath.Join(dir, checkpointDir))
	requireReadable(t, s, true, "a")
}

// TestUnitsOfOtherProcesses: a file that another store has written is imported by its description, if that is right.
func TestUnitsOfOtherProcesses(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "db"), Options{})
	c, _ := checkpointOf(t, s, "one")
	copied, err := OpenCheckpoint(c.Dir, Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, copied.Close()) }()
	version, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	w, err := copied.NewImportWriter(t.Context(), kv.ImportOptions{Dir: t.TempDir(), Version: version})
	require.NoError(t, err)
	for i := range 100 {
		require.NoError(t, w.Add(fmt.Appendf(nil, "k%04d", i), []byte("v")))
	}
	unit, err := w.Finish(t.Context())
	require.NoError(t, err)
	right, err := FileOf(unit)
	require.NoError(t, err)
	for name, change := range map[string]func(f *UnitFile){
		"size":       func(f *UnitFile) { f.Size++ },
		"count":      func(f *UnitFile) { f.Count-- },
		"no count":   func(f *UnitFile) { f.Count = 0 },
		"version":    func(f *UnitFile) { f.Version-- },
		"no version": func(f *UnitFile) { f.Version = 0 },
		"start":      func(f *UnitFile) { f.Start = append([]byte("a"), f.Start...) },
		"end":        func(f *UnitFile) { f.End = kv.NextKey(f.End) },
		"no end":     func(f *UnitFile) { f.End = nil },
		"empty":      func(f *UnitFile) { f.End = f.Start },
		"records":    func(f *UnitFile) { f.End = []byte{0xff, 0xff} },
		"no file":    func(f *UnitFile) { f.Path += "x" },
	} {
		wrong := right
		change(&wrong)
		u, err := s.Unit(wrong)
		if err == nil {
			err = s.Import(t.Context(), []kv.ImportUnit{u})
		}
		require.Error(t, err, name)
		require.FileExists(t, right.Path)
	}
	u, err := s.Unit(right)
	require.NoError(t, err)
	require.NoError(t, s.Import(t.Context(), []kv.ImportUnit{u}))
	require.Len(t, seenAt(t, s, version), 100)
	_, err = os.Stat(right.Path)
	require.ErrorIs(t, err, os.ErrNotExist, "the store has taken it")
}

// TestCheckpointsWithoutLinks: where a checkpoint would copy all tables, one that is to be links is refused, and nothing of it stays.
func TestCheckpointsWithoutLinks(t *testing.T) {
	fsys := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpLink {
			return syscall.EPERM
		}
		return nil
	}))
	s := open(t, "db", Options{FS: fsys})
	put(t, s, "a", "1")
	_, err := s.CheckpointOf(t.Context(), CheckpointOptions{Name: "one", LinksOnly: true})
	require.ErrorIs(t, err, syscall.EPERM)
	_, err = fsys.Stat(filepath.Join("db", checkpointDir, "one"))
	require.Error(t, err)
	_, err = s.CheckpointOf(t.Context(), CheckpointOptions{Name: "one"})
	require.NoError(t, err, "it is copied")
}
