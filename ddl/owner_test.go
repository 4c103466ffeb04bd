package ddl

import (
	"context"
	"errors"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/catalog"
	"fastddl/ddl/job"
	"fastddl/table"
)

// stopAt returns a Hook that blocks at the n-th point until go on is called.
func stopAt(n int) (hook func(context.Context, HookPoint) error, reached chan HookPoint, goOn func()) {
	reached, release := make(chan HookPoint, 1), make(chan struct{})
	i := 0
	hook = func(_ context.Context, p HookPoint) error {
		if i++; i == n {
			reached <- p
			<-release
		}
		return nil
	}
	return hook, reached, func() { close(release) }
}

// Two processes believe that they own the jobs. Whatever the first one was about
// to do when the second took over, it changes nothing any more, and the job ends
// once, in the second.
func TestOwnersOverlap(t *testing.T) {
	fails := func(context.Context, BackfillTask) error {
		return job.Permanent(errors.New("what cannot be built"))
	}
	for _, c := range []struct {
		sql   string
		build func(context.Context, BackfillTask) error
	}{
		{sql: "alter table t add index k (k), add unique index u (c)"},
		{sql: "alter table t add index k (k)", build: fails},
		{sql: "alter table t drop index old"},
	} {
		for n := 1; overlapAt(t, c.sql, c.build, n); n++ {
		}
	}
}

// overlapAt lets the second owner take over when the first is at its n-th hook
// point. It returns false if the job has no such point.
func overlapAt(t *testing.T, sql string, build func(context.Context, BackfillTask) error, n int) (exists bool) {
	e := newEnv(t)
	e.fill(50)
	e.must("alter table t add index old (k, c)")
	hook, reached, goOn := stopAt(n)
	e.restart(func(o *Options) { o.Hook = hook })
	e.fake.set(build)
	first, firstCat := e.ddl, e.cat
	done := e.async(t.Context(), sql)
	var point HookPoint
	select {
	case point = <-reached:
	case <-done:
		return false
	}

	e.start(func(o *Options) { o.Backfiller.(*fakeBackfiller).set(build) })
	waitFor(t, "the second owner to end the job", func() bool { return len(e.ddl.tasks()) == 0 })
	jobs := e.jobs()
	version := e.cat.Current().Version()
	goOn()
	err := <-done
	require.NoError(t, e.cat.Reload(t.Context()))
	if point.When == "after" && point.Action == "finish" {
		require.False(t, ErrNotOwner.Equal(err), "%s at %s: it has ended the job itself", sql, point)
	} else {
		require.True(t, ErrNotOwner.Equal(err), "%s at %s: %v", sql, point, err)
	}
	_, err = first.Execute(t.Context(), request(t, "alter table t add index later (k)"))
	e.requireCode(err, errno.ErrNotOwner, "")
	require.NoError(t, first.Close())

	require.Equal(t, jobs, e.jobs(), "%s at %s", sql, point)
	require.Equal(t, version, e.cat.Current().Version(), "%s at %s", sql, point)
	require.NoError(t, firstCat.Reload(t.Context()))
	e.requireNoTrace()
	switch {
	case jobs[0].Type == model.ActionDropIndex.String():
		require.Nil(t, e.index("t", "old"))
	case build != nil:
		require.Nil(t, e.index("t", "k"))
	default:
		for _, idx := range e.table("t").Info.Indices {
			require.Equal(t, model.StatePublic, idx.State)
			require.Equal(t, 50, e.entries(table.IndexRange(e.table("t").Info.ID, idx.ID)), "%s at %s: index %s", sql, point, idx.Name.O)
		}
	}
	return true
}

// An owner that lost its term while it builds stops building.
func TestBuildStopsWithTheTerm(t *testing.T) {
	e := newEnv(t)
	e.fill(50)
	e.restart(nil)
	started, stopped := make(chan struct{}), make(chan struct{})
	e.fake.set(func(ctx context.Context, task BackfillTask) error {
		close(started)
		for ctx.Err() == nil {
			time.Sleep(time.Duration(rand.Intn(3)) * time.Millisecond)
			if err := task.SaveCheckpoint(ctx, []byte("so far")); err != nil {
				close(stopped)
				return err
			}
		}
		return ctx.Err()
	})
	done := e.async(t.Context(), "alter table t add index k (k)")
	<-started
	e.start(nil)
	<-stopped
	require.True(t, ErrNotOwner.Equal(<-done))
	waitFor(t, "the second owner to end the job", func() bool { return len(e.ddl.tasks()) == 0 })
	require.Equal(t, "synced", e.jobs()[0].State)
}

// A write that began before the next term and commits after it is refused.
func TestTermEndsDuringAWrite(t *testing.T) {
	e := newEnv(t)
	first := e.ddl
	err := first.update(t.Context(), func(_ context.Context, m *catalog.Mutation) error {
		if e.ddl == first {
			e.start(nil)
		}
		return m.Structure().Set([]byte("FastDDLTest"), []byte("stale"))
	})
	e.requireCode(err, errno.ErrNotOwner, "")
	require.NoError(t, e.cat.View(t.Context(), func(_ context.Context, m *catalog.Mutation) error {
		value, err := m.Structure().Get([]byte("FastDDLTest"))
		require.Nil(t, value)
		return err
	}))
	require.Error(t, first.ctx.Err(), "it stops running jobs")
}

// An owner that was about to take S when the next one took over, and goes on when
// that one builds, leaves garbage collection held for it.
func TestNextOwnerKeepsItsHold(t *testing.T) {
	e := newEnv(t)
	e.fill(5)
	stalled, release := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(release) })
	defer goOn()
	e.restart(func(o *Options) {
		o.Hook = func(_ context.Context, p HookPoint) error {
			if p.String() == "before take-snapshot snapshot" {
				close(stalled)
				<-release
			}
			return nil
		}
	})
	old, first := e.ddl, e.async(t.Context(), "alter table t add index k (k)")
	<-stalled
	building, end := make(chan BackfillTask), make(chan struct{})
	e.start(func(o *Options) {
		o.Backfiller.(*fakeBackfiller).set(func(ctx context.Context, task BackfillTask) error {
			building <- task
			select {
			case <-end:
			case <-ctx.Done():
			}
			return ctx.Err()
		})
	})
	task := <-building
	goOn()
	require.True(t, ErrNotOwner.Equal(<-first))
	require.NoError(t, old.Close())
	holds, err := e.store.GCHolds(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{holdName(task.JobID, e.ddl.term): task.TS}, holds)
	close(end)
	waitFor(t, "the second owner to end the job", func() bool { return len(e.ddl.tasks()) == 0 })
	e.requireNoTrace()
}

// What an owner imports that does not know yet that the next one has undone its
// job is deleted with everything else that was dropped.
func TestImportsAfterTheRollbackAreDeleted(t *testing.T) {
	e := newEnv(t)
	e.fill(5)
	store := &piecesStore{Store: e.store}
	e.store = store
	e.restart(nil)
	building, release := make(chan struct{}), make(chan struct{})
	goOn := sync.OnceFunc(func() { close(release) })
	defer goOn()
	e.fake.set(func(context.Context, BackfillTask) error {
		close(building)
		<-release
		return nil
	})
	first := e.async(t.Context(), "alter table t add index k (k)")
	<-building
	e.start(func(o *Options) {
		o.Backfiller.(*fakeBackfiller).set(func(context.Context, BackfillTask) error {
			return job.Permanent(errors.New("what cannot be built"))
		})
	})
	waitFor(t, "the second owner to undo the job", func() bool { return len(e.ddl.tasks()) == 0 })
	info := e.table("t").Info
	require.Empty(t, info.Indices)
	goOn()
	require.True(t, ErrNotOwner.Equal(<-first))
	entries := table.IndexRange(info.ID, info.MaxIndexID)
	require.Equal(t, 5, e.entries(entries), "the old owner has imported")
	store.pass()
	waitFor(t, "the deletion", func() bool { return len(e.deleteRanges()) == 0 })
	require.Zero(t, e.entries(entries))
}
