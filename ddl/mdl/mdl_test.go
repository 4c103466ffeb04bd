package mdl

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	pmodel "github.com/pingcap/tidb/pkg/parser/model"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tableID = 7

// schemas is a catalog of tables of which only versions matter.
type schemas struct{ tables sync.Map }

func (s *schemas) publish(id, version int64) {
	s.tables.Store(id, &catalog.Table{
		DB:            &model.DBInfo{Name: pmodel.NewCIStr("test")},
		Info:          &model.TableInfo{ID: id, Name: pmodel.NewCIStr(fmt.Sprintf("t%d", id))},
		SchemaVersion: version,
	})
}

func (s *schemas) drop(id int64) { s.tables.Delete(id) }

func (s *schemas) current(id int64) (*catalog.Table, bool) {
	t, ok := s.tables.Load(id)
	if !ok {
		return nil, false
	}
	return t.(*catalog.Table), true
}

type fixture struct {
	*Manager
	schemas
	on atomic.Bool
}

func newFixture() *fixture {
	f := &fixture{}
	f.on.Store(true)
	f.Manager = newManager(f.schemas.current, Options{Enabled: f.on.Load})
	f.publish(tableID, 1)
	return f
}

// waiting runs Wait in the background and returns its result's channel.
func (f *fixture) waiting(ctx context.Context, version int64, onWait func([]Blocker)) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f.Wait(ctx, 1, tableID, version, onWait) }()
	return done
}

func (f *fixture) bind(t *testing.T) *Lock {
	t.Helper()
	l := f.Begin(Owner{})
	_, err := l.Bind(tableID)
	require.NoError(t, err)
	return l
}

func requireBlocked(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		require.FailNow(t, "Wait returned", "%v", err)
	case <-time.After(20 * time.Millisecond):
	}
}

func TestWaitForOlderWritersOnly(t *testing.T) {
	f := newFixture()
	older := f.bind(t)
	onlyRead := f.Begin(Owner{})
	otherTable := f.Begin(Owner{})
	f.publish(8, 1)
	_, err := otherTable.Bind(8)
	require.NoError(t, err)

	f.publish(tableID, 2)
	newer := f.bind(t)
	done := f.waiting(context.Background(), 2, nil)
	requireBlocked(t, done)

	// A statement that comes while the owner waits binds to the new version at
	// once; so does a transaction that has only read so far.
	for _, l := range []*Lock{f.Begin(Owner{}), onlyRead} {
		tbl, err := l.Bind(tableID)
		require.NoError(t, err)
		require.EqualValues(t, 2, tbl.SchemaVersion)
	}
	requireBlocked(t, done)

	tbl, err := older.Bind(tableID)
	require.NoError(t, err)
	require.EqualValues(t, 1, tbl.SchemaVersion, "a binding does not move")
	require.NoError(t, older.CheckCommit(100), "a lock that is waited for may commit")
	requireBlocked(t, done)
	older.Release()
	require.NoError(t, <-done)
	newer.Release()
	newer.Release()
	otherTable.Release()
}

// Between reading the current version and being registered, a writer cannot be
// overtaken by an owner that publishes and looks.
func TestBindIsAtomicForTheOwner(t *testing.T) {
	f := newFixture()
	reading, proceed := make(chan struct{}), make(chan struct{})
	f.Manager.current = func(id int64) (*catalog.Table, bool) {
		tbl, ok := f.schemas.current(id)
		close(reading)
		<-proceed
		return tbl, ok
	}
	bound := make(chan *Lock)
	go func() {
		l := f.Begin(Owner{})
		if _, err := l.Bind(tableID); err != nil {
			t.Error(err)
		}
		bound <- l
	}()
	<-reading
	f.publish(tableID, 2)
	done := f.waiting(context.Background(), 2, nil)
	requireBlocked(t, done)
	close(proceed)
	l := <-bound
	requireBlocked(t, done)
	l.Release()
	require.NoError(t, <-done)
}

func TestWaitEndsWithContext(t *testing.T) {
	f := newFixture()
	l := f.bind(t)
	f.publish(tableID, 2)
	ctx, cancel := context.WithCancel(context.Background())
	done := f.waiting(ctx, 2, nil)
	requireBlocked(t, done)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Empty(t, f.Blockers())
	l.Release()
}

func TestBindAfterDropAndRelease(t *testing.T) {
	f := newFixture()
	l := f.Begin(Owner{})
	f.drop(tableID)
	_, err := l.Bind(tableID)
	require.True(t, ErrTableGone.Equal(err), "%v", err)
	l.Release()
	f.publish(tableID, 2)
	_, err = l.Bind(tableID)
	require.ErrorContains(t, err, "after release")
}

func TestBlockersAreNamed(t *testing.T) {
	f := newFixture()
	killed := make(chan struct{})
	start := time.Now().Add(-time.Minute)
	l := f.Begin(Owner{
		ConnID: 42, Started: start,
		SQL:  func() string { return "update t set a = 1" },
		Kill: func() { close(killed) },
	})
	_, err := l.Bind(tableID)
	require.NoError(t, err)
	require.Empty(t, f.Blockers(), "nobody waits yet")

	f.publish(tableID, 2)
	reports := make(chan []Blocker, 8)
	done := f.waiting(context.Background(), 2, func(b []Blocker) { reports <- b })
	for _, got := range [][]Blocker{<-reports, f.Blockers()} {
		require.Len(t, got, 1)
		b := got[0]
		require.EqualValues(t, 1, b.JobID)
		require.EqualValues(t, tableID, b.TableID)
		require.Equal(t, "test.t7", b.DB+"."+b.Table)
		require.EqualValues(t, 1, b.SchemaVersion)
		require.EqualValues(t, 42, b.ConnID)
		require.Equal(t, start, b.TxnStart)
		require.GreaterOrEqual(t, b.Age, time.Minute)
		require.Equal(t, "update t set a = 1", b.SQL)
	}
	f.Blockers()[0].Kill()
	<-killed
	l.Release()
	require.NoError(t, <-done)
	require.Empty(t, f.Blockers())
}

func TestLockOffFailsAtCommit(t *testing.T) {
	f := newFixture()
	f.on.Store(false)
	moved, inFlight := f.bind(t), f.bind(t)
	require.NoError(t, inFlight.CheckCommit(1))
	f.publish(tableID, 2)
	unmoved := f.bind(t)

	done := f.waiting(context.Background(), 2, nil)
	requireBlocked(t, done) // by the commit in flight
	inFlight.Release()
	require.NoError(t, <-done)

	require.True(t, ErrSchemaChanged.Equal(moved.CheckCommit(2)))
	require.NoError(t, unmoved.CheckCommit(3))
	moved.Release()
	unmoved.Release()
}

func TestDroppedTableFailsAtCommitWithLockOff(t *testing.T) {
	f := newFixture()
	f.on.Store(false)
	l := f.bind(t)
	f.drop(tableID)
	require.True(t, ErrSchemaChanged.Equal(l.CheckCommit(1)))
	l.Release()
}

// A transaction the owner did not wait for must not commit, even if the lock is
// switched on again before it tries.
func TestCondemnedStaysCondemned(t *testing.T) {
	f := newFixture()
	l := f.bind(t)
	f.publish(tableID, 2)
	f.on.Store(false)
	require.NoError(t, f.Wait(context.Background(), 1, tableID, 2, nil))
	f.on.Store(true)
	f.publish(tableID, 3)
	require.NoError(t, f.Wait(context.Background(), 1, tableID, 3, nil), "nobody waits for the condemned")
	require.True(t, ErrSchemaChanged.Equal(l.CheckCommit(1)))
	l.Release()
}

func TestSwitchingOffEndsAWait(t *testing.T) {
	f := newFixture()
	l := f.bind(t)
	f.publish(tableID, 2)
	done := f.waiting(context.Background(), 2, nil)
	requireBlocked(t, done)
	f.on.Store(false)
	require.NoError(t, <-done)
	require.True(t, ErrSchemaChanged.Equal(l.CheckCommit(1)))
	l.Release()
}

// TestTwoVersions is invariant I1: no transaction commits a write under version
// n-1 once the owner has gone on to n+1. Writers bind and commit as fast as they
// can while the owner publishes versions, and somebody flips the metadata lock.
func TestTwoVersions(t *testing.T) {
	for _, mode := range []string{"on", "off", "flipping"} {
		t.Run(mode, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			f := newFixture()
			f.on.Store(mode != "off")
			const versions, writers = 300, 6

			// published is stored before the schema itself, so that it is never
			// below what a writer can see.
			var published atomic.Int64
			published.Store(1)
			var stop atomic.Bool
			var committed, refused atomic.Int64
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(seed, uint64(w)))
					for !stop.Load() {
						commit, err := writeOnce(f, rng, &published)
						if err != nil {
							t.Errorf("writer %d: %v", w, err)
							return
						}
						if commit {
							committed.Add(1)
						} else {
							refused.Add(1)
						}
					}
				})
			}
			rng := rand.New(rand.NewPCG(seed, 99))
			for v := int64(2); v <= versions; v++ {
				if mode == "flipping" {
					f.on.Store(rng.IntN(2) == 0)
				}
				published.Store(v)
				f.publish(tableID, v)
				require.NoError(t, f.Wait(context.Background(), 1, tableID, v, nil))
				time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
			}
			stop.Store(true)
			wg.Wait()
			t.Logf("%d commits, %d refused", committed.Load(), refused.Load())
			require.Empty(t, f.bound)
			if mode == "on" {
				require.Zero(t, refused.Load())
			}
		})
	}
}

// writeOnce is a transaction: it binds, idles, and commits. The moment before
// Release stands for its writes becoming visible.
func writeOnce(f *fixture, rng *rand.Rand, published *atomic.Int64) (committed bool, err error) {
	l := f.Begin(Owner{})
	defer l.Release()
	tbl, err := l.Bind(tableID)
	if err != nil {
		return false, err
	}
	if rng.IntN(4) == 0 {
		time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
	}
	if err := l.CheckCommit(1); err != nil {
		if !ErrSchemaChanged.Equal(err) {
			return false, err
		}
		return false, nil
	}
	if rng.IntN(4) == 0 {
		time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
	}
	if now := published.Load(); now > tbl.SchemaVersion+1 {
		return false, fmt.Errorf("writes under version %d while version %d is published", tbl.SchemaVersion, now)
	}
	return true, nil
}
