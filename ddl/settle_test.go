package ddl

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/errno"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/catalog"
	"fastddl/check"
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
			require.NoError(u.t, u.addRow(txn, tbl, i+1))
		}
	})
	require.NoError(u.t, commit())
	a.before = u.env.table(a.table)
	return a
}

// addRow adds the row with a = id.
func (u *uncertainEnv) addRow(txn kv.Txn, tbl *table.Table, id int64) error {
	_, err := tbl.AddRecord(context.Background(), txn, row(id, id, id%3), table.AddOptions{RowID: id})
	return err
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
