package ddl

import (
	"context"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fastddl/event"
	"fastddl/kv"
	"fastddl/table"
)

// A job that is cancelled while a write goes wrong is undone, unless it is the
// request itself that was not made.
func TestUncertainWritesOfACancelledJob(t *testing.T) {
	for _, j := range []uncertainJob{
		{sql: "alter table $ add unique index u (a), add index k (c), add column d int, drop index b"},
		{sql: "alter table $ add index k (c)", slow: true},
	} {
		for _, point := range []string{
			"before change-schema delete-only", "after change-schema write-only", "after take-snapshot snapshot",
			"before backfill backfilled", "after backfill backfilled",
		} {
			t.Run(j.String()+" "+point, func(t *testing.T) {
				t.Parallel()
				u := newUncertainEnv(t)
				u.eachFault(t, 2, j, func(a *attempt, n int, f fault) func() {
					c := u.cancelOnce(point)
					a.run(n, f)
					return func() { c.requireRight(a, f) }
				})
			})
		}
	}
}

// cancellation is a request to cancel a job.
type cancellation struct {
	made bool // it was; a point is left out when the action there is settled later
	hit  bool // by the fault
	err  error
}

// cancelOnce cancels the next job when it is at a point.
func (u *uncertainEnv) cancelOnce(point string) *cancellation {
	c := &cancellation{}
	u.hook = func(p HookPoint) {
		if p.String() != point || c.made {
			return
		}
		c.made = true
		hit := u.faulty.hit()
		c.err = u.ddl.Cancel(context.Background(), []int64{p.JobID})[0]
		c.hit = !hit && u.faulty.hit()
	}
	return c
}

func (c *cancellation) requireRight(a *attempt, f fault) {
	t := a.u.t
	switch {
	case c.hit && f.made:
		if f.blind == 0 {
			require.NoError(t, c.err)
		}
	case c.hit:
		require.ErrorIs(t, c.err, kv.ErrResultUndetermined)
	case c.err != nil:
		require.ErrorIs(t, c.err, errBlind)
	}
	if !c.made || c.err != nil && !(c.hit && f.made) {
		require.NoError(t, a.err)
		a.requireEnd("synced")
		return
	}
	a.u.requireCode(a.err, errno.ErrCancelledDDLJob, "")
	a.requireEnd("rollback done", "cancelled")
}

// A job that is paused and resumed while a write goes wrong goes on, by itself if
// the request to resume it was made.
func TestUncertainWritesOfAPausedJob(t *testing.T) {
	j := uncertainJob{sql: "alter table $ add unique index u (a, b), drop index b"}
	for _, point := range []string{
		"before change-schema delete-only", "after change-schema write-only", "before backfill backfilled",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			u := newUncertainEnv(t)
			u.eachFault(t, 2, j, func(a *attempt, n int, f fault) func() {
				parked := make(chan int64, 1)
				u.pauseOnce(point, parked)
				resumed := make(chan struct{})
				go func() {
					defer close(resumed)
					if id, ok := <-parked; ok {
						u.resume(id, f)
					}
				}()
				a.run(n, f)
				close(parked)
				<-resumed
				return func() {
					require.NoError(u.t, a.err)
					a.requireEnd("synced")
				}
			})
		})
	}
}

// pauseOnce pauses the next job when it is at a point, and sends its ID when it
// is paused.
func (u *uncertainEnv) pauseOnce(point string, parked chan<- int64) {
	asked := false
	u.hook = func(p HookPoint) {
		if p.String() != point || asked {
			return
		}
		asked = true
		// Whether that fails does not matter: it is resumed if it is paused.
		_ = u.ddl.Pause(context.Background(), []int64{p.JobID})
		parked <- p.JobID
	}
}

// resume resumes a job that is paused, or is going to be.
func (u *uncertainEnv) resume(id int64, f fault) {
	for {
		t := u.ddl.find(id)
		if t == nil {
			return
		}
		if t.snapshot().State != model.JobStatePaused {
			time.Sleep(time.Millisecond)
			continue
		}
		hit := u.faulty.hit()
		err := u.ddl.Resume(context.Background(), []int64{id})[0]
		if err == nil || f.made && !hit && u.faulty.hit() {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// New settings of a job that builds are in force if they were written, and the
// build goes on either way.
func TestUncertainAlteration(t *testing.T) {
	u := newUncertainEnv(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			defer u.as(t)()
			f.blind = min(f.blind, 1) // the build itself can read
			a := u.prepare(uncertainJob{sql: "alter table $ add index k (c)"})
			altered, threads := false, 3
			var live []int // at the begin of each build
			defer u.bus.Subscribe(func(e event.Event) {
				if s, ok := e.(event.StageChanged); ok && s.Stage == "scan" {
					live = append(live, u.ddl.find(s.ID).settings.Get().Workers)
				}
			})()
			u.hook = func(p HookPoint) {
				if p.String() != "before backfill backfilled" || altered {
					return
				}
				altered = true
				u.faulty.arm(1, f)
				if err := u.ddl.Alter(t.Context(), p.JobID, Alteration{Threads: &threads}); f.blind == 0 {
					assert.Equal(t, f.made, err == nil, "%v", err)
				}
			}
			require.NoError(t, u.exec(a.sql))
			require.True(t, u.faulty.disarm())
			a.requireEnd("synced")
			want := map[bool]int{true: threads}[f.made]
			require.Equal(t, want, a.ended()[0].Settings.Threads)
			require.Equal(t, []int{want}, live)
		})
	}
}

// A request is in force as soon as anybody can know that it was made, whatever the
// job waits for.
func TestUncertainRequests(t *testing.T) {
	u := newUncertainEnv(t)
	ctx := t.Context()
	for _, f := range faults {
		if f.published { // which is no fault where there is nothing to publish
			continue
		}
		t.Run("pause and resume/"+f.name, func(t *testing.T) {
			defer u.as(t)()
			a := u.prepare(uncertainJob{sql: "alter table $ add index k (c)"})
			var id int64
			u.hook = func(p HookPoint) {
				if p.String() == "before backfill backfilled" && id == 0 {
					id = p.JobID
					u.faulty.arm(1, f)
					_ = u.ddl.Pause(ctx, []int64{id}) // what it returns is for another test
					assert.Equal(t, f.blind > 0, u.ddl.find(id).isUnsettled())
				}
			}
			done := u.async(ctx, a.sql)
			if f.made {
				waitFor(t, "the job is paused", func() bool { return u.jobs()[0].State == "paused" })
				require.True(t, u.faulty.disarm())
				u.faulty.arm(1, f)
				err := u.ddl.Resume(ctx, []int64{id})[0]
				require.Equal(t, f.blind == 0, err == nil, "%v", err)
			}
			require.NoError(t, <-done)
			require.True(t, u.faulty.disarm())
			a.requireEnd("synced")
		})
		t.Run("cancel/"+f.name, func(t *testing.T) {
			defer u.as(t)()
			a := u.prepare(uncertainJob{sql: "alter table $ add index k (c)"})
			commit, _ := u.write(a.table, func(kv.Txn, *table.Table) {})
			u.hook = func(p HookPoint) {
				if p.String() == "after change-schema delete-only" {
					u.faulty.arm(1, f)
					_ = u.ddl.Cancel(ctx, []int64{p.JobID})
				}
			}
			done := u.async(ctx, a.sql)
			waitFor(t, "the job waits for the writer", func() bool { return len(u.locks.Blockers()) > 0 })
			if f.made {
				waitFor(t, "the job is being undone", func() bool { return u.jobs()[0].State == "rollingback" })
			}
			require.NoError(t, commit())
			require.True(t, u.faulty.disarm())
			if !f.made {
				require.NoError(t, <-done)
				a.requireEnd("synced")
				return
			}
			u.requireCode(<-done, errno.ErrCancelledDDLJob, "")
			a.requireEnd("rollback done")
		})
	}
}

func (t *task) isUnsettled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unsettled != nil
}
