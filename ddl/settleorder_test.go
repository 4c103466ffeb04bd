package ddl

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fastddl/catalog"
	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/kv"
	"fastddl/table"
)

// I1: a schema that was published late, because its write seemed to have failed,
// is waited for like any other.
func TestWritersAreAwaitedAfterAnUncertainWrite(t *testing.T) {
	u := newUncertainEnv(t)
	for _, f := range faults {
		if !f.made {
			continue
		}
		a := u.prepare(uncertainJob{sql: "alter table $ add index k (c)"})
		commit, _ := u.write(a.table, func(txn kv.Txn, tbl *table.Table) {
			require.NoError(t, u.addRow(txn, tbl, 50))
		})
		u.hook = func(p HookPoint) {
			if p.String() == "before change-schema delete-only" {
				u.faulty.arm(1, f)
			}
		}
		done := u.async(t.Context(), a.sql)
		waitFor(t, "the job waits for the transaction", func() bool { return len(u.locks.Blockers()) == 1 })
		require.True(t, u.faulty.disarm())
		require.Equal(t, "delete only", u.jobs()[0].SchemaState, f.name)
		require.NoError(t, commit())
		require.NoError(t, <-done)
		a.requireEnd("synced")
	}
}

// Nothing is written over a record that is not known: what a client has written
// to it stays.
func TestNothingIsWrittenUnsettled(t *testing.T) {
	u := newUncertainEnv(t)
	a := u.prepare(uncertainJob{sql: "alter table $ add index k (c)"})
	builds := 0
	u.hook = func(p HookPoint) {
		if p.String() != "before backfill backfilled" {
			return
		}
		if builds++; builds > 1 {
			return
		}
		// As by a client whose commit does not come back before the worker's.
		task := u.ddl.find(p.JobID)
		task.mu.Lock()
		defer task.mu.Unlock()
		after := task.machine.After(task.machine.Job().Step)
		after.Settings.Threads = 3
		assert.NoError(t, u.ddl.update(t.Context(), func(_ context.Context, m *catalog.Mutation) error { return putRecord(m, after) }))
		task.unsettled = kv.ErrResultUndetermined
	}
	require.NoError(t, u.exec(a.sql))
	a.requireEnd("synced")
	require.Equal(t, 3, a.ended()[0].Settings.Threads)
	require.Zero(t, a.ended()[0].ErrorCount)
	require.Equal(t, 2, builds)
}

// A write that was made is no failure of the job, however late that is known.
func TestWriteMadeIsNoFailure(t *testing.T) {
	e := newEnv(t)
	store := e.store
	require.NoError(t, e.ddl.Close())
	u := &uncertainEnv{env: e, faulty: &uncertainStore{Store: store}}
	u.store = u.faulty
	u.start(nil)
	u.fake.store = store // all that goes wrong is the job's record
	_, _, err := u.globals.Set("tidb_ddl_error_count_limit", "0")
	require.NoError(t, err)
	states := map[string]bool{}
	u.bus.Subscribe(func(e event.Event) {
		if s, ok := e.(event.JobStateChanged); ok {
			states[s.To] = true
		}
	})
	for n := 2; ; n++ {
		a := u.prepare(uncertainJob{sql: "alter table $ add index k (c)"})
		a.run(n, fault{made: true, blind: 3})
		require.NoError(t, a.err)
		if !a.hit {
			break
		}
		require.Zero(t, a.ended()[0].ErrorCount)
	}
	require.NotContains(t, states, "rollingback")
}

// The next owner takes over before the first one knows what has become of a
// write: the job ends there, once, from what was stored.
func TestUncertainWriteAndTheNextOwner(t *testing.T) {
	for _, j := range []uncertainJob{
		{sql: "alter table $ add unique index u (a, b), drop index b"},
		{sql: "alter table $ add unique index u (b), add index k (c)", code: errno.ErrDupEntry},
	} {
		for _, made := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/made=%v", j, made), func(t *testing.T) {
				t.Parallel()
				for n, hit := 1, true; hit; n++ {
					hit = nextOwnerAt(t, j, made, n)
				}
			})
		}
	}
}

// nextOwnerAt lets the next owner take over while the n-th write of a statement
// goes wrong. It returns false if there is no such write.
func nextOwnerAt(t *testing.T, j uncertainJob, made bool, n int) (hit bool) {
	u := newUncertainEnv(t)
	a := u.prepare(j)
	first := u.ddl
	a.run(n, fault{made: made, then: u.startNode})
	if !a.hit {
		return false
	}
	require.True(t, ErrNotOwner.Equal(a.err), "%d: %v", n, a.err)
	require.NoError(t, first.Close())
	waitFor(t, "the next owner to end the job", func() bool { return len(u.ddl.tasks()) == 0 })
	switch {
	case n == 1 && !made:
		require.Empty(t, a.ended())
		a.requireUndone()
	case j.code != 0:
		a.requireEnd("rollback done")
		require.Contains(t, a.ended()[0].Error, "Duplicate entry")
	default:
		a.requireEnd("synced")
	}
	return true
}

// A job of which it is not known whether it was queued, and that would have to
// wait for its turn, shares its ID with nobody.
func TestJobThatMayNotBeQueued(t *testing.T) {
	for _, made := range []bool{true, false} {
		t.Run(fmt.Sprintf("made=%v", made), func(t *testing.T) {
			u := newUncertainEnv(t)
			a := u.prepare(uncertainJob{sql: "alter table $ add index k (c)"})
			other := u.prepare(uncertainJob{sql: "alter table $ add index k (c)"})
			started, goOn := make(chan struct{}), make(chan struct{})
			u.hook = func(p HookPoint) {
				if p.String() == "before backfill backfilled" && u.ddl.find(p.JobID).snapshot().TableID == a.before.Info.ID {
					close(started)
					<-goOn
				}
			}
			first := u.async(t.Context(), a.sql)
			<-started
			u.faulty.arm(1, fault{made: made})
			second := u.async(t.Context(), "alter table "+a.table+" comment 'x'")
			waitFor(t, "the second job", func() bool { return len(u.ddl.tasks()) == 2 })
			require.True(t, u.faulty.disarm())
			u.must(other.sql)
			ids := map[int64]bool{other.ended()[0].ID: true}
			for _, task := range u.ddl.tasks() {
				ids[task.id] = true
			}
			require.Len(t, ids, 3)
			var mu sync.Mutex
			var states []string // of the second job
			if !made {
				id := u.ddl.tasks()[1].id
				u.bus.Subscribe(func(e event.Event) {
					if s, ok := e.(event.JobStateChanged); ok && s.ID == id {
						mu.Lock()
						states = append(states, s.To)
						mu.Unlock()
					}
				})
				// Whoever asks first finds out; the worker is told.
				require.ErrorIs(t, u.ddl.Cancel(t.Context(), []int64{id})[0], kv.ErrResultUndetermined)
			}
			close(goOn)
			require.NoError(t, <-first)
			err := <-second
			a.requireEnd("synced")
			if made {
				require.NoError(t, err)
				require.Equal(t, "x", u.env.table(a.table).Info.Comment)
				return
			}
			require.ErrorIs(t, err, kv.ErrResultUndetermined)
			require.Empty(t, u.env.table(a.table).Info.Comment)
			mu.Lock()
			defer mu.Unlock()
			require.Equal(t, []string{"cancelled"}, states)
		})
	}
}

// The record is read under the fence of the term.
func TestRereadIsFenced(t *testing.T) {
	e := newEnv(t)
	e.fill(1)
	first, id := e.ddl, e.jobs()[0].ID
	j, err := first.reread(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, job.StepFinished, j.Step)
	j, err = first.reread(t.Context(), 4711)
	require.NoError(t, err)
	require.Nil(t, j)
	e.start(nil)
	_, err = first.reread(t.Context(), id)
	e.requireCode(err, errno.ErrNotOwner, "")
}
