package ddl

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/catalog"
	"fastddl/check"
	"fastddl/ddl/job"
	"fastddl/kv"
	"fastddl/table"
)

// uncertainEnv is a node on an uncertainStore, with the real backfill.
type uncertainEnv struct {
	*env
	faulty *uncertainStore
	// hook is called at each point of a job; what runs there must not end its
	// goroutine, which is the job's.
	hook func(p HookPoint)
	n    int // of tables made
}

func newUncertainEnv(t *testing.T) *uncertainEnv {
	e := newEnv(t)
	require.NoError(t, e.ddl.Close())
	u := &uncertainEnv{env: e, faulty: &uncertainStore{Store: e.store}}
	u.store = u.faulty
	u.startNode()
	return u
}

func (u *uncertainEnv) startNode() {
	u.start(func(o *Options) {
		o.Backfiller = NewBackfiller(backfill.Options{Store: u.store, Globals: u.globals, Bus: u.bus})
		o.Hook = func(_ context.Context, p HookPoint) error {
			if u.hook != nil {
				u.hook(p)
			}
			return nil
		}
	})
}

// uncertainJob is a statement on a table (a int, b int, c varchar(20), key b (b))
// of 12 rows, in which a is unique and b is not. $ stands for the table's name.
type uncertainJob struct {
	sql string
	// slow says that the index is built by transactions.
	slow bool
	// code is that of the error, if the statement fails.
	code int
}

func (j uncertainJob) String() string {
	return strings.TrimSpace(strings.ReplaceAll(j.sql, "$", "") + map[bool]string{true: " by transactions"}[j.slow])
}

var uncertainJobs = []uncertainJob{
	{sql: "alter table $ add index k (c, a)"},
	{sql: "alter table $ add index k (c, a)", slow: true},
	{sql: "alter table $ add unique index u (a, b)"},
	{sql: "alter table $ add unique index u (a, b)", slow: true},
	{sql: "alter table $ add unique index u (b), add index k (c)", code: errno.ErrDupEntry},
	{sql: "alter table $ add primary key (a)"},
	{sql: "alter table $ drop index b"},
	{sql: "alter table $ add unique index u (a), add column d int not null default 7, drop index b, drop column c, comment 'x'"},
	{sql: "create table $2 (a int primary key)"},
	{sql: "truncate table $"},
	{sql: "rename table $ to $2"},
	{sql: "drop table $"},
	{sql: "create database $"},
}

// attempt is one execution of a statement.
type attempt struct {
	u      *uncertainEnv
	job    uncertainJob
	table  string
	sql    string
	before *catalog.Table
	err    error
	hit    bool
}

// prepare makes a table for a statement.
func (u *uncertainEnv) prepare(j uncertainJob) *attempt {
	u.t.Helper()
	u.n++
	a := &attempt{u: u, job: j, table: fmt.Sprintf("t%03d", u.n)}
	a.sql = strings.ReplaceAll(j.sql, "$", a.table)
	_, _, err := u.globals.Set("tidb_ddl_enable_fast_reorg", map[bool]string{false: "ON", true: "OFF"}[j.slow])
	require.NoError(u.t, err)
	u.must(fmt.Sprintf("create table %s (a int, b int, c varchar(20), key b (b))", a.table))
	commit, _ := u.write(a.table, func(txn kv.Txn, tbl *table.Table) {
		for i := range int64(12) {
			_, err := tbl.AddRecord(context.Background(), txn, row(i+1, i+1, (i+1)%3), table.AddOptions{RowID: i + 1})
			require.NoError(u.t, err)
		}
	})
	require.NoError(u.t, commit())
	a.before = u.env.table(a.table)
	return a
}

// run executes the statement; its n-th commit goes wrong.
func (a *attempt) run(n int, f fault) {
	a.u.faulty.arm(n, f)
	a.err = a.u.exec(a.sql)
	a.hit = a.u.faulty.disarm()
}

// versions are the schema versions that the statement made, in words: the states
// of all that the table has.
func (a *attempt) versions() (out []string) {
	a.u.t.Helper()
	last := int64(-1)
	for _, ts := range a.u.faulty.timestamps() {
		cat, err := catalog.Open(context.Background(), pastStore{a.u.faulty.Store, ts})
		require.NoError(a.u.t, err)
		is := cat.Current()
		if is.Version() == last {
			continue
		}
		if last >= 0 || len(out) > 0 {
			require.Equal(a.u.t, last+1, is.Version())
		}
		last = is.Version()
		out = append(out, a.words(is))
	}
	return out
}

func (a *attempt) words(is *catalog.InfoSchema) string {
	var b strings.Builder
	for _, db := range []string{"test", a.table} {
		for _, tbl := range is.Tables(db) {
			if !strings.HasPrefix(tbl.Info.Name.L, a.table) {
				continue
			}
			fmt.Fprintf(&b, "table %s:", strings.TrimPrefix(tbl.Info.Name.L, a.table))
			for _, idx := range tbl.Info.Indices {
				fmt.Fprintf(&b, " index %s %s %d", idx.Name.L, idx.State, idx.BackfillState)
			}
			for _, col := range tbl.Info.Columns {
				fmt.Fprintf(&b, " column %s %s", col.Name.L, col.State)
			}
			fmt.Fprintf(&b, " %s\n", tbl.Info.Comment)
		}
	}
	return b.String()
}

// ended returns the records of the statement's jobs that have ended.
func (a *attempt) ended() []JobInfo {
	a.u.t.Helper()
	return slices.DeleteFunc(a.u.jobs(), func(j JobInfo) bool { return j.Query != a.sql })
}

// requireEnd checks that the statement ended once, in a state, that the table is
// what it should be, and that nothing else is left.
func (a *attempt) requireEnd(states ...string) {
	a.u.t.Helper()
	t := a.u.t
	ended := a.ended()
	require.Len(t, ended, 1)
	require.Contains(t, states, ended[0].State)
	require.NoError(t, a.u.cat.Reload(context.Background()))
	a.requireWhole()
	if ended[0].State != "synced" {
		a.requireUndone()
	}
}

// requireWhole checks that nothing of a job is left, and that the table equals
// its indexes.
func (a *attempt) requireWhole() {
	a.u.t.Helper()
	a.u.requireNoTrace()
	ts, err := a.u.store.CurrentTS(context.Background())
	require.NoError(a.u.t, err)
	if tbl, ok := a.u.cat.Current().Table("test", a.table); ok {
		require.NoError(a.u.t, check.Table(context.Background(), a.u.store, tbl, ts, check.Options{Workers: 1}))
	}
}

func (a *attempt) requireUndone() {
	a.u.t.Helper()
	before, after := a.before.Info, a.u.env.table(a.table).Info
	require.Equal(a.u.t, definition(a.u.t, before), definition(a.u.t, after))
	for id := before.MaxIndexID + 1; id <= before.MaxIndexID+2; id++ {
		require.Zero(a.u.t, a.u.entries(table.IndexRange(after.ID, id)))
		require.Zero(a.u.t, a.u.entries(table.MarkerRange(after.ID, id)))
	}
}

// drop removes what the statement was about.
func (a *attempt) drop() {
	a.u.t.Helper()
	for _, name := range []string{a.table, a.table + "2"} {
		a.u.must("drop table if exists " + name)
	}
	a.u.must("drop database if exists " + a.table)
}

// Each write that a statement takes, of the job's record and beside it, goes
// wrong in each way. The statement ends as it would have, by the same schema
// versions, none skipped or made twice; or, if its job was not queued, it fails
// and has done nothing.
func TestUncertainWrites(t *testing.T) {
	for _, j := range uncertainJobs {
		t.Run(j.String(), func(t *testing.T) {
			t.Parallel()
			u := newUncertainEnv(t)
			a := u.prepare(j)
			a.run(0, fault{})
			want := a.versions()
			a.drop()
			u.eachFault(t, 1, j, func(a *attempt, n int, f fault) func() {
				a.run(n, f)
				return func() { a.requireRight(n == 1 && !f.made, want) }
			})
		})
	}
}

// eachFault makes attempts at a statement until its writes, from the first-th on,
// have all gone wrong: each is made or not, and in the long form in every other
// way too. Run makes the attempt and returns what checks its end.
func (u *uncertainEnv) eachFault(t *testing.T, first int, j uncertainJob, run func(a *attempt, n int, f fault) (check func())) {
	t.Helper()
	for n := first; ; n++ {
		some := append(faults[:2:2], faults[2+n%(len(faults)-2)])
		if os.Getenv("FASTDDL_LONG") != "" {
			some = faults
		}
		for _, f := range some {
			a := u.prepare(j)
			check := run(a, n, f)
			if !a.hit {
				require.Greater(t, n, first+1)
				return
			}
			if !t.Run(fmt.Sprintf("%d/%s", n, f.name), func(t *testing.T) {
				defer u.as(t)()
				check()
			}) {
				return
			}
			a.drop()
		}
	}
}

// as makes t the test that the environment reports to, until what it returns is
// called.
func (u *uncertainEnv) as(t *testing.T) (restore func()) {
	outer := u.env.t
	u.env.t = t
	return func() { u.env.t = outer }
}

// requireRight checks that the statement did what it does when nothing goes wrong,
// or nothing if its job was not queued.
func (a *attempt) requireRight(notQueued bool, versions []string) {
	t := a.u.t
	if a.u.faulty.lateErr != nil {
		require.True(t, kv.IsWriteConflict(a.u.faulty.lateErr), "%v", a.u.faulty.lateErr)
	}
	if notQueued {
		require.ErrorIs(t, a.err, kv.ErrResultUndetermined)
		require.Empty(t, a.ended())
		require.Empty(t, a.u.ddl.tasks())
		a.requireWhole()
		a.requireUndone()
		return
	}
	require.Equal(t, versions, a.versions())
	if a.job.code != 0 {
		a.u.requireCode(a.err, a.job.code, "")
		a.requireEnd("rollback done")
		return
	}
	require.NoError(t, a.err)
	a.requireEnd("synced")
}

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
			a := u.prepare(uncertainJob{sql: "alter table $ add index k (c)"})
			altered, threads := false, 3
			var live int
			u.hook = func(p HookPoint) {
				task := u.ddl.find(p.JobID)
				switch p.String() {
				case "before backfill backfilled":
					if !altered {
						altered = true
						u.faulty.arm(1, f)
						if err := u.ddl.Alter(t.Context(), p.JobID, Alteration{Threads: &threads}); f.blind == 0 {
							assert.Equal(t, f.made, err == nil, "%v", err)
						}
					}
				case "after backfill backfilled":
					live = task.settings.Get().Workers
				}
			}
			require.NoError(t, u.exec(a.sql))
			require.True(t, u.faulty.disarm())
			a.requireEnd("synced")
			want := map[bool]int{true: threads}[f.made]
			require.Equal(t, want, a.ended()[0].Settings.Threads)
			require.Equal(t, want, live)
		})
	}
}

// I1: a change of the schema of which nobody knew for a while whether it was made
// is waited for as any other.
func TestUncertainChangeWaitsForWriters(t *testing.T) {
	u := newUncertainEnv(t)
	for _, f := range faults {
		if !f.made {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			defer u.as(t)()
			a := u.prepare(uncertainJob{sql: "alter table $ add index k (c)"})
			// The writer binds to delete-only just before the change to write-only.
			var commit func() error
			u.hook = func(p HookPoint) {
				if p.String() != "before change-schema write-only" || commit != nil {
					return
				}
				commit, _ = u.write(a.table, func(txn kv.Txn, tbl *table.Table) {
					_, err := tbl.AddRecord(context.Background(), txn, row(50, 50, 50), table.AddOptions{RowID: 50})
					assert.NoError(t, err)
				})
				u.faulty.arm(1, f)
			}
			done := u.async(t.Context(), a.sql)
			waitFor(t, "the job waits for the writer", func() bool { return len(u.locks.Blockers()) > 0 })
			require.True(t, u.faulty.disarm())
			time.Sleep(50 * time.Millisecond)
			require.Equal(t, model.StateWriteOnly, u.index(a.table, "k").State)
			require.NoError(t, commit())
			require.NoError(t, <-done)
			a.requireEnd("synced")
		})
	}
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

// I1: a schema that was published late, because its write seemed to have failed,
// is waited for like any other.
func TestWritersAreAwaitedAfterAnUncertainWrite(t *testing.T) {
	u := newUncertainEnv(t)
	u.fill(3)
	commit, _ := u.write("t", func(kv.Txn, *table.Table) {})
	u.hook = func(p HookPoint) {
		if p.String() == "before change-schema delete-only" {
			u.faulty.arm(1, fault{made: true})
		}
	}
	done := u.async(t.Context(), "alter table t add index k (k)")
	waitFor(t, "the job waits for the transaction", func() bool { return len(u.locks.Blockers()) == 1 })
	require.True(t, u.faulty.hit())
	require.Equal(t, "delete only", u.jobs()[0].SchemaState)
	require.NoError(t, commit())
	require.NoError(t, <-done)
}
