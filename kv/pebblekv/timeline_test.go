package pebblekv

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/internal/randtest"
	"fastddl/kv"
)

// testTimeline is a timeline without a store, at a clock that the test sets.
func testTimeline(start uint64) (*timeline, *time.Time) {
	now := time.UnixMilli(1_000_000)
	t := newTimeline(start, 0, func(uint64) error { return nil })
	t.now = func() time.Time { return now }
	return t, &now
}

func isSettled(p *pendingCommit) bool {
	select {
	case <-p.settled:
		return true
	default:
		return false
	}
}

func mustBegin(t *testing.T, tl *timeline) *pendingCommit {
	t.Helper()
	p, err := tl.beginCommit(nil)
	require.NoError(t, err)
	return p
}

// TestTimelineOutOfOrder finishes commits in another order than they began.
func TestTimelineOutOfOrder(t *testing.T) {
	tl, _ := testTimeline(0)
	a, b, c := mustBegin(t, tl), mustBegin(t, tl), mustBegin(t, tl)
	require.Less(t, a.ts, b.ts)
	require.Less(t, b.ts, c.ts)

	tl.finishCommit(b, nil)
	require.False(t, isSettled(b), "settled before an earlier commit has finished")
	require.NoError(t, tl.readAt(t.Context(), a.ts-1))

	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, tl.readAt(ctx, a.ts), context.DeadlineExceeded)
	require.ErrorIs(t, tl.readAt(ctx, b.ts), context.DeadlineExceeded)

	tl.finishCommit(a, nil)
	require.True(t, isSettled(a))
	require.True(t, isSettled(b))
	require.NoError(t, tl.readAt(t.Context(), b.ts))
	tl.finishCommit(c, nil)
	require.NoError(t, tl.readAt(t.Context(), c.ts))
}

// TestTimelineModel runs random commits and readers: no reader is at or above a
// commit in flight.
func TestTimelineModel(t *testing.T) {
	seed := randtest.Seed(t)
	tl, _ := testTimeline(0)
	var wg sync.WaitGroup
	for w := range 4 {
		rnd := rand.New(rand.NewPCG(seed, uint64(w)))
		wg.Go(func() {
			for range 500 {
				p, err := tl.beginCommit(nil)
				if !errors.Is(err, nil) {
					t.Error(err)
					return
				}
				if rnd.IntN(4) == 0 {
					time.Sleep(time.Duration(rnd.IntN(50)) * time.Microsecond)
				}
				tl.finishCommit(p, nil)
				ts, err := tl.current()
				if err == nil {
					err = tl.readAt(t.Context(), ts)
				}
				if err != nil || ts < p.ts {
					t.Errorf("reads at %d after the end of %d: %v", ts, p.ts, err)
				}
				tl.mu.Lock()
				if slices.ContainsFunc(tl.inflight, func(q *pendingCommit) bool { return q.ts <= ts }) {
					t.Error("reads at or after a commit in flight")
				}
				tl.mu.Unlock()
				tl.endRead(ts)
			}
		})
	}
	wg.Wait()
	require.Empty(t, tl.inflight)
	require.Empty(t, tl.readers)
}

// TestTimelineClock moves the clock in every direction.
func TestTimelineClock(t *testing.T) {
	var bounds []uint64
	tl, now := testTimeline(0)
	tl.persistBound = func(b uint64) error { bounds = append(bounds, b); return nil }
	last := uint64(0)
	next := func() {
		t.Helper()
		ts, err := tl.current()
		require.NoError(t, err)
		require.Greater(t, ts, last)
		tl.mu.Lock()
		require.Less(t, ts, tl.bound)
		tl.mu.Unlock()
		last = ts
	}
	for _, step := range []time.Duration{0, time.Millisecond, -time.Hour, time.Second, time.Hour, 24 * time.Hour, -time.Minute} {
		*now = now.Add(step)
		for range 3 {
			next()
		}
		require.Eventually(t, func() bool { // a background extension ends
			tl.mu.Lock()
			defer tl.mu.Unlock()
			return tl.extending == nil
		}, soon, time.Millisecond)
	}
	require.True(t, slices.IsSorted(bounds))
}

// TestTimelineBound takes timestamps beyond what the logical counter of one
// window holds, and fails to make the bound durable.
func TestTimelineBound(t *testing.T) {
	tl, _ := testTimeline(0)
	broken := errors.New("broken")
	tl.persistBound = func(uint64) error { return broken }
	_, err := tl.current()
	require.ErrorIs(t, err, broken)
	_, err = tl.beginCommit(nil)
	require.ErrorIs(t, err, broken)
	require.Empty(t, tl.inflight)
	require.Empty(t, tl.readers)

	tl.persistBound = func(uint64) error { return nil }
	ts, err := tl.current()
	require.NoError(t, err)
	tl.mu.Lock()
	tl.last = tl.bound - 1
	tl.mu.Unlock()
	again, err := tl.current()
	require.NoError(t, err)
	require.Greater(t, again, ts)
}

// TestTimelineWhenFull: callers do not wait for a bound that does not fit on a full disk, after
// any number of tries, and all goes on once it does.
func TestTimelineWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tl, _ := testTimeline(0)
		space := make(chan struct{})
		full := errors.New("full")
		var refused atomic.Bool
		tl.persistBound = func(uint64) error {
			<-space
			return nil
		}
		tl.refused = func() error {
			if refused.Load() {
				return full
			}
			return nil
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := tl.current()
			waiting <- err
		}()
		synctest.Wait()
		select {
		case err := <-waiting:
			require.Fail(t, "does not wait", "%v", err)
		default:
		}
		refused.Store(true)
		require.ErrorIs(t, <-waiting, full)
		for range 3 {
			_, err := tl.beginCommit(nil)
			require.ErrorIs(t, err, full)
		}
		refused.Store(false)
		close(space)
		_, err := tl.current()
		require.NoError(t, err)
	})
}

// TestTimelineContinues starts where an earlier life may have ended.
func TestTimelineContinues(t *testing.T) {
	start := timestampOf(time.UnixMilli(2_000_000))
	tl, _ := testTimeline(start) // the clock is behind
	ts, err := tl.current()
	require.NoError(t, err)
	require.Greater(t, ts, start)
}

func TestTimelineSafePoint(t *testing.T) {
	tl, _ := testTimeline(0)
	first, err := tl.current()
	require.NoError(t, err)
	require.NoError(t, tl.readAt(t.Context(), first))
	second, err := tl.current()
	require.NoError(t, err)
	require.Equal(t, first, tl.advanceSafePoint(second), "not beyond a reader")
	tl.endRead(first)
	p := mustBegin(t, tl)
	require.Equal(t, p.ts-1, tl.advanceSafePoint(p.ts+100), "not beyond a commit in flight")
	tl.finishCommit(p, nil)
	require.Equal(t, p.ts-1, tl.advanceSafePoint(first), "never back")
	require.Equal(t, p.ts, tl.advanceSafePoint(p.ts+100), "not beyond what was handed out")
	require.ErrorIs(t, tl.readAt(t.Context(), p.ts-1), kv.ErrSnapshotTooOld)
	require.NoError(t, tl.readAt(t.Context(), p.ts))
	require.ErrorIs(t, tl.readAt(t.Context(), p.ts+1), errFutureTS)
}

// TestTimelineUndetermined ends a commit without knowing what became of it.
func TestTimelineUndetermined(t *testing.T) {
	tl, _ := testTimeline(0)
	before := mustBegin(t, tl)
	a, b := mustBegin(t, tl), mustBegin(t, tl)
	broken := errors.New("broken")
	tl.finishCommit(b, nil)
	tl.finishCommit(a, broken)
	tl.finishCommit(before, nil)
	require.NoError(t, tl.awaitCommits(t.Context(), before.ts))
	require.NoError(t, tl.readAt(t.Context(), a.ts-1))
	require.ErrorIs(t, tl.readAt(t.Context(), a.ts), broken)
	require.ErrorIs(t, tl.readAt(t.Context(), b.ts), broken)
}
