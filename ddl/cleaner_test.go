package ddl

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/kv"
	"fastddl/table"
)

const pieceBytes = 1 << 20

// piecesStore is a store whose garbage collection has passed everything once it
// is told so, and which cuts record ranges after every row.
type piecesStore struct {
	kv.Store
	mu      sync.Mutex
	passed  bool
	deleted []kv.KeyRange
	// fail, if set, is asked before and after each deletion, counted from 1.
	fail func(n int, after bool) error
}

func (s *piecesStore) GCSafePoint(ctx context.Context) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.passed {
		return 0, nil
	}
	return s.CurrentTS(ctx)
}

func (s *piecesStore) pass() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed = true
}

func (s *piecesStore) deletions() []kv.KeyRange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]kv.KeyRange(nil), s.deleted...)
}

func (s *piecesStore) Ranges(ctx context.Context, r kv.KeyRange) ([]kv.SizedRange, error) {
	ts, err := s.CurrentTS(ctx)
	if err != nil {
		return nil, err
	}
	snap, err := s.Snapshot(ctx, ts)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	it, err := snap.Iter(r)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	start := r.Start
	var pieces []kv.SizedRange
	for ; it.Valid(); err = it.Next() {
		if tablecodec.IsRecordKey(it.Key()) {
			end := kv.NextKey(it.Key())
			pieces = append(pieces, kv.SizedRange{KeyRange: kv.KeyRange{Start: start, End: end}, Bytes: pieceBytes})
			start = end
		}
	}
	return append(pieces, kv.SizedRange{KeyRange: kv.KeyRange{Start: start, End: r.End}}), err
}

func (s *piecesStore) DeleteRange(ctx context.Context, r kv.KeyRange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, r)
	n := len(s.deleted)
	if s.fail != nil {
		if err := s.fail(n, false); err != nil {
			return err
		}
	}
	if err := s.Store.DeleteRange(ctx, r); err != nil {
		return err
	}
	if s.fail != nil {
		return s.fail(n, true)
	}
	return nil
}

// newCleanEnv is an env on a piecesStore with a table of rows rows that has been
// dropped.
func newCleanEnv(t *testing.T, rows int) (e *env, store *piecesStore, tableID int64) {
	e = newEnv(t)
	e.fill(rows)
	tableID = e.table("t").Info.ID
	store = &piecesStore{Store: e.store}
	e.store = store
	e.restart(nil)
	e.must("drop table t")
	return e, store, tableID
}

func TestDroppedDataIsDeleted(t *testing.T) {
	e, store, id := newCleanEnv(t, 10)
	time.Sleep(30 * time.Millisecond)
	require.Equal(t, 10, e.entries(table.Range(id)), "a snapshot may still read it")
	var events []event.SpaceReclaimed
	e.restart(func(o *Options) {
		o.Bus.Subscribe(func(ev event.Event) {
			if r, ok := ev.(event.SpaceReclaimed); ok {
				events = append(events, r)
			}
		})
	})
	store.pass()
	waitFor(t, "the deletion", func() bool { return len(e.deleteRanges()) == 0 })
	require.Zero(t, e.entries(table.Range(id)))
	require.NoError(t, e.ddl.Close())
	require.Len(t, events, 12, "one for what waits and one for each piece")
	require.Equal(t, event.SpaceReclaimed{Job: events[0].Job, PendingRanges: 1, PendingBytes: 10 * pieceBytes}, events[0])
	require.Equal(t, event.SpaceReclaimed{Job: events[0].Job, Bytes: pieceBytes, PendingRanges: 1, PendingBytes: 9 * pieceBytes}, events[1])
	require.Equal(t, event.SpaceReclaimed{Job: events[0].Job, Done: true}, events[11])
}

// A crash before, within and after each piece: the next process goes on at that
// piece and does nothing twice but that one.
func TestCrashBetweenPieces(t *testing.T) {
	const rows = 4
	for n := 1; n <= rows+1; n++ {
		for _, after := range []bool{false, true} {
			e, store, id := newCleanEnv(t, rows)
			crashed := make(chan struct{})
			var once sync.Once
			store.fail = func(k int, late bool) error {
				if k < n || k == n && late != after {
					return nil
				}
				once.Do(func() { close(crashed) })
				return errors.New("crash")
			}
			store.pass()
			<-crashed
			require.NoError(t, e.ddl.Close())
			left := rows - (n - 1) // rows, and with them pieces, before the last one
			if after && n <= rows {
				left--
			}
			require.Equal(t, left, e.entries(table.Range(id)))

			last := store.deletions()[n-1]
			store.fail, store.deleted = nil, nil
			e.restart(nil)
			waitFor(t, "the deletion", func() bool { return len(e.deleteRanges()) == 0 })
			require.Zero(t, e.entries(table.Range(id)))
			again := store.deletions()
			require.Equal(t, last.Start, again[0].Start, "goes on where it was")
			require.Len(t, again, left+1)
		}
	}
}

// The speed holds deletion up, and a new one takes effect at once.
func TestDeletionSpeed(t *testing.T) {
	e, store, id := newCleanEnv(t, 5)
	_, _, err := e.globals.Set(config.GCMaxDeleteSpeed, "1")
	require.NoError(t, err)
	store.pass()
	waitFor(t, "the first piece", func() bool { return len(store.deletions()) == 1 })
	time.Sleep(50 * time.Millisecond)
	require.Len(t, store.deletions(), 1)
	require.Equal(t, 4, e.entries(table.Range(id)))
	_, _, err = e.globals.Set(config.GCMaxDeleteSpeed, "0")
	require.NoError(t, err)
	waitFor(t, "the rest", func() bool { return len(e.deleteRanges()) == 0 })
	require.Zero(t, e.entries(table.Range(id)))
}

func TestDeletionTakesTurns(t *testing.T) {
	var q reclaimQueue
	item := func(id int64, ts uint64, pieces int) {
		q.add(&reclaimItem{deleteRange: deleteRange{ID: id, TS: ts}, pieces: make([]kv.SizedRange, pieces)})
	}
	item(1, 10, 5) // huge
	item(2, 10, 2)
	item(3, 99, 1) // still readable
	item(4, 10, 1)
	var order []int64
	for it := q.next(50); it != nil; it = q.next(50) {
		order = append(order, it.ID)
		q.deleted(it)
	}
	require.Equal(t, []int64{1, 2, 4, 1, 2, 1, 1, 1}, order)
	require.Len(t, q.items, 1)

	fresh := q.forget([]deleteRange{{ID: 3}, {ID: 5, Range: job.Range{Start: []byte("a")}}})
	require.Len(t, fresh, 1)
	require.EqualValues(t, 5, fresh[0].ID)
	require.Len(t, q.items, 1)
	q.forget(nil)
	require.Empty(t, q.items)
}

func TestPace(t *testing.T) {
	var p pace
	now := time.Unix(1000, 0)
	require.Zero(t, p.wait(now, 100))
	p.spend(1000)
	require.Equal(t, 10*time.Second, p.wait(now, 100))
	now = now.Add(4 * time.Second)
	require.Equal(t, 6*time.Second, p.wait(now, 100))
	require.Equal(t, 60*time.Second, p.wait(now, 10), "what is owed is paid at the new speed")
	now = now.Add(10 * time.Second)
	require.Equal(t, 5*time.Second, p.wait(now, 100), "the time before was at the old one")
	require.Equal(t, time.Duration(0), p.wait(now, 0))
	p.spend(1 << 40)
	require.Zero(t, p.wait(now, 100), "nothing is owed for what was deleted without a limit")
	p.spend(1 << 60)
	require.Equal(t, maxPause, p.wait(now, 1))
}

// TestSpaceComesBack: what a table and its index take on disk comes back by
// itself when they are dropped and the GC safe point has passed that.
func TestSpaceComesBack(t *testing.T) {
	t.Parallel()
	e := newDiskEnv(t, t.TempDir())
	e.must("alter table t add index c (c)")
	e.gcInterval = 20 * time.Millisecond
	e.reopen() // which also moves what is in memory to files
	require.Greater(t, fileBytes(t, e.dbDir), int64(2<<20))
	e.must("alter table t drop index c", "drop table t")
	require.Eventually(t, func() bool { return len(e.deleteRanges()) == 0 }, 30*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return fileBytes(t, e.dbDir) < 200<<10 }, 60*time.Second, 50*time.Millisecond,
		"the space does not come back")
	require.Equal(t, 1, e.entries(table.Of(e.table("u")).RecordRange()))
}

// fileBytes is the size of the data files of a store.
func fileBytes(t *testing.T, dir string) (sum int64) {
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil { // it may be gone
			sum += info.Size()
		}
	}
	return sum
}
