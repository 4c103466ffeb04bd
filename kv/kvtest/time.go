package kvtest

import (
	"context"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"fastddl/kv"
)

// parallel runs fn n times at once.
func parallel(e *env, n int, fn func(worker int) error) {
	e.Helper()
	var g errgroup.Group
	for i := range n {
		g.Go(func() error { return fn(i) })
	}
	require.NoError(e, g.Wait())
}

func testSnapshotFixed(e *env) {
	first := e.put(map[string]string{"a": "1", "b": "1"})
	snap := e.snapshot(e.now())
	e.put(map[string]string{"a": "2", "b": "", "c": "2"})
	want := []pair{{"a", "1"}, {"b", "1"}}
	require.Equal(e, want, e.list(snap, e.space(), false))
	require.Equal(e, "1", e.get(snap, "b"))
	require.Equal(e, want, e.list(e.snapshot(first), e.space(), false), "a snapshot in the past")
	require.Empty(e, e.list(e.snapshot(first-1), e.space(), false))

	iter, err := snap.Iter(e.space())
	require.NoError(e, err)
	require.NoError(e, snap.Close())
	require.NoError(e, snap.Close())
	require.NoError(e, iter.Close())
	_, err = snap.Get(e.ctx(), e.key("a"))
	require.Error(e, err, "reading a closed snapshot")
	require.NotErrorIs(e, err, kv.ErrNotExist)
}

func testSnapshotFuture(e *env) {
	_, err := e.store.Snapshot(e.ctx(), e.now()+1<<40)
	require.Error(e, err)
}

// testSnapshotWaits checks that a reader at a timestamp does not overtake a
// commit below it that is still on its way.
func testSnapshotWaits(e *env) {
	e.needs(FixedCommits)
	e.put(map[string]string{"a": "old"})
	ts, finish, err := e.start(e.ctx(), map[string]string{"a": "new"})
	require.NoError(e, err)
	require.Equal(e, "old", e.get(e.snapshot(ts-1), "a"), "below the commit there is nothing to wait for")
	now := e.now()
	require.Greater(e, now, ts)
	got := make(chan string)
	go func() {
		snap, err := e.store.Snapshot(context.Background(), now)
		if err != nil {
			got <- err.Error()
			return
		}
		v, err := snap.Get(context.Background(), e.key("a"))
		_ = snap.Close()
		got <- fmt.Sprint(string(v), " ", err)
	}()
	select {
	case v := <-got:
		require.Fail(e, "the snapshot did not wait", v)
	case <-time.After(20 * time.Millisecond):
	}
	ctx, cancel := context.WithTimeout(e.ctx(), 10*time.Millisecond)
	defer cancel()
	_, err = readAt(ctx, e, now)
	require.ErrorIs(e, err, context.DeadlineExceeded)
	require.NoError(e, finish())
	require.Equal(e, "new <nil>", <-got)
}

// testSnapshotNeverChanges reads while a commit is on its way, and after its end: whether
// the reader waits for it or goes ahead, at one timestamp it sees the same.
func testSnapshotNeverChanges(e *env) {
	e.put(map[string]string{"a": "old"})
	_, finish, err := e.start(e.ctx(), map[string]string{"a": "new"})
	require.NoError(e, err)
	now := e.now()
	read := func(ts uint64) string {
		v, err := readAt(context.Background(), e, ts)
		return fmt.Sprint(string(v), " ", err)
	}
	seen := make(chan string, 1)
	go func() { seen <- read(now) }()
	var first string
	select {
	case first = <-seen:
		require.NoError(e, finish())
	case <-time.After(20 * time.Millisecond):
		require.NoError(e, finish())
		first = <-seen
	}
	require.Contains(e, []string{"old <nil>", "new <nil>"}, first)
	require.Equal(e, first, read(now))
	require.Equal(e, "new <nil>", read(e.now()))
}

// readAt reads key "a" at ts.
func readAt(ctx context.Context, e *env, ts uint64) ([]byte, error) {
	snap, err := e.store.Snapshot(ctx, ts)
	if err != nil {
		return nil, err
	}
	defer func() { _ = snap.Close() }()
	return snap.Get(ctx, e.key("a"))
}

// testAcknowledgedIsVisible lets a commit finish while one with a lower
// timestamp is still on its way: readers after its end see it, even if they have
// to wait for that.
func testAcknowledgedIsVisible(e *env) {
	_, finish, err := e.start(e.ctx(), map[string]string{"b": "slow"})
	require.NoError(e, err)
	e.put(map[string]string{"a": "acknowledged"})
	now := e.now()
	seen := make(chan string)
	go func() {
		v, err := readAt(context.Background(), e, now)
		seen <- fmt.Sprint(string(v), " ", err)
	}()
	select {
	case v := <-seen:
		require.Equal(e, "acknowledged <nil>", v)
		require.NoError(e, finish())
	case <-time.After(20 * time.Millisecond):
		require.NoError(e, finish())
		require.Equal(e, "acknowledged <nil>", <-seen)
	}
}

func testTimestampsIncrease(e *env) {
	const workers, rounds = 4, 500
	results := make([][]uint64, workers)
	parallel(e, workers, func(w int) error {
		for range rounds {
			ts, err := e.store.CurrentTS(e.ctx())
			if err != nil {
				return err
			}
			results[w] = append(results[w], ts)
		}
		return nil
	})
	seen := map[uint64]bool{}
	for _, r := range results {
		for i, ts := range r {
			require.False(e, seen[ts], "handed out twice")
			seen[ts] = true
			if i > 0 {
				require.Greater(e, ts, r[i-1])
			}
		}
	}
	wall := time.UnixMilli(int64(e.now() >> 18))
	require.WithinDuration(e, time.Now(), wall, time.Minute, "the layout is TiDB's")
}

func (e *env) reopen() {
	e.Helper()
	if e.h.Reopen == nil {
		e.Skip("the driver cannot reopen a store")
	}
	e.store = e.h.Reopen(e.T, e.store)
}

func testTimestampsReopen(e *env) {
	last := e.now()
	for range 5 {
		e.reopen()
		ts := e.now()
		require.Greater(e, ts, last)
		last = e.put(map[string]string{"a": "1"})
		require.Greater(e, last, ts)
	}
}

func testReopen(e *env) {
	first := e.put(map[string]string{"a": "1", "b": "1"})
	second := e.put(map[string]string{"a": "2", "b": ""})
	e.reopen()
	require.Equal(e, []pair{{"a", "1"}, {"b", "1"}}, e.list(e.snapshot(first), e.space(), false))
	require.Equal(e, []pair{{"a", "2"}}, e.list(e.snapshot(second), e.space(), false))
	require.Equal(e, "2", e.get(e.snapshot(e.now()), "a"))
}

func testLoadSignals(e *env) {
	for range 20 {
		e.put(map[string]string{"a": "1"})
	}
	signals := e.store.LoadSignals()
	require.Positive(e, signals.CommitP99)
	require.Positive(e, signals.CommitsPerSecond)
	require.False(e, signals.WriteStalled)
}

func testClosed(e *env) {
	e.put(map[string]string{"a": "1"})
	snap := e.snapshot(e.now())
	s := e.store
	require.NoError(e, s.Close())
	require.NoError(e, s.Close(), "closing twice")
	_, err := s.CurrentTS(e.ctx())
	require.ErrorIs(e, err, kv.ErrClosed)
	_, err = s.Snapshot(e.ctx(), 1)
	require.ErrorIs(e, err, kv.ErrClosed)
	_, err = snap.Get(e.ctx(), e.key("a"))
	require.ErrorIs(e, err, kv.ErrClosed)
	_, err = snap.Iter(e.space())
	require.ErrorIs(e, err, kv.ErrClosed)
	_, err = snap.Count(e.ctx(), e.space())
	require.ErrorIs(e, err, kv.ErrClosed)
	if e.has(OwnsData) {
		_, err = e.commit(e.ctx(), map[string]string{"b": "1"})
		require.ErrorIs(e, err, kv.ErrClosed)
	}
	require.ErrorIs(e, s.DeleteRange(e.ctx(), e.space()), kv.ErrClosed)
	_, err = s.Ranges(e.ctx(), e.space())
	require.ErrorIs(e, err, kv.ErrClosed)
	s.LoadSignals()
}
