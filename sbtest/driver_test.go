package sbtest_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/sbtest"
)

var (
	errConflict = errors.New("conflict")
	errBroken   = errors.New("broken")
)

// system is a database that does nothing, or what a test wants of it. Tests run in
// bubbles, whose time is no machine's.
type system struct {
	run    func(ctx context.Context, s sbtest.Statement) error
	mu     sync.Mutex
	seen   [sbtest.Statements]int
	dialed atomic.Int64
	open   atomic.Int64
}

func (s *system) dial(context.Context) (sbtest.Session, error) {
	s.dialed.Add(1)
	s.open.Add(1)
	return session{s}, nil
}

type session struct{ *system }

func (s session) Run(ctx context.Context, stmt sbtest.Statement, args ...any) error {
	s.mu.Lock()
	s.seen[stmt]++
	s.mu.Unlock()
	if stmt.TakesArguments() != (len(args) > 0) || strings.Count(stmt.Text(), "?") != len(args) {
		return errors.New("arguments do not fit: " + stmt.Text())
	}
	if s.run == nil {
		return nil
	}
	return s.run(ctx, stmt)
}
func (s session) Retryable(err error) bool { return errors.Is(err, errConflict) }
func (s session) Close() error             { s.open.Add(-1); return nil }

func TestRateIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := &system{}
		d, err := sbtest.Start(t.Context(), sbtest.Options{Dial: sys.dial, Threads: 4, PerSecond: 500, Rows: 100, Seed: 1})
		require.NoError(t, err)
		time.Sleep(600 * time.Millisecond)
		elapsed := d.Elapsed()
		r := d.Stop(time.Second)
		require.NoError(t, r.Err())
		// The timetable says how many there are.
		require.InDelta(t, elapsed.Seconds()*500, r.Summary(sbtest.Interval{To: time.Hour}).Completed, 1)
		require.Zero(t, sys.open.Load(), "sessions are closed")
	})
}

func TestTransactionIsSysbenchs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := &system{}
		d, err := sbtest.Start(t.Context(), sbtest.Options{Dial: sys.dial, Threads: 2, PerSecond: 200, Rows: 100, Seed: 1})
		require.NoError(t, err)
		time.Sleep(200 * time.Millisecond)
		n := d.Stop(time.Second).Summary(sbtest.Interval{To: time.Hour}).Completed
		require.Positive(t, n)
		require.Equal(t, 10*n, sys.seen[sbtest.PointSelect])
		for _, s := range []sbtest.Statement{sbtest.Begin, sbtest.RangeSelect, sbtest.SumSelect, sbtest.OrderSelect, sbtest.DistinctSelect,
			sbtest.UpdateK, sbtest.UpdateC, sbtest.Delete, sbtest.Insert, sbtest.Commit} {
			require.Equal(t, n, sys.seen[s], s.Text())
		}
		require.Zero(t, sys.seen[sbtest.Rollback])
	})
}

// TestStallIsChargedToArrivals: every transaction that arrives while the system stands
// still waits, not only those whose statement it holds.
func TestStallIsChargedToArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stalled atomic.Bool
		release := make(chan struct{})
		sys := &system{run: func(ctx context.Context, _ sbtest.Statement) error {
			if stalled.Load() {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return ctx.Err()
		}}
		d, err := sbtest.Start(t.Context(), sbtest.Options{Dial: sys.dial, Threads: 2, PerSecond: 200, Rows: 100, Seed: 1})
		require.NoError(t, err)
		time.Sleep(300 * time.Millisecond)
		stall := sbtest.Interval{From: d.Elapsed()}
		stalled.Store(true)
		time.Sleep(500 * time.Millisecond)
		require.Greater(t, d.Backlog(), int64(20))
		stall.To = d.Elapsed()
		stalled.Store(false)
		close(release)
		time.Sleep(300 * time.Millisecond)
		r := d.Stop(5 * time.Second)

		sum := r.Summary(stall)
		require.Less(t, sum.Completed, 10)
		require.Greater(t, sum.Arrived, 60, "not only those that held the two sessions")
		require.Greater(t, sum.P50, 100.0, "half of the arrivals waited longer than a tenth of a second")
		require.Greater(t, sum.P99, 300.0)
		require.Zero(t, sum.Unfinished)
		before := r.Summary(sbtest.Interval{To: stall.From - 100*time.Millisecond})
		require.Less(t, before.P50, 50.0)
	})
}

func TestConflictsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		sys := &system{run: func(_ context.Context, s sbtest.Statement) error {
			if s == sbtest.UpdateC && n.Add(1)%2 == 1 {
				return errConflict
			}
			return nil
		}}
		d, err := sbtest.Start(t.Context(), sbtest.Options{Dial: sys.dial, Threads: 1, PerSecond: 100, Rows: 100, Seed: 1})
		require.NoError(t, err)
		time.Sleep(300 * time.Millisecond)
		r := d.Stop(time.Second)
		require.NoError(t, r.Err())
		sum := r.Summary(sbtest.Interval{To: time.Hour})
		require.Positive(t, sum.Completed)
		require.Equal(t, sum.Completed, sum.Retries)
		require.Equal(t, sum.Retries, sys.seen[sbtest.Rollback])
	})
}

func TestFailuresAreKeptAndSessionsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := &system{run: func(_ context.Context, s sbtest.Statement) error {
			if s == sbtest.Commit {
				return errBroken
			}
			return nil
		}}
		d, err := sbtest.Start(t.Context(), sbtest.Options{Dial: sys.dial, Threads: 1, PerSecond: 100, Rows: 100, Seed: 1})
		require.NoError(t, err)
		time.Sleep(400 * time.Millisecond)
		r := d.Stop(time.Second)
		require.ErrorIs(t, r.Err(), errBroken)
		sum := r.Summary(sbtest.Interval{To: time.Hour})
		require.Zero(t, sum.Completed)
		require.Positive(t, sum.Failed)
		require.Greater(t, sys.dialed.Load(), int64(1))
		require.Zero(t, sys.open.Load())
	})
}

func TestStopCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := &system{run: func(ctx context.Context, _ sbtest.Statement) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		d, err := sbtest.Start(t.Context(), sbtest.Options{Dial: sys.dial, Threads: 2, PerSecond: 100, Rows: 100, Seed: 1})
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		r := d.Stop(50 * time.Millisecond)
		require.Equal(t, 50*time.Millisecond, time.Since(start))
		require.Greater(t, r.Summary(sbtest.Interval{To: time.Hour}).Unfinished, 5, "also those that no session was free for")
	})
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := &system{run: func(context.Context, sbtest.Statement) error {
			time.Sleep(50 * time.Microsecond)
			return nil
		}}
		d, err := sbtest.Start(t.Context(), sbtest.Options{Dial: sys.dial, Threads: 2, Rows: 100, Seed: 1})
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		require.Zero(t, d.Backlog())
		r := d.Stop(time.Second)
		require.Greater(t, r.Summary(sbtest.Interval{To: time.Hour}).Completed, 100)
	})
}

func TestClosedLoopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := &system{}
		d, err := sbtest.Start(t.Context(), sbtest.Options{Dial: sys.dial, Threads: 4, MaxPerSecond: 50, Rows: 100, Seed: 1})
		require.NoError(t, err)
		time.Sleep(time.Second)
		r := d.Stop(0)
		require.NoError(t, r.Err())
		require.InDelta(t, 50, r.Summary(sbtest.Interval{To: time.Hour}).Completed, 1)
	})
}

func TestOptionsListEveryProblem(t *testing.T) {
	_, err := sbtest.Start(t.Context(), sbtest.Options{PerSecond: -1, MaxPerSecond: -1})
	for _, field := range []string{"Dial", "Threads", "PerSecond", "MaxPerSecond", "Rows"} {
		require.ErrorContains(t, err, field)
	}
}

func TestNumberedPlaceholders(t *testing.T) {
	require.Equal(t, "UPDATE sbtest1 SET c = $1 WHERE id = $2", sbtest.UpdateC.Numbered())
	require.Equal(t, "BEGIN", sbtest.Begin.Numbered())
}
