package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	tidbkv "github.com/pingcap/tidb/pkg/kv"
	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
	"fastddl/kv/embedded"
	"fastddl/kv/pebblekv"
)

func openStore(t *testing.T, dir string) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(dir, embedded.Options{Pebble: pebblekv.Options{CacheBytes: 16 << 20, MemTableBytes: 1 << 20}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func set(t *testing.T, s *embedded.Store, pairs ...string) {
	t.Helper()
	txn, err := s.Storage().Begin()
	require.NoError(t, err)
	for i := 0; i < len(pairs); i += 2 {
		require.NoError(t, txn.Set(tidbkv.Key(pairs[i]), []byte(pairs[i+1])))
	}
	require.NoError(t, txn.Commit(t.Context()))
}

// pairsAt returns all pairs that a snapshot at ts sees; 0 is now.
func pairsAt(t *testing.T, s *embedded.Store, ts uint64) map[string]string {
	t.Helper()
	if ts == 0 {
		now, err := s.Builds().CurrentTS(t.Context())
		require.NoError(t, err)
		ts = now
	}
	snap, err := s.Builds().Snapshot(t.Context(), ts)
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

// clusterID is the cluster's id of a store.
func clusterID(t *testing.T, s *embedded.Store) uint64 {
	t.Helper()
	return s.PDClient().GetClusterID(t.Context())
}

// otherFileSystem makes a taker believe that the folder of a backup is on another file system.
func otherFileSystem(tk *Taker) {
	tk.rename = func(string, string) error { return &os.LinkError{Op: "rename", Err: syscall.EXDEV} }
}

// TestTakeAndRestore: by links and by copies a restored store is what the old one was, another store than that, and both run.
func TestTakeAndRestore(t *testing.T) {
	for _, copied := range []bool{false, true} {
		t.Run(fmt.Sprintf("copied=%v", copied), func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, filepath.Join(dir, "db"))
			set(t, s, "a", "1", "b", "1")
			tk := NewTaker(s, "v1", nil)
			if copied {
				otherFileSystem(tk)
			}
			to := filepath.Join(dir, "backups", "one")
			taken, err := tk.Take(t.Context(), Request{Dir: to})
			require.NoError(t, err)
			require.Equal(t, !copied, taken.Linked)
			want := pairsAt(t, s, taken.TS)
			set(t, s, "a", "2")
			holds, err := s.Builds().GCHolds(t.Context())
			require.NoError(t, err)
			require.Empty(t, holds, "garbage collection is still held")

			m, err := Verify(t.Context(), to, nil)
			require.NoError(t, err)
			require.Equal(t, taken.TS, m.TS)
			require.Equal(t, taken.Bytes, m.Bytes())
			require.Equal(t, s.ID(), m.StoreID)
			for _, f := range m.Files {
				require.Equal(t, copied || !pebblekv.IsTable(f.Name), f.CRC != nil, f.Name)
			}
			path := filepath.Join(dir, "restored")
			for range 2 { // what was restored changes nothing of the backup
				restored, err := Restore(t.Context(), to, path, nil)
				require.NoError(t, err)
				require.Equal(t, taken.TS, restored.TS)
				after := openStore(t, path)
				require.Equal(t, restored.ID, after.ID())
				require.NotEqual(t, s.ID(), after.ID())
				require.NotEqual(t, clusterID(t, s), clusterID(t, after))
				require.NotEqual(t, s.Storage().UUID(), after.Storage().UUID())
				require.Equal(t, want, pairsAt(t, after, 0))
				set(t, after, "a", "3", "c", "3")
				require.NoFileExists(t, filepath.Join(path, pebblekv.RestoreFile))
				_, err = Verify(t.Context(), to, nil)
				require.NoError(t, err)
				path += "2"
			}
			require.Equal(t, "2", pairsAt(t, s, 0)["a"])
			require.NoError(t, s.Close())
			s = openStore(t, filepath.Join(dir, "db"))
			require.Equal(t, "2", pairsAt(t, s, 0)["a"])
		})
	}
}

// TestTakeUnderLoad takes backups beside transactions of many keys, which move amounts between accounts: the sum stays in every restored
// store, which is what the old one was at the backup's timestamp.
func TestTakeUnderLoad(t *testing.T) {
	rnd := randtest.Rand(t)
	dir := t.TempDir()
	s := openStore(t, filepath.Join(dir, "db"))
	const accounts = 10
	initial := make([]string, 0, 2*accounts)
	for i := range accounts {
		initial = append(initial, fmt.Sprint("account", i), "1000")
	}
	set(t, s, initial...)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := move(ctx, s, (i+n)%accounts, (i+2*n+1)%accounts); err != nil && !tidbkv.ErrWriteConflict.Equal(err) && ctx.Err() == nil {
					t.Errorf("transaction: %v", err)
					return
				}
			}
		})
	}
	tk := NewTaker(s, "v1", nil)
	for round := range 6 {
		time.Sleep(time.Duration(rnd.IntN(50)) * time.Millisecond)
		to := filepath.Join(dir, fmt.Sprint("backup", round))
		taken, err := tk.Take(t.Context(), Request{Dir: to})
		require.NoError(t, err)
		path := filepath.Join(dir, fmt.Sprint("restored", round))
		_, err = Restore(t.Context(), to, path, nil)
		require.NoError(t, err)
		after := openStore(t, path)
		got := pairsAt(t, after, 0)
		require.Equal(t, pairsAt(t, s, taken.TS), got, "round %d", round)
		sum := 0
		for _, balance := range got {
			n := 0
			_, err := fmt.Sscan(balance, &n)
			require.NoError(t, err)
			sum += n
		}
		require.Equal(t, accounts*1000, sum, "round %d", round)
		require.NoError(t, after.Close())
	}
	stop()
	wg.Wait()
}

// move takes 1 from one account and gives it to another.
func move(ctx context.Context, s *embedded.Store, from, to int) error {
	if from == to {
		return nil
	}
	txn, err := s.Storage().Begin()
	if err != nil {
		return err
	}
	for account, amount := range map[int]int{from: -1, to: 1} {
		key := tidbkv.Key(fmt.Sprint("account", account))
		value, err := txn.Get(ctx, key)
		if err != nil {
			return errors.Join(err, txn.Rollback())
		}
		n := 0
		if _, err := fmt.Sscan(string(value), &n); err != nil {
			return errors.Join(err, txn.Rollback())
		}
		if err := txn.Set(key, fmt.Append(nil, n+amount)); err != nil {
			return errors.Join(err, txn.Rollback())
		}
	}
	return txn.Commit(ctx)
}

// TestTakeIsRefused where a backup would be lost with the store, or would mix with what is there; nothing stays.
func TestTakeIsRefused(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "db")
	s := openStore(t, db)
	tk := NewTaker(s, "v1", nil)
	full := filepath.Join(dir, "full")
	require.NoError(t, os.Mkdir(full, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(full, "file"), nil, 0o600))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(db, link))
	for path, says := range map[string]string{
		"relative": "no absolute path", full: "is not empty", filepath.Join(full, "file"): "not a directory",
		db: "in the store's folder", filepath.Join(db, "backup"): "in the store's folder", dir: "in the store's folder", link: "in the store's folder",
		filepath.Join(link, "backup"): "in the store's folder", filepath.Join(full, "file", "below"): "not a directory",
	} {
		_, err := tk.Take(t.Context(), Request{Dir: path})
		require.ErrorContains(t, err, says, path)
	}
	require.Equal(t, []string{"db", "full", "link"}, names(t, dir))
	require.NotContains(t, names(t, db), "backup")

	taken, err := tk.Take(t.Context(), Request{Dir: filepath.Join(dir, "a", "b", "one")})
	require.NoError(t, err)
	_, err = tk.Take(t.Context(), Request{Dir: taken.Dir})
	require.ErrorContains(t, err, "is not empty")
	_, err = Verify(t.Context(), taken.Dir, nil)
	require.NoError(t, err, "the backup that was there is as it was")
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestFailedBackupLeavesNothing: neither where it was to go, nor in the store, which goes on; the next one succeeds.
func TestFailedBackupLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, filepath.Join(dir, "db"))
	set(t, s, "a", "1")
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.Mkdir(empty, 0o700))
	ended, cancel := context.WithCancel(t.Context())
	broken := errors.New("broken")
	for name, prepare := range map[string]func(tk *Taker) context.Context{
		"rename": func(tk *Taker) context.Context {
			tk.rename = func(string, string) error { return broken }
			return t.Context()
		},
		"cancelled while it copies": func(tk *Taker) context.Context {
			tk.rename = func(string, string) error {
				cancel()
				return syscall.EXDEV
			}
			return ended
		},
		"panic": func(tk *Taker) context.Context {
			tk.rename = func(string, string) error { panic("broken") }
			return t.Context()
		},
	} {
		tk := NewTaker(s, "v1", nil)
		ctx := prepare(tk)
		for _, to := range []string{filepath.Join(dir, "new", "backup"), empty} {
			_, err := tk.Take(ctx, Request{Dir: to})
			require.Error(t, err, name)
		}
		require.Equal(t, []string{"db", "empty"}, names(t, dir), name)
		require.Empty(t, names(t, empty), name)
		require.NotContains(t, names(t, filepath.Join(dir, "db")), "checkpoint", name)
	}
	_, err := NewTaker(s, "v1", nil).Take(t.Context(), Request{Dir: empty})
	require.NoError(t, err)
}

// TestBackupsWaitForEachOther, and one that waits can be cancelled.
func TestBackupsWaitForEachOther(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, filepath.Join(dir, "db"))
	tk := NewTaker(s, "v1", nil)
	inside, release := make(chan struct{}), make(chan struct{})
	tk.rename = func(from, to string) error {
		close(inside)
		<-release
		return os.Rename(from, to)
	}
	first := make(chan error, 1)
	go func() {
		_, err := tk.Take(t.Context(), Request{Dir: filepath.Join(dir, "one"), Client: 7})
		first <- err
	}()
	<-inside
	tasks := tk.Tasks()
	require.Len(t, tasks, 1)
	require.Equal(t, StateBackup, tasks[0].State)
	require.EqualValues(t, 7, tasks[0].Client)
	require.Zero(t, tasks[0].Ended)
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := tk.Take(ctx, Request{Dir: filepath.Join(dir, "two")})
		second <- err
	}()
	require.Eventually(t, func() bool { return len(tk.Tasks()) == 2 }, time.Minute, time.Millisecond)
	require.Equal(t, StateWait, tk.Tasks()[1].State)
	cancel()
	require.ErrorIs(t, <-second, context.Canceled)
	close(release)
	require.NoError(t, <-first)
	require.Equal(t, []string{"db", "one"}, names(t, dir))
	tasks = tk.Tasks()
	require.Equal(t, 100.0, tasks[0].Percent)
	require.NoError(t, tasks[0].Err)
	require.ErrorIs(t, tasks[1].Err, context.Canceled)
	tk.now = func() time.Time { return time.Now().Add(taskLife + time.Minute) }
	require.Empty(t, tk.Tasks())
}
