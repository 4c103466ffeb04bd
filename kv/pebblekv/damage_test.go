package pebblekv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fastddl/kv"
)

// TestDamagedTable flips a bit in a block of a table in L0. The store opens, only reads of
// that block fail, writes go on, and compactions neither stop the process nor try again
// all the time.
func TestDamagedTable(t *testing.T) {
	for _, keys := range []int{1, 60} {
		t.Run(fmt.Sprintf("keys=%d", keys), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			s := open(t, dir, Options{})
			var b []string
			for i := range keys {
				b = append(b, fmt.Sprintf("b%03d", i))
			}
			require.NoError(t, writeKeys(t.Context(), s, 5000, b...))
			require.NoError(t, s.db.Flush())
			require.NoError(t, writeKeys(t.Context(), s, 5000, "a"))
			require.NoError(t, s.db.Flush())
			require.NoError(t, s.Close())
			flipBit(t, largestTable(t, dir, keys), 100) // in the first block

			core, logs := observer.New(zap.InfoLevel)
			s = open(t, dir, Options{Logger: zap.New(core), GCLifeTime: func() time.Duration { return -time.Hour }})
			requireReadable(t, s, true, "a")
			if keys > 1 {
				requireReadable(t, s, true, b[keys-1])
			}
			ts, err := s.CurrentTS(t.Context())
			require.NoError(t, err)
			snap, err := s.Snapshot(t.Context(), ts)
			require.NoError(t, err)
			for range 100 {
				_, err = snap.Get(t.Context(), []byte(b[0]))
				require.True(t, pebble.IsCorruptionError(err), "%v", err)
			}
			require.Error(t, drain(snap.Iter(kv.PrefixRange([]byte("b")))))
			require.NoError(t, drain(snap.Iter(kv.PrefixRange([]byte("a")))))
			require.NoError(t, snap.Close())
			require.ErrorIs(t, s.Damaged(), kv.ErrDamaged)
			require.ErrorContains(t, s.Damaged(), ".sst")

			require.NoError(t, s.Healthy(), "other tables are written to")
			before := s.db.Metrics().Compact
			for i := range 3 * l0CompactionSubs {
				require.NoError(t, writeKeys(t.Context(), s, 5000, "a", "c", fmt.Sprint("new", i)))
				require.NoError(t, s.db.Flush())
			}
			failed := func() bool { return s.db.Metrics().Compact.FailedCount > 0 }
			require.Eventually(t, failed, soon, time.Millisecond, "no compaction has met the damage")
			time.Sleep(300 * time.Millisecond)
			after := s.db.Metrics().Compact
			require.Less(t, after.FailedCount-before.FailedCount, int64(10), "compactions fail all the time")
			require.Less(t, logs.FilterLevelExact(zap.ErrorLevel).Len(), 30)
			requireReadable(t, s, true, "a", "c", "new0")

			// What is damaged can be deleted.
			require.NoError(t, s.DeleteRange(t.Context(), kv.PrefixRange([]byte("b"))))
			requireReadable(t, s, false, b[keys-1])
			s = reopen(t, s).(*Store)
			requireReadable(t, s, true, "a", "c", "new0")
		})
	}
}

// TestGarbageBehindDamage: what lies before and behind a damaged table is collected, in each run.
func TestGarbageBehindDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, dir, Options{})
	var b []string
	for i := range 60 {
		b = append(b, fmt.Sprintf("b%03d", i))
	}
	require.NoError(t, writeKeys(t.Context(), s, 5000, b...))
	require.NoError(t, s.db.Flush())
	for _, keys := range [][]string{{"a"}, {"d"}} { // a file each
		for range 3 {
			require.NoError(t, writeKeys(t.Context(), s, 100, keys...))
		}
		require.NoError(t, s.db.Flush())
	}
	require.NoError(t, s.Close())
	flipBit(t, largestTable(t, dir, len(b)), 100)
	s = open(t, dir, Options{GCLifeTime: func() time.Duration { return -time.Hour }})
	versions := func(key string) int {
		v, err := s.Versions(t.Context(), []byte(key))
		require.NoError(t, err)
		return len(v)
	}
	require.Equal(t, 3, versions("d"))
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	_, err = s.CollectGarbage(t.Context(), ts)
	require.True(t, pebble.IsCorruptionError(err), "%v", err)
	require.Equal(t, 1, versions("a"))
	require.Equal(t, 1, versions("d"))
}

// largestTable is the path of the largest table, or of the one with a single key.
func largestTable(t *testing.T, dir string, keys int) string {
	t.Helper()
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	var largest string
	var size int64
	for _, name := range tables {
		info, err := os.Stat(name)
		require.NoError(t, err)
		if info.Size() > size {
			largest, size = name, info.Size()
		}
	}
	require.NotEmpty(t, largest)
	if keys == 1 {
		// Both tables of rows are as large; the first one is that of b.
		return tables[firstOver(t, tables, 4000)]
	}
	return largest
}

func firstOver(t *testing.T, paths []string, size int64) int {
	t.Helper()
	for i, name := range paths {
		info, err := os.Stat(name)
		require.NoError(t, err)
		if info.Size() > size {
			return i
		}
	}
	require.Fail(t, "none is so large")
	return 0
}

// copyOpenStore copies the folder of a store that is open, which removes files that it
// does not need any more at any time.
func copyOpenStore(t *testing.T, dir string) string {
	t.Helper()
	for {
		at := filepath.Join(t.TempDir(), "db")
		err := os.CopyFS(at, os.DirFS(dir))
		if !errors.Is(err, os.ErrNotExist) {
			require.NoError(t, err)
			return at
		}
		require.NoError(t, os.RemoveAll(at))
	}
}

// TestDamagedRecords: where the store's own records cannot be read, it cannot be opened,
// and says why.
func TestDamagedRecords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, dir, Options{})
	put(t, s, "a", "1")
	require.NoError(t, s.Close())
	open(t, dir, Options{}) // leaves the records in tables only, until it is written to
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	failed := false
	for _, name := range tables {
		at := copyOpenStore(t, dir)
		if _, err := os.Stat(filepath.Join(at, filepath.Base(name))); errors.Is(err, os.ErrNotExist) {
			continue // the store does not need it any more
		}
		flipBit(t, filepath.Join(at, filepath.Base(name)), 20)
		s, err := Open(at, Options{})
		if err != nil {
			failed = true
			require.True(t, errors.Is(err, kv.ErrDamaged), "%v", err)
			continue
		}
		require.NoError(t, s.Close())
	}
	require.True(t, failed, "the records lie in none of the tables")
}

// TestEngineIteratorsAreClosedOnce: the engine reuses the memory of closed ones, so a second Close would close that of
// another reader. The test meets damage when an engine iterator is replaced, and closes iterators twice.
func TestEngineIteratorsAreClosedOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, dir, Options{})
	require.NoError(t, writeKeys(t.Context(), s, 2*blockSize, "a"))
	for i := range 2 * stepsBeforeSeek { // so many that what lies before is not looked at with the key
		put(t, s, "b", fmt.Sprint(i))
	}
	put(t, s, "c", "1", "d", "1")
	require.NoError(t, s.db.Flush())
	require.NoError(t, s.Close())
	flipBit(t, largestTable(t, dir, 0), 100) // in the block of a
	s = open(t, dir, Options{GCRunInterval: func() time.Duration { return 0 }})
	snap := snapshotNow(t, s)
	defer snap.Close()
	users := func() int {
		s.gate.mu.Lock()
		defer s.gate.mu.Unlock()
		return s.gate.inside
	}
	before := users()

	it, err := newReverseIter(t.Context(), view{s, snap.TS()}, kv.KeyRange{})
	require.NoError(t, err)
	for string(it.Key()) != "b" {
		require.NoError(t, it.Next())
	}
	it.opened, it.steps = time.Time{}, refreshCheck-1
	require.True(t, pebble.IsCorruptionError(it.Next()))
	require.False(t, it.Valid())

	lookup, err := s.NewLookup(t.Context())
	require.NoError(t, err)
	others := make([]kv.Iterator, 10)
	open := func() {
		for i := range others {
			others[i], err = snap.Iter(kv.PrefixRange([]byte("c")))
			require.NoError(t, err)
		}
	}
	open()
	for range 2 {
		_ = it.Close()
		require.Equal(t, before+1+len(others), users())
	}
	for _, other := range others {
		require.NoError(t, other.Next())
		require.False(t, other.Valid())
		require.NoError(t, other.Close())
	}
	v, err := lookup.Newest([]byte("c"))
	require.NoError(t, err)
	require.True(t, v.Live())
	require.NoError(t, lookup.Close())
	open()
	require.NoError(t, lookup.Close())
	require.Equal(t, before+len(others), users())
	for _, other := range others {
		require.NoError(t, other.Next())
		require.NoError(t, other.Close())
	}
	require.Equal(t, before, users())
}

// TestImportBesideDamage: an import may cut a table in two. Where the block before or behind the cut is damaged, that is all
// that cannot be read afterwards, as before.
func TestImportBesideDamage(t *testing.T) {
	const keys = 60
	readable := func(s *Store) (intact string) {
		snap := snapshotNow(t, s)
		defer func() { require.NoError(t, snap.Close()) }()
		for i := range keys {
			mark := "+"
			if _, err := snap.Get(t.Context(), fmt.Appendf(nil, "b%03d", i)); err != nil {
				require.True(t, pebble.IsCorruptionError(err), "b%03d is lost: %v", i, err)
				mark = "!"
			}
			intact += mark
		}
		return intact
	}
	for _, behind := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "db")
		s := open(t, dir, Options{})
		var b []string
		for i := range keys {
			b = append(b, fmt.Sprintf("b%03d", i))
		}
		require.NoError(t, writeKeys(t.Context(), s, 5000, b...))
		require.NoError(t, s.db.Flush())
		require.NoError(t, s.db.Compact(t.Context(), appendBare(nil, []byte("a")), appendBare(nil, []byte("c")), false))
		require.NoError(t, s.Close())
		flipBit(t, largestTable(t, dir, keys), 100_000)
		damaged := readable(open(t, copyOpenStore(t, dir), Options{})) // of another store: this one is not to know
		at := strings.Index(damaged, "!") - 1
		if behind {
			at = strings.LastIndex(damaged, "!")
		}
		s = open(t, dir, Options{GCRunInterval: func() time.Duration { return 0 }})
		ts, err := s.CurrentTS(t.Context())
		require.NoError(t, err)
		w, err := s.NewImportWriter(t.Context(), kv.ImportOptions{Dir: t.TempDir(), Version: ts})
		require.NoError(t, err)
		require.NoError(t, w.Add([]byte(b[at]+"x"), []byte("1")))
		unit, err := w.Finish(t.Context())
		require.NoError(t, err)
		// The engine looks whether it would cover anything, and may meet the damage.
		err = s.Import(t.Context(), []kv.ImportUnit{unit})
		require.True(t, err == nil || pebble.IsCorruptionError(err), "%v", err)
		require.Equal(t, damaged, readable(s))
		if err == nil {
			requireReadable(t, s, true, b[at]+"x")
		}
		require.ErrorIs(t, s.Damaged(), kv.ErrDamaged)
		require.NoError(t, unit.Discard())
	}
}
