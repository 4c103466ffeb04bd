package pebblekv

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

const loggedKeys = 150

// loggedStore returns a folder as a kill would leave it, with keys in the log only, one
// commit each, and the path of the log.
func loggedStore(t *testing.T, opts Options) (dir, log string) {
	t.Helper()
	return loggedStoreOf(t, opts, func(i int) int { return 500 + i*7 })
}

// loggedStoreOf is loggedStore with values of the given sizes.
func loggedStoreOf(t *testing.T, opts Options, size func(i int) int) (dir, log string) {
	t.Helper()
	live := filepath.Join(t.TempDir(), "db")
	s := open(t, live, opts)
	for i := range loggedKeys {
		require.NoError(t, writeKeys(t.Context(), s, size(i), fmt.Sprintf("k%04d", i)))
	}
	dir = copyOpenStore(t, live)
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	return dir, logs[len(logs)-1]
}

func flipBit(t *testing.T, path string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], offset)
	require.NoError(t, err)
	bit := rand.IntN(8)
	t.Logf("bit %d of byte %d of %s is flipped", bit, offset, path)
	b[0] ^= 1 << bit
	_, err = f.WriteAt(b[:], offset)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// requirePrefix checks that the keys that are there were the first ones, and returns how
// many.
func requirePrefix(t *testing.T, s *Store) int {
	t.Helper()
	n := 0
	for i, v := range values(t, s) {
		require.Equal(t, fmt.Sprintf("k%04d", i), v.key, "there is a hole")
		n++
	}
	return n
}

// TestDamagedLog flips a bit somewhere in the log: the store is not opened as if the
// commits behind it had never been, unless that is asked for.
func TestDamagedLog(t *testing.T) {
	rnd := randtest.Rand(t)
	dir, log := loggedStore(t, Options{})
	content, err := os.ReadFile(log)
	require.NoError(t, err)
	used := int64(len(strings.TrimRight(string(content), "\x00")))
	require.Greater(t, used, int64(2*logBlock))
	for range 12 {
		offset := rnd.Int64N(used)
		at := filepath.Join(t.TempDir(), "db")
		require.NoError(t, os.CopyFS(at, os.DirFS(dir)))
		damaged := filepath.Join(at, filepath.Base(log))
		flipBit(t, damaged, offset)
		before := contents(t, at)
		s, err := Open(at, Options{})
		if err == nil {
			// Damage to the last writes looks as if they had not been finished.
			require.Greater(t, requirePrefix(t, s), loggedKeys-4, "commits are gone without a word; offset %d of %d", offset, used)
			require.NoError(t, s.Close())
			continue
		}
		require.ErrorIs(t, err, kv.ErrDamaged)
		require.ErrorContains(t, err, damaged)
		require.ErrorContains(t, err, "pebble.allow-damaged-log = true", "what the operator can set")
		for path, was := range before {
			if strings.HasSuffix(path, logSuffix) || strings.HasSuffix(path, ".sst") {
				now, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Equal(t, was, string(now), "%s was changed", path)
			}
		}
		core, logs := observer.New(zap.ErrorLevel)
		s, err = Open(at, Options{AllowDamagedLog: true, Logger: zap.New(core)})
		require.NoError(t, err)
		require.Less(t, requirePrefix(t, s), loggedKeys)
		require.NotZero(t, logs.FilterMessageSnippet("commits are lost").Len())
		require.NoError(t, s.Close())
		kept, err := filepath.Glob(filepath.Join(at, damagedLogs, "*"+logSuffix))
		require.NoError(t, err)
		require.Len(t, kept, 1)
		copied, err := os.ReadFile(kept[0])
		require.NoError(t, err)
		require.Equal(t, before[damaged], string(copied))
		requirePrivate(t, at, true)
		require.NoError(t, open(t, at, Options{}).Close(), "the damage is past")
	}
}

// TestDamageThatTheEngineMisses: Pebble searches for damage as well, but takes it for the end of the log in each of these
// cases, and acknowledged commits would be gone.
func TestDamageThatTheEngineMisses(t *testing.T) {
	small := func(i int) int { return 500 + i*7 }
	for name, c := range map[string]struct {
		size   func(i int) int // of values
		damage func(t *testing.T, log []byte) []byte
	}{
		// The offset of the last sync that Pebble writes into each chunk leaves out the blocks that were written whole.
		"large commits": {func(int) int { return 64 << 10 }, func(_ *testing.T, log []byte) []byte {
			log[len(log)/2] ^= 1
			return log
		}},
		// Pebble searches only the blocks behind the damaged one.
		"last block": {small, func(_ *testing.T, log []byte) []byte {
			log[2*logBlock+4<<10] ^= 1
			return log[:2*logBlock+24<<10]
		}},
		// Pebble takes a chunk with the next log's number for the end of a log that was closed.
		"log number": {small, func(t *testing.T, log []byte) []byte {
			l := &logReader{r: bytes.NewReader(log), number: binary.LittleEndian.Uint32(log[plainHeader:])}
			require.NoError(t, l.next())
			first, state := l.parse(0)
			require.Equal(t, chunkGood, state)
			binary.LittleEndian.PutUint32(log[first.size+plainHeader:], l.number+1)
			return log
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, log := loggedStoreOf(t, Options{MemTableBytes: 64 << 20}, c.size)
			content, err := os.ReadFile(log)
			require.NoError(t, err)
			content = c.damage(t, bytes.TrimRight(content, "\x00"))
			require.NoError(t, os.WriteFile(log, append(content, make([]byte, 100<<10)...), 0o600))
			_, err = Open(dir, Options{})
			require.ErrorIs(t, err, kv.ErrDamaged)
			require.ErrorContains(t, err, log)
		})
	}
}

// TestLogCutShortOpens: a log that ends in the middle of a write, or with what was there before,
// is what a crash leaves.
func TestLogCutShortOpens(t *testing.T) {
	dir, log := loggedStore(t, Options{})
	content, err := os.ReadFile(log)
	require.NoError(t, err)
	used := len(strings.TrimRight(string(content), "\x00"))
	for name, tail := range map[string][]byte{
		"end":       nil,
		"zeros":     make([]byte, 100<<10),
		"old chunk": content[:40<<10], // of another number
	} {
		for _, cut := range []int{used, used - 1, used - 3000, 2 * logBlock, logBlock + 1} {
			at := filepath.Join(t.TempDir(), "db")
			require.NoError(t, os.CopyFS(at, os.DirFS(dir)))
			changed := append(append([]byte{}, content[:cut]...), tail...)
			if name == "old chunk" {
				// The number is that of another log, and checksums do not matter then.
				changed = append(append([]byte{}, content[:cut]...), renumbered(tail)...)
			}
			require.NoError(t, os.WriteFile(filepath.Join(at, filepath.Base(log)), changed, 0o600))
			s, err := Open(at, Options{})
			require.NoError(t, err, "%s after %d", name, cut)
			requirePrefix(t, s)
			require.NoError(t, s.Close())
		}
	}
}

// TestTrailerInOldDataIsIgnored: what lies behind a write that was under way is of an older log whose
// file is used again. Bytes in it that look like the mark of a log that was closed are none.
func TestTrailerInOldDataIsIgnored(t *testing.T) {
	dir, log := loggedStore(t, Options{})
	content, err := os.ReadFile(log)
	require.NoError(t, err)
	number, ok := logNumber(log)
	require.True(t, ok)
	// An index key and the record behind it: zeros, a number, another one.
	like := append(make([]byte, 6, 11), numberedChunks)
	like = binary.LittleEndian.AppendUint32(like, uint32(number)+1)
	old := append(bytes.Repeat(append([]byte("an older log"), like...), 4*logBlock/len(like)), "and its end"...)
	used := len(bytes.TrimRight(content, "\x00"))
	for _, cut := range []int{used - 100, used - logBlock, used - 2*logBlock} {
		require.NoError(t, os.WriteFile(log, append(bytes.Clone(content[:cut]), old...), 0o600))
		copied := filepath.Join(t.TempDir(), "db")
		require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
		s := open(t, copied, Options{})
		require.NotZero(t, requirePrefix(t, s))
		require.NoError(t, s.Close())
	}
}

// renumbered gives chunks another log's number.
func renumbered(log []byte) []byte {
	out := append([]byte{}, log...)
	l := &logReader{r: strings.NewReader(string(log)), number: uint32(log[plainHeader])}
	for l.next() == nil {
		for at := 0; at < len(l.buf); {
			c, state := l.parse(at)
			if state != chunkGood {
				break
			}
			out[l.offset(at)+plainHeader]--
			at += c.size
		}
	}
	return out
}

// TestOlderLogIsDamaged: a log that is not the newest was closed, so that any damage to it
// is one; what comes after it is left out too.
func TestOlderLogIsDamaged(t *testing.T) {
	dir, log := loggedStore(t, Options{})
	info, err := os.Stat(log)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(log, info.Size()-1))
	fsys := vfs.Default
	number, ok := logNumber(log)
	require.True(t, ok)
	check := &logCheck{fs: fsys, dir: dir, log: zap.NewNop(), newest: number, stage: func(string) {}}
	end, err := check.check(log, number, true)
	require.NoError(t, err)
	require.EqualValues(t, uncut, end)
	check.newest = number + 1
	_, err = check.check(log, number, true)
	require.ErrorIs(t, err, kv.ErrDamaged)
	check.allowed = true
	end, err = check.check(log, number, true)
	require.NoError(t, err)
	require.Less(t, end, info.Size())
	end, err = check.check(log, number+1, true)
	require.NoError(t, err)
	require.Zero(t, end, "what came later is history with a hole")
}

// TestDamagedRelaxedLog: without syncing, holes are what a crash of the machine leaves. The
// store opens with what was there before the first one, and says so.
func TestDamagedRelaxedLog(t *testing.T) {
	dir, log := loggedStore(t, Options{DisableSync: true})
	flipBit(t, log, 50<<10)
	core, logs := observer.New(zap.ErrorLevel)
	s := open(t, dir, Options{Logger: zap.New(core)})
	n := requirePrefix(t, s)
	require.Positive(t, n)
	require.Less(t, n, loggedKeys)
	require.NotZero(t, logs.FilterMessageSnippet("commits are lost").Len())
	// From now on the log is synced, so that damage is damage.
	for i := range loggedKeys {
		require.NoError(t, writeKeys(t.Context(), s, 500, fmt.Sprintf("l%04d", i)))
	}
	again := copyOpenStore(t, dir)
	logFiles, err := filepath.Glob(filepath.Join(again, "*.log"))
	require.NoError(t, err)
	flipBit(t, logFiles[len(logFiles)-1], 30<<10)
	_, err = Open(again, Options{})
	require.ErrorIs(t, err, kv.ErrDamaged)
}

// TestMissingLog: commits that lie in the newest log are missed when it is not there.
func TestMissingLog(t *testing.T) {
	dir, log := loggedStore(t, Options{})
	require.NoError(t, os.Remove(log))
	_, err := Open(dir, Options{})
	require.ErrorIs(t, err, kv.ErrDamaged)
	require.ErrorContains(t, err, filepath.Base(log))
	require.ErrorContains(t, err, "pebble.allow-damaged-log = true")
	s := open(t, dir, Options{AllowDamagedLog: true})
	require.Zero(t, requirePrefix(t, s))
}

// TestDamagedManifest: the engine would take the damage for the end of the manifest, and
// delete the files that are named behind it.
func TestDamagedManifest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	s := open(t, dir, Options{})
	var ends []int64
	var manifest string
	for i := range 5 {
		put(t, s, fmt.Sprint("k", i), "1")
		require.NoError(t, s.db.Flush())
		found, err := filepath.Glob(filepath.Join(dir, manifestPrefix+"*"))
		require.NoError(t, err)
		require.Len(t, found, 1)
		manifest = found[0]
		info, err := os.Stat(manifest)
		require.NoError(t, err)
		ends = append(ends, info.Size())
	}
	require.NoError(t, s.Close())
	for _, offset := range []int64{ends[1] + 20, ends[2] + 2, ends[2] + 5, ends[2] + 6} {
		at := filepath.Join(t.TempDir(), "db")
		require.NoError(t, os.CopyFS(at, os.DirFS(dir)))
		flipBit(t, filepath.Join(at, filepath.Base(manifest)), offset)
		before, err := filepath.Glob(filepath.Join(at, "*.sst"))
		require.NoError(t, err)
		require.NotEmpty(t, before)
		_, err = Open(at, Options{AllowDamagedLog: true})
		require.ErrorIs(t, err, kv.ErrDamaged)
		require.ErrorContains(t, err, filepath.Base(manifest))
		require.Subset(t, list(t, at), before, "files are gone")
	}
	require.Len(t, values(t, open(t, dir, Options{})), 5)
}

const killedDirVar = "PEBBLEKV_TEST_KILLED_DIR"

// TestKilledWithoutSyncLosesNothing kills a process that does not sync its log: all that it has
// acknowledged is there. Only the machine could lose it.
func TestKilledWithoutSyncLosesNothing(t *testing.T) {
	if dir := os.Getenv(killedDirVar); dir != "" {
		s, err := Open(dir, Options{DisableSync: true})
		require.NoError(t, err)
		for i := 0; ; i++ {
			require.NoError(t, writeKeys(t.Context(), s, 10, fmt.Sprintf("k%07d", i)))
			if _, err := fmt.Println(i); err != nil {
				return
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "db")
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWithoutSyncLosesNothing$")
	cmd.Env = append(os.Environ(), killedDirVar+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	acked := -1
	for lines := bufio.NewScanner(out); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			break // killed in the middle of a line
		}
		if acked = n; acked == 500 {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait()
	require.GreaterOrEqual(t, acked, 500)
	s := open(t, dir, Options{})
	ts, err := s.CurrentTS(t.Context())
	require.NoError(t, err)
	snap, err := s.Snapshot(t.Context(), ts)
	require.NoError(t, err)
	defer func() { require.NoError(t, snap.Close()) }()
	for i := range acked + 1 {
		_, err := snap.Get(t.Context(), fmt.Appendf(nil, "k%07d", i))
		require.NoError(t, err, "acknowledged commit %d of %d is lost", i, acked+1)
	}
}
