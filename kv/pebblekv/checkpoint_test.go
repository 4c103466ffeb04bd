package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// checkpointAt makes a checkpoint in the new folder dir and returns its timestamp.
func checkpointAt(t *testing.T, s *Store, dir string) uint64 {
	t.Helper()
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	snap, err := s.Snapshot(t.Context(), ts)
	require.NoError(t, err)
	defer func() { require.NoError(t, snap.Close()) }()
	c, err := s.Checkpoint(t.Context())
	require.NoError(t, err)
	require.NoError(t, os.Rename(c.Dir, dir))
	require.NoError(t, c.Discard())
	return ts
}

// seenAt returns all pairs that a snapshot at ts sees.
func seenAt(t *testing.T, s *Store, ts uint64) map[string]string {
	t.Helper()
	snap, err := s.Snapshot(t.Context(), ts)
	require.NoError(t, err)
	defer func() { require.NoError(t, snap.Close()) }()
	it, err := snap.Iter(kv.KeyRange{})
	require.NoError(t, err)
	defer func() { require.NoError(t, it.Close()) }()
	pairs := make(map[string]string)
	for ; it.Valid(); err = it.Next() {
		require.NoError(t, err)
		pairs[string(it.Key())] = string(it.Value())
	}
	require.NoError(t, err)
	return pairs
}

// TestCheckpointUnderLoad makes stores of checkpoints that were taken while transactions committed, logs were rotated and written again,
// and units were imported: each is, at its timestamp and now, what the old store was at that timestamp.
func TestCheckpointUnderLoad(t *testing.T) {
	rnd := randtest.Rand(t)
	dir := t.TempDir()
	never := func() time.Duration { return 0 }
	s := open(t, filepath.Join(dir, "db"), Options{MemTableBytes: 256 << 10, GCRunInterval: never})
	var wg sync.WaitGroup
	var stop atomic.Bool
	units := t.TempDir()
	for i := range 4 {
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				if err := loadForCheckpoint(t.Context(), s, units, i, n); err != nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
			}
		})
	}
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond)
		to := filepath.Join(dir, fmt.Sprint("copy", round))
		ts := checkpointAt(t, s, to)
		want := seenAt(t, s, ts)
		if round%2 == 0 {
			require.NoError(t, CheckCheckpoint(to, ts))
		}
		id, err := Adopt(to, ts, AdoptOptions{})
		require.NoError(t, err)
		after, err := Open(to, Options{GCRunInterval: never})
		require.NoError(t, err)
		require.Equal(t, id, after.ID())
		require.NotEqual(t, s.ID(), after.ID())
		now, err := after.CurrentTS(t.Context())
		require.NoError(t, err)
		require.Greater(t, now, ts)
		requireSameState(t, want, seenAt(t, after, now), round)
		for _, v := range rawVersions(t, after) {
			require.LessOrEqual(t, v.ts, ts, "a version of %s", v.key)
		}
		put(t, after, "new", "1") // and it is a store like any other
		require.NoError(t, after.Close())
	}
	stop.Store(true)
	wg.Wait()
	require.NoError(t, s.Close())
}

// requireSameState compares what the old store showed with what the new one does. Units that were imported after the checkpoint show
// in the old one at earlier timestamps; those of which there is a record are whole.
func requireSameState(t *testing.T, want, got map[string]string, round int) {
	t.Helper()
	committed := func(pairs map[string]string) map[string]string {
		out := maps.Clone(pairs)
		maps.DeleteFunc(out, func(key, _ string) bool { return strings.HasPrefix(key, "unit") })
		return out
	}
	before, after := committed(want), committed(got)
	require.ElementsMatch(t, slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)), "round %d", round)
	for key, value := range before {
		require.Equal(t, value[:8], after[key][:8], "round %d, %s", round, key)
	}
	for key := range got {
		if n, ok := strings.CutPrefix(key, "imported"); ok {
			for i := range 10 {
				require.Contains(t, got, fmt.Sprintf("unit%s/%d", n, i), "round %d: unit %s is not whole", round, n)
			}
		}
	}
}

// loadForCheckpoint commits, or imports a unit and commits a record of that.
func loadForCheckpoint(ctx context.Context, s *Store, units string, writer, n int) error {
	pairs := make(map[string]string)
	for i := range 20 {
		pairs[fmt.Sprintf("w%d/%d", writer, i)] = fmt.Sprintf("%08d %s", n, strings.Repeat("x", 200))
	}
	if writer == 0 && n%4 == 0 {
		version, err := s.CurrentTS(ctx)
		if err != nil {
			return err
		}
		w, err := s.NewImportWriter(ctx, kv.ImportOptions{Dir: units, Version: version})
		if err != nil {
			return err
		}
		for i := range 10 {
			if err := w.Add(fmt.Appendf(nil, "unit%06d/%d", n, i), []byte("1")); err != nil {
				return err
			}
		}
		u, err := w.Finish(ctx)
		if err != nil {
			return err
		}
		if err := s.Import(ctx, []kv.ImportUnit{u}); err != nil {
			return err
		}
		pairs = map[string]string{fmt.Sprintf("imported%06d", n): "00000001"}
	}
	_, err := commit(ctx, s, pairs)
	return err
}

// TestAdoptLeavesOutLaterCommits: what was committed after the timestamp and is in the checkpoint is gone, in the log, in level 0
// and below.
func TestAdoptLeavesOutLaterCommits(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "db"), Options{})
	put(t, s, "a", "1", "b", "1")
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	put(t, s, "a", "2", "b", "")
	require.NoError(t, s.db.Flush())
	require.NoError(t, s.db.Compact(t.Context(), appendBare(nil, []byte("a")), appendBare(nil, []byte("z")), false))
	put(t, s, "a", "3", "c", "3")
	require.NoError(t, s.db.Flush())
	put(t, s, "a", "4", "d", "4")
	c, err := s.Checkpoint(t.Context())
	require.NoError(t, err)
	to := filepath.Join(dir, "copy")
	require.NoError(t, os.Rename(c.Dir, to))
	require.NoError(t, c.Discard())
	_, err = Adopt(to, ts, AdoptOptions{})
	require.NoError(t, err)
	after := open(t, to, Options{})
	now, err := after.CurrentTS(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "1", "b": "1"}, seenAt(t, after, now))
	require.Len(t, rawVersions(t, after), 2)
}

// TestAdoptedStoreBeginsAnew: nothing below the timestamp of the checkpoint can be read or held, holds of the old store are gone, and
// the records that the layer above makes anew.
func TestAdoptedStoreBeginsAnew(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "db"), Options{})
	before := put(t, s, "a", "1")
	hold, err := s.HoldGC(t.Context(), "job", before, time.Hour)
	require.NoError(t, err)
	require.NoError(t, s.SaveMeta(t.Context(), "cluster", []byte("1")))
	require.NoError(t, s.SaveMeta(t.Context(), "other", []byte("2")))
	put(t, s, "a", "2")
	to := filepath.Join(dir, "copy")
	ts := checkpointAt(t, s, to)
	_, err = Adopt(to, ts, AdoptOptions{Forget: []string{"cluster"}})
	require.NoError(t, err)

	after := open(t, to, Options{})
	holds, err := after.GCHolds(t.Context())
	require.NoError(t, err)
	require.Empty(t, holds)
	_, err = after.HoldGC(t.Context(), "job", before, time.Hour)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld, "a build goes on at its old snapshot")
	_, err = after.Snapshot(t.Context(), before)
	require.ErrorIs(t, err, kv.ErrSnapshotTooOld)
	cluster, err := after.LoadMeta(t.Context(), "cluster")
	require.NoError(t, err)
	require.Nil(t, cluster)
	other, err := after.LoadMeta(t.Context(), "other")
	require.NoError(t, err)
	require.Equal(t, "2", string(other))

	// The old store is as it was, and both are open.
	require.Equal(t, map[string]string{"a": "1"}, seenAt(t, s, before))
	require.NoError(t, hold.Renew(t.Context(), time.Hour))
	put(t, after, "b", "1")
	put(t, s, "c", "1")
}

// TestCheckpointIsNoStore: without Adopt, or after one that a crash has ended, no Open takes the folder for a store; nor is a store
// adopted, or a checkpoint at a timestamp that is not its own.
func TestCheckpointIsNoStore(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "db"), Options{})
	put(t, s, "a", "1")
	to := filepath.Join(dir, "copy")
	ts := checkpointAt(t, s, to)
	_, err := Open(to, Options{})
	require.ErrorIs(t, err, kv.ErrNotAStore)
	for name, says := range map[string]string{BackupFile: "fastddl restore --from", RestoreFile: "restore was interrupted"} {
		write(t, filepath.Join(to, name), "")
		_, err = Open(to, Options{})
		require.ErrorIs(t, err, kv.ErrNotAStore)
		require.ErrorContains(t, err, says)
		require.NoError(t, os.Remove(filepath.Join(to, name)))
	}
	for _, wrong := range []uint64{1 << 60, math.MaxUint64} {
		_, err = Adopt(to, wrong, AdoptOptions{})
		require.ErrorIs(t, err, kv.ErrDamaged)
		require.ErrorIs(t, CheckCheckpoint(to, wrong), kv.ErrDamaged)
		require.NoFileExists(t, filepath.Join(to, markerFile))
	}
	_, err = Adopt(to, ts, AdoptOptions{})
	require.NoError(t, err)
	_, err = Adopt(to, ts, AdoptOptions{})
	require.ErrorContains(t, err, "is a store already")
	_, err = Adopt(t.TempDir(), ts, AdoptOptions{})
	require.ErrorIs(t, err, kv.ErrDamaged)
}

// TestOneCheckpointAtATime, of which a crash leaves nothing.
func TestOneCheckpointAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, dir, Options{})
	put(t, s, "a", "1")
	_, err := s.Checkpoint(t.Context())
	require.NoError(t, err)
	_, err = s.Checkpoint(t.Context())
	require.ErrorContains(t, err, "another checkpoint")
	s = reopen(t, s).(*Store)
	require.NoDirExists(t, filepath.Join(dir, checkpointDir, wholeCheckpoint))
	c, err := s.Checkpoint(t.Context())
	require.NoError(t, err)
	require.NoError(t, c.Discard())
	requireReadable(t, s, true, "a")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Checkpoint(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.NoDirExists(t, filepath.Join(dir, checkpointDir, wholeCheckpoint))
}

// TestCheckpointOnAFullDisk: it fails, and the store does not wait for it.
func TestCheckpointOnAFullDisk(t *testing.T) {
	var full atomic.Bool
	fsys := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, checkpointDir+"/") {
			return syscall.ENOSPC
		}
		return nil
	}))
	s := open(t, "db", Options{FS: fsys})
	put(t, s, "a", "1")
	full.Store(true)
	_, err := s.Checkpoint(t.Context())
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = fsys.Stat(filepath.Join("db", checkpointDir, wholeCheckpoint))
	require.Error(t, err, "something of it stays")
	put(t, s, "a", "2")
	full.Store(false)
	_, err = s.Checkpoint(t.Context())
	require.NoError(t, err)
}

// TestOpenLogEndsWhereItWasWritten: a former log is written again while it is copied.
func TestOpenLogEndsWhereItWasWritten(t *testing.T) {
	mem := vfs.NewMem()
	old, err := mem.Create("old", categoryLog)
	require.NoError(t, err)
	_, err = old.Write([]byte("former content"))
	require.NoError(t, errors.Join(err, old.Close()))
	e := newEngineFS(mem, &spaceMonitor{}, nil, Options{})
	log, err := e.ReuseForWrite("old", "new", categoryLog)
	require.NoError(t, err)
	read := func(f vfs.File) string {
		content, err := io.ReadAll(f)
		require.NoError(t, errors.Join(err, f.Close()))
		return string(content)
	}
	_, err = log.Write([]byte("first"))
	require.NoError(t, err)
	f, err := e.Open("new")
	require.NoError(t, err)
	_, err = log.Write([]byte("2"))
	require.NoError(t, err)
	require.Equal(t, "first", read(f))
	require.NoError(t, log.Close())
	f, err = e.Open("new")
	require.NoError(t, err)
	require.Equal(t, "first2 content", read(f), "the engine knows where a closed log ends")
}

// TestCheckTable finds a flipped bit anywhere in a table, and none in one that is whole.
func TestCheckTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, dir, Options{})
	for i := range 40 { // versions behind the newest lie in blocks of values
		require.NoError(t, writeKeys(t.Context(), s, 5000, "a", "b", fmt.Sprint("c", i)))
	}
	require.NoError(t, s.db.Flush())
	require.NoError(t, s.db.Compact(t.Context(), appendBare(nil, []byte("a")), appendBare(nil, []byte("z")), false))
	require.NoError(t, s.Close())
	path := largestTable(t, dir, 1)
	require.NoError(t, CheckTable(t.Context(), path))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	rnd := randtest.Rand(t)
	for range 40 {
		damaged := slices.Clone(whole)
		offset := rnd.IntN(len(damaged))
		damaged[offset] ^= 1 << rnd.IntN(8)
		require.NoError(t, os.WriteFile(path, damaged, fileMode))
		require.ErrorIs(t, CheckTable(t.Context(), path), kv.ErrDamaged, "byte %d of %d", offset, len(whole))
	}
	for _, length := range []int{0, 10, len(whole) / 2, len(whole) - 1} {
		require.NoError(t, os.WriteFile(path, whole[:length], fileMode))
		require.ErrorIs(t, CheckTable(t.Context(), path), kv.ErrDamaged, "%d bytes of %d", length, len(whole))
	}
	require.NoError(t, os.WriteFile(path, whole, fileMode))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, CheckTable(ended, path), context.Canceled)
}

// TestImportsWaitForACheckpoint: the engine works on none while it collects the names of its files.
func TestImportsWaitForACheckpoint(t *testing.T) {
	var s *Store
	linked := 0
	fsys := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpLink && strings.Contains(op.Path+" ", checkpointEngine) || op.Kind == errorfs.OpCreate && strings.Contains(op.Path, checkpointEngine+"/") {
			linked++
			if len(s.ingestions.turn) == 0 {
				t.Error("an import could begin")
			}
		}
		return nil
	}))
	s = open(t, "db", Options{FS: fsys})
	put(t, s, "a", "1")
	require.NoError(t, s.db.Flush())
	c, err := s.Checkpoint(t.Context())
	require.NoError(t, err)
	require.Positive(t, linked)
	require.Empty(t, s.ingestions.turn)
	require.NoError(t, c.Discard())

	s.ingestions.turn <- struct{}{} // an import
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	go func() {
		_, err := s.Checkpoint(ctx)
		waited <- err
	}()
	cancel()
	require.ErrorIs(t, <-waited, context.Canceled)
	<-s.ingestions.turn
}
