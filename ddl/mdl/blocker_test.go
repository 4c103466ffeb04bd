package mdl

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fastddl/event"
)

// client is a session with a clock of its own, whose transaction ends when the
// session does.
type client struct {
	lock *Lock

	mu      sync.Mutex
	idle    time.Duration
	running bool
	killed  bool
}

func (c *client) setIdle(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = d
}

func (c *client) isKilled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.killed
}

func (c *client) killIdle(atLeast time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed || c.running || c.idle < atLeast {
		return false
	}
	c.killed = true
	c.lock.Release()
	return true
}

// idleFixture has a policy, and a short interval at which it is applied.
type idleFixture struct {
	*fixture
	timeout atomic.Int64
	ended   chan event.IdleBlockerEnded
}

func newIdleFixture() *idleFixture {
	f := &idleFixture{fixture: newFixture(), ended: make(chan event.IdleBlockerEnded, 8)}
	bus := &event.Bus{}
	bus.Subscribe(func(e event.Event) { f.ended <- e.(event.IdleBlockerEnded) })
	f.Manager = newManager(f.schemas.current, Options{
		Enabled:        f.on.Load,
		IdleTimeout:    func() time.Duration { return time.Duration(f.timeout.Load()) },
		Bus:            bus,
		ReportInterval: time.Millisecond,
	})
	return f
}

// next returns the next session that the policy ends.
func (f *idleFixture) next(t *testing.T) event.IdleBlockerEnded {
	t.Helper()
	select {
	case e := <-f.ended:
		return e
	case <-time.After(10 * time.Second):
		require.FailNow(t, "nobody was ended")
		return event.IdleBlockerEnded{}
	}
}

// client begins a transaction that has written the table.
func (f *idleFixture) client(t *testing.T, id uint64) *client {
	t.Helper()
	c := &client{}
	c.lock = f.Begin(Owner{
		ConnID: id, Started: time.Now().Add(-time.Hour),
		SQL: func() string { return "update t set a = 1" },
		Idle: func() time.Duration {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.idle
		},
		KillIdle: c.killIdle,
	})
	_, err := c.lock.Bind(tableID)
	require.NoError(t, err)
	return c
}

func TestIdleBlockersAreEnded(t *testing.T) {
	f := newIdleFixture()
	f.timeout.Store(int64(10 * time.Second))
	idle, busy, recent := f.client(t, 1), f.client(t, 2), f.client(t, 3)
	idle.idle, busy.idle, busy.running, recent.idle = 10*time.Second, time.Hour, true, 9*time.Second
	f.publish(tableID, 2)
	// It has written under the new version, so nobody waits for it.
	newer := f.client(t, 4)
	newer.setIdle(time.Hour)

	done := f.waiting(context.Background(), 2, nil)
	e := f.next(t)
	require.EqualValues(t, 1, e.ConnID)
	require.EqualValues(t, 1, e.JobID())
	require.Equal(t, 10*time.Second, e.Idle)
	require.GreaterOrEqual(t, e.Age, time.Hour)
	require.Equal(t, "test.t7", e.Schema+"."+e.Table)
	require.Equal(t, "update t set a = 1", e.SQL)
	require.Contains(t, e.String(), "connection 1")
	requireBlocked(t, done)
	require.False(t, busy.isKilled(), "it runs a statement")
	require.False(t, recent.isKilled())

	recent.setIdle(10 * time.Second)
	require.EqualValues(t, 3, f.next(t).ConnID, "idleness is looked at as long as the wait lasts")
	requireBlocked(t, done)
	busy.lock.Release()
	require.NoError(t, <-done)
	require.Empty(t, f.ended, "each session is ended once")
	require.False(t, newer.isKilled())
	newer.lock.Release()
}

func TestIdlePolicyIsOffByDefaultAndCanBeSwitchedOn(t *testing.T) {
	f := newIdleFixture()
	c := f.client(t, 1)
	c.setIdle(time.Hour)
	f.publish(tableID, 2)
	done := f.waiting(context.Background(), 2, nil)
	requireBlocked(t, done)
	require.False(t, c.isKilled())

	f.timeout.Store(int64(time.Minute))
	require.NoError(t, <-done, "a wait under way takes the new value")
	require.True(t, c.isKilled())
}

func TestSessionsWithoutIdlePolicyAreLeftAlone(t *testing.T) {
	f := newIdleFixture()
	f.timeout.Store(1)
	l := f.bind(t)
	f.publish(tableID, 2)
	done := f.waiting(context.Background(), 2, nil)
	requireBlocked(t, done)
	l.Release()
	require.NoError(t, <-done)
}

func TestIdleBlockerEndedIsOneShortLine(t *testing.T) {
	e := event.IdleBlockerEnded{Job: event.Job{ID: 5}, ConnID: 9, SQL: "insert into t values (\n" + strings.Repeat("1,", 1<<20) + ")"}
	require.NotContains(t, e.String(), "\n")
	require.Less(t, len(e.String()), 1000)
}
