package sql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/job"
	"fastddl/event"
	"fastddl/internal/randtest"
)

// steps are the places of a job, in order, at which tests stop it.
var steps = []ddl.HookPoint{
	{When: "before", Action: "await-turn"}, {When: "before", Action: "change-schema", Step: "delete-only"},
	{When: "before", Action: "change-schema", Step: "write-only"}, {When: "after", Action: "change-schema", Step: "write-only"},
	{When: "before", Action: "await-version", Step: "write-only"}, {When: "before", Action: "change-schema", Step: "write-reorg"},
	{When: "before", Action: "take-snapshot"}, {When: "before", Action: "await-older"}, {When: "before", Action: "backfill"}, {When: "after", Action: "backfill"},
	{When: "before", Action: "change-schema", Step: "drained"}, {When: "before", Action: "compare"}, {When: "after", Action: "compare"},
	{When: "before", Action: "change-schema", Step: "public"}, {When: "after", Action: "change-schema", Step: "public"},
	{When: "before", Action: "finish"},
}

func matches(p, at ddl.HookPoint) bool {
	return p.When == at.When && p.Action == at.Action && (at.Step == "" || p.Step == at.Step)
}

// blockAt makes jobs wait at a place. The first channel is closed when one has
// arrived there; closing the second lets it go on.
func (e *env) blockAt(at ddl.HookPoint) (arrived, leave chan struct{}) {
	arrived, leave = make(chan struct{}), make(chan struct{})
	first := true
	e.setHook(func(ctx context.Context, p ddl.HookPoint) error {
		if !first || !matches(p, at) {
			return nil
		}
		first = false
		close(arrived)
		select {
		case <-leave:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	return arrived, leave
}

// asked waits until a request waits for a job that a hook holds up: what comes over
// the job's channel shows nowhere else. It returns also when the request has been
// answered already.
func asked(t *testing.T, answered func() bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		stacks := make([]byte, 8<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return answered() || bytes.Contains(stacks, []byte("fastddl/ddl.(*task).send("))
	}, hangTimeout, 5*time.Millisecond, "the request does not reach the job")
}

// has says that a channel holds something.
func has[T any](answer <-chan T) func() bool { return func() bool { return len(answer) > 0 } }

// dieAt executes a statement whose job stops at a place as if the process had died
// there, and waits for that.
func (e *env) dieAt(t *testing.T, statement string, at ddl.HookPoint) {
	t.Helper()
	died := errors.New("died at " + at.String())
	arrived := make(chan struct{})
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if matches(p, at) {
			close(arrived)
			return died
		}
		return nil
	})
	result := e.start(statement)
	reach(t, arrived)
	require.ErrorIs(t, wait(t, result), died)
}

func reach(t *testing.T, arrived <-chan struct{}) {
	t.Helper()
	select {
	case <-arrived:
	case <-time.After(hangTimeout):
		require.Fail(t, "the job did not come there")
	}
}

// awaitNoJob waits until no job has a record any more.
func (c *client) awaitNoJob(what ...any) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return len(c.run("SELECT * FROM mysql.fastddl_ddl_record")) == 0 }, hangTimeout, 5*time.Millisecond, what...)
}

// leavesNothing checks that a job that did not succeed has left nothing (I7).
func (e *env) leavesNothing(c *client, table string) {
	e.t.Helper()
	require.NotContains(e.t, c.one("SHOW CREATE TABLE "+table), "`u`")
	require.Empty(e.t, c.run("SELECT * FROM mysql.fastddl_ddl_record"))
	require.Empty(e.t, c.run("SELECT * FROM mysql.tidb_ddl_job"))
	require.Empty(e.t, c.run("SELECT * FROM mysql.tidb_mdl_info"))
	holds, err := e.store.Builds().GCHolds(context.Background())
	require.NoError(e.t, err)
	for name := range holds {
		id, ok := strings.CutPrefix(name, "fastddl-job-")
		if id, _, _ = strings.Cut(id, "-"); ok && e.clustered { // those of published indexes are left to expire
			require.Equal(e.t, "synced", c.one("SELECT state FROM mysql.fastddl_ddl_jobs WHERE job_id = %s", id))
			continue
		}
		require.NotContains(e.t, name, "fastddl")
	}
	entries, err := os.ReadDir(e.dir + "/tmp")
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(e.t, err)
	}
	require.Empty(e.t, entries)
	c.check(table)
}

func table(c *client, rows int) {
	c.t.Helper()
	c.run("DROP TABLE IF EXISTS t")
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, c VARCHAR(20))")
	var values []string
	for i := range rows {
		values = append(values, fmt.Sprintf("(%d,%d,'c%d')", i, i*7, i))
	}
	c.run("INSERT INTO t VALUES " + strings.Join(values, ","))
}

// A job can be cancelled at every place until its indexes are public.
func TestCancel(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	for _, at := range steps {
		t.Run(at.String(), func(t *testing.T) {
			c := c.of(t)
			table(c, 100)
			arrived, leave := e.blockAt(at)
			result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
			reach(t, arrived)
			id := c.one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_record")
			cancelled := e.answer("ADMIN CANCEL DDL JOBS " + id)
			asked(t, has(cancelled))
			close(leave)
			err := wait(t, result)
			said := <-cancelled
			if err == nil {
				require.Contains(t, said, "error", "at %s", at)
				// What publishes the index may be done before the request is looked at.
				require.GreaterOrEqual(t, slices.Index(steps, at), slices.Index(steps, ddl.HookPoint{When: "after", Action: "compare"}))
				c.check("t")
				return
			}
			require.Contains(t, said, "successful")
			require.Equal(t, 8214, errorCode(err), err.Error())
			e.leavesNothing(c, "t")
			require.Regexp(t, " (cancelled|rollback done) ", c.one("ADMIN SHOW DDL JOBS 1"))
		})
	}
}

// Cancelling a job that is already being undone does not fail.
func TestCancelTwice(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	writer := e.client()
	e.before("change-schema", "write-only", func() { writer.run("BEGIN; INSERT INTO t VALUES (1000, 1000, '')") })
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	state := func(want string) func() bool {
		return func() bool {
			jobs := e.DDL().Unfinished()
			return len(jobs) == 1 && jobs[0].State == want && strings.Contains(jobs[0].WaitReason, "held by 1 transaction")
		}
	}
	require.Eventually(t, state("running"), hangTimeout, 5*time.Millisecond)
	id := c.one("SELECT job_id FROM mysql.tidb_ddl_job")
	require.Equal(t, id+" successful", c.one("ADMIN CANCEL DDL JOBS "+id))
	require.Eventually(t, state("rollingback"), hangTimeout, 5*time.Millisecond)
	require.Equal(t, id+" successful", c.one("ADMIN CANCEL DDL JOBS "+id))
	require.Contains(t, c.one("ADMIN PAUSE DDL JOBS "+id), "rollingback")
	writer.run("COMMIT")
	require.Equal(t, 8214, errorCode(wait(t, result)))
	e.leavesNothing(c, "t")
}

// A paused job stays where it is, also over a restart, and goes on.
func TestPauseResume(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	table(c, 100)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	reach(t, arrived)
	id := c.one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_record")
	done := e.start("ADMIN PAUSE DDL JOBS " + id)
	asked(t, has(done))
	close(leave)
	require.NoError(t, wait(t, done))
	require.Eventually(t, func() bool { return strings.Contains(c.one("ADMIN SHOW DDL JOBS 1 WHERE job_id = "+id), " paused ") }, hangTimeout, 10*time.Millisecond)
	require.Contains(t, c.one("ADMIN PAUSE DDL JOBS "+id), "error")
	// Other statements on the table wait, those on others do not.
	e.start("ALTER TABLE t ADD COLUMN d INT")
	require.Eventually(t, func() bool { return c.one("SELECT COUNT(*) FROM mysql.tidb_ddl_job") == "2" }, hangTimeout, 5*time.Millisecond)
	c.run("CREATE TABLE other (a INT)")
	c.run("INSERT INTO t VALUES (1000, 7000, '')")
	require.NoError(t, e.Layer.Close())
	require.ErrorIs(t, <-result, ddl.ErrClosed)
	require.NoError(t, e.store.Close())
	openLayers.Add(-1)

	e = open(t, dir)
	defer e.close()
	c = e.client()
	require.Contains(t, c.one("ADMIN SHOW DDL JOBS 1 WHERE job_id = "+id), " paused ")
	// A job that is named twice counts once.
	require.Equal(t, []string{id + " successful", id + " successful"}, c.run("ADMIN RESUME DDL JOBS "+id+", "+id))
	require.Eventually(t, func() bool {
		return c.one("SELECT state FROM mysql.fastddl_ddl_jobs WHERE job_id = "+id) == "synced"
	}, hangTimeout, 10*time.Millisecond)
	c.check("t")
	require.Eventually(t, func() bool { return strings.Contains(c.one("SHOW CREATE TABLE t"), "`d`") }, hangTimeout, 50*time.Millisecond)
	require.Contains(t, c.one("ADMIN RESUME DDL JOBS "+id), "error")
}

// A job that is paused while it scans does not show the rate that it had.
func TestPausedJobsHaveNoRate(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	reach(t, arrived)
	id := e.DDL().Unfinished()[0].ID
	// A rate is measured when its stage ends, however short it was.
	j := event.Job{ID: id}
	for i, stage := range []string{"scan", "merge", "scan"} {
		e.bus.Emit(event.StageChanged{Job: j, Stage: stage})
		e.bus.Emit(event.Progress{Job: j, Stage: stage, RowsDone: int64(i) * 50, RowsTotal: 100})
	}
	require.Positive(t, e.DDL().Unfinished()[0].RowsPerSecond)
	require.True(t, e.DDL().Unfinished()[0].HasRemaining)

	paused := e.start(fmt.Sprintf("ADMIN PAUSE DDL JOBS %d", id))
	asked(t, has(paused))
	close(leave)
	require.NoError(t, wait(t, paused))
	require.Eventually(t, func() bool { return e.DDL().Unfinished()[0].State == "paused" }, hangTimeout, 5*time.Millisecond)
	require.False(t, e.DDL().Unfinished()[0].HasRemaining)
	require.Zero(t, e.DDL().Unfinished()[0].RowsPerSecond)
	c.run(fmt.Sprintf("ADMIN RESUME DDL JOBS %d", id))
	require.NoError(t, wait(t, result))
}

// A process that dies at any place of a job goes on with it after a restart.
func TestRestart(t *testing.T) {
	randtest.SkipShort(t)
	dir := t.TempDir()
	e := open(t, dir)
	for _, at := range steps {
		c := e.client()
		table(c, 100)
		e.dieAt(t, "ALTER TABLE t ADD UNIQUE INDEX u (b), ADD INDEX i ((a + b))", at)
		c.run("INSERT INTO t VALUES (-1, -7, '')")
		c.run("DELETE FROM t WHERE a BETWEEN 10 AND 20")
		e.close()

		e = open(t, dir)
		c = e.client()
		c.awaitNoJob(at)
		require.Equal(t, "synced", c.lastJob("state"), at)
		require.Contains(t, c.one("SHOW CREATE TABLE t"), "UNIQUE KEY `u`")
		c.check("t")
		require.Equal(t, "90", c.one("SELECT COUNT(*) FROM t USE INDEX (u) WHERE b > -100"))
	}
	e.close()
}

// A process of an earlier version leaves a job where it is, and everything else works.
func TestRestartAsAnEarlierVersion(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	table(c, 100)
	e.dieAt(t, "ALTER TABLE t ADD UNIQUE INDEX u (b)", ddl.HookPoint{When: "before", Action: "backfill"})
	c.setProtocol(job.Protocol + 1)
	e.close()

	e = open(t, dir)
	c = e.client()
	require.Empty(t, e.DDL().Unfinished())
	id := c.one("SELECT job_id FROM mysql.fastddl_ddl_record")
	queued := c.one("SELECT job_meta FROM mysql.tidb_ddl_job WHERE job_id = " + id)
	for _, command := range []string{"CANCEL", "PAUSE", "RESUME"} { // TiDB would take the row, and the job would not be undone
		require.Contains(t, c.one("ADMIN "+command+" DDL JOBS "+id), "a later version", command)
	}
	require.Contains(t, c.fails(1105, "ADMIN ALTER DDL JOBS "+id+" THREAD = 1"), "a later version")
	require.Equal(t, queued, c.one("SELECT job_meta FROM mysql.tidb_ddl_job WHERE job_id = "+id))
	require.Contains(t, c.one("ADMIN SHOW DDL JOBS WHERE state != 'synced' AND state != 'done'"), "waits for a later version")
	c.run("CREATE TABLE other (a INT)")
	c.run("ALTER TABLE other ADD INDEX a (a)")
	c.run("INSERT INTO t VALUES (1000, 7000, '')")
	c.setProtocol(job.Protocol)
	e.close()

	e = open(t, dir)
	defer e.close()
	c = e.client()
	c.awaitNoJob()
	c.check("t")
	require.Contains(t, c.one("SHOW CREATE TABLE t"), "UNIQUE KEY `u`")
}

// KILL QUERY of the session that waits cancels the job.
func TestKill(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	victim := e.client()
	result := make(chan error, 1)
	go func() {
		_, err := victim.try("ALTER TABLE t ADD UNIQUE INDEX u (b)")
		result <- err
	}()
	reach(t, arrived)
	e.Domain().InfoSyncer().GetSessionManager().Kill(victim.GetSessionVars().ConnectionID, true, false, false)
	asked(t, has(result))
	close(leave)
	require.Equal(t, 1317, errorCode(wait(t, result)))
	// A statement that was killed does not wait for all that is undone.
	c.awaitNoJob()
	e.leavesNothing(c, "t")
}

// A statement that takes the row in TiDB's queue makes the job undo itself; the table stays
// protected.
func TestQueueRow(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	for _, take := range []string{"DELETE FROM mysql.tidb_ddl_job", "CANCEL"} {
		table(c, 100)
		arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "change-schema", Step: "drained"})
		result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
		reach(t, arrived)
		row := c.one("SELECT job_id, type, processing FROM mysql.tidb_ddl_job")
		require.True(t, strings.HasSuffix(row, " 250 0"), row)
		if take == "CANCEL" {
			c.cancelAsTiDB(strings.Fields(row)[0])
			require.Eventually(t, func() bool { return len(c.run("SELECT * FROM mysql.tidb_ddl_job")) == 0 }, hangTimeout, 10*time.Millisecond)
		} else {
			c.run(take)
		}
		close(leave)
		require.Equal(t, 8214, errorCode(wait(t, result)))
		e.leavesNothing(c, "t")
	}
}

// cancelAsTiDB cancels a job as another server would that knows nothing of us.
func (c *client) cancelAsTiDB(id string) {
	c.t.Helper()
	c.asTiDB("ADMIN CANCEL DDL JOBS " + id)
}

// asTiDB executes a statement as another server would that knows nothing of us.
func (c *client) asTiDB(query string) sqlexec.RecordSet {
	c.t.Helper()
	rs, err := c.Session.(interface {
		ExecuteInternal(context.Context, string, ...any) (sqlexec.RecordSet, error)
	}).ExecuteInternal(asServer(), query)
	require.NoError(c.t, err)
	return rs
}

// RESUME of another server that knows nothing of us, which shows the build as paused, is refused: TiDB would cancel it.
func TestPlainServersDoNotResumeBuilds(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	reach(t, arrived)
	rows, err := sqlexec.DrainRecordSet(asServer(), c.asTiDB("ADMIN RESUME DDL JOBS "+c.one("SELECT job_id FROM mysql.tidb_ddl_job")), 1)
	require.NoError(t, err)
	require.Contains(t, rows[0].GetString(1), "[ddl:8261]")
	close(leave)
	require.NoError(t, wait(t, result))
	c.check("t")
}

// TestHistoryOfAJobWhoseRowWasTaken: TiDB's history says what became of the job, and not what TiDB has made of the row.
// BR looks there for indexes that it has to bring back after a restore.
func TestHistoryOfAJobWhoseRowWasTaken(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	for _, at := range []ddl.HookPoint{{When: "after", Action: "change-schema", Step: "public"}, {When: "before", Action: "finish"}} {
		table(c, 10)
		arrived, leave := e.blockAt(at)
		result := e.start("ALTER TABLE t ADD INDEX i (b)")
		reach(t, arrived)
		id := c.one("SELECT job_id FROM mysql.tidb_ddl_job")
		c.cancelAsTiDB(id)
		require.Eventually(t, func() bool { return len(c.run("SELECT * FROM mysql.tidb_ddl_job")) == 0 }, hangTimeout, 10*time.Millisecond)
		close(leave)
		require.NoError(t, wait(t, result))
		require.Equal(t, id+" add index synced", c.one("SELECT job_id, job_type, state FROM information_schema.ddl_jobs WHERE table_name = 't' AND job_id >= "+id))
		var stored model.Job
		require.NoError(t, stored.Decode([]byte(c.one("SELECT job_meta FROM mysql.tidb_ddl_history WHERE job_id >= "+id))))
		require.Equal(t, model.JobStateSynced, stored.State)
		require.Equal(t, model.ActionAddIndex, stored.Type)
	}
}

// A worker of TiDB's that has taken the row waits for the version that the job has published
// with it. That the job goes on with another row does not keep it from ending.
func TestQueueRowTakenDuringTheWait(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	writer := e.client()
	e.before("change-schema", "write-only", func() { writer.run("BEGIN; INSERT INTO t VALUES (1000, 1000, '')") })
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	require.Eventually(t, func() bool {
		jobs := e.DDL().Unfinished()
		return len(jobs) == 1 && strings.Contains(jobs[0].WaitReason, "held by 1 transaction")
	}, hangTimeout, 5*time.Millisecond)
	row := c.one("SELECT job_id FROM mysql.tidb_ddl_job")
	c.cancelAsTiDB(row)
	require.Eventually(t, func() bool { // nothing else says that TiDB's worker waits
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		return strings.Contains(stacks.String(), "ddl.(*jobScheduler).transitOneJobStepAndWaitSync")
	}, hangTimeout, 5*time.Millisecond)
	c.run("ADMIN CANCEL DDL JOBS " + row)
	require.Eventually(t, func() bool {
		return c.one("SELECT COUNT(*) FROM mysql.tidb_ddl_job WHERE job_id > "+row) == "1"
	}, hangTimeout, 5*time.Millisecond)
	writer.run("COMMIT")
	require.Equal(t, 8214, errorCode(wait(t, result)))
	require.NoError(t, wait(t, e.start("ALTER TABLE t COMMENT = 'new'")))
	e.leavesNothing(c, "t")
}

// ADMIN ALTER DDL JOBS changes the settings of a job at once.
func TestAlterJob(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := e.start("ALTER TABLE t ADD INDEX u (b)")
	reach(t, arrived)
	id := c.one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_record")
	altered := e.start("ADMIN ALTER DDL JOBS " + id + " THREAD = 7, MAX_WRITE_SPEED = '2MiB'")
	asked(t, has(altered))
	close(leave)
	require.NoError(t, wait(t, result))
	if err := wait(t, altered); err == nil {
		require.Contains(t, c.one("SELECT job_meta FROM mysql.tidb_ddl_history WHERE job_id = "+id), `"concurrency":7`)
	}
	_, err := c.try("ADMIN ALTER DDL JOBS %s THREAD = 7", id)
	require.ErrorContains(t, err, "is not running")
}

// The engine is the session's choice, and what we cannot build is TiDB's, with a
// note.
func TestEngine(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	built := func() string { return c.one("SELECT COUNT(*) FROM mysql.fastddl_ddl_jobs") }
	c.run("SET %s = '%s'", config.DDLEngine, config.EngineTiDB)
	c.run("SET GLOBAL tidb_enable_dist_task = OFF")
	c.run("ALTER TABLE t ADD INDEX i1 (b)")
	require.Equal(t, "0", built())
	c.run("SET %s = DEFAULT", config.DDLEngine)
	c.run("ALTER TABLE t ADD INDEX i2 (b), AUTO_INCREMENT = 5")
	require.Contains(t, c.one("SHOW WARNINGS"), "the index is built by TiDB's own way")
	require.Equal(t, "0", built())
	c.run("ALTER TABLE t ADD INDEX i3 (b), ALGORITHM = INPLACE")
	require.Equal(t, "1", built())
	c.run("PREPARE p FROM 'CREATE INDEX i4 ON t (c)'; EXECUTE p")
	require.Equal(t, "2", built())
	c.run("SET tidb_stats_update_during_ddl = ON") // the statistics are written in any case
	c.run("ALTER TABLE t ADD INDEX i6 (b, c)")
	require.Equal(t, "3", built())
	c.run("SET tidb_stats_update_during_ddl = OFF")
	c.run("SET GLOBAL tidb_enable_metadata_lock = OFF")
	c.run("ALTER TABLE t ADD INDEX i5 (b)")
	require.Contains(t, c.one("SHOW WARNINGS"), "tidb_enable_metadata_lock is OFF")
	require.Equal(t, "3", built())
	c.run("SET GLOBAL tidb_enable_metadata_lock = ON")
	c.check("t")
}

// TestWarningsAreGivenOnce: what we have warned of before a statement was left to TiDB, TiDB warns of.
func TestWarningsAreGivenOnce(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	c.run("ALTER TABLE t WITH VALIDATION, ADD INDEX i (c), MODIFY COLUMN b VARCHAR(20)")
	warnings := c.run("SHOW WARNINGS")
	require.Len(t, warnings, 2, warnings)
	all := strings.Join(warnings, "\n")
	require.Contains(t, all, "ALTER TABLE WITH VALIDATION is currently unsupported")
	require.Contains(t, all, "the index is built by TiDB's own way: the statement changes values of column b")
}

// TestSettingsOfTheSession: a job has the settings in which its session differs from the global ones.
func TestSettingsOfTheSession(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	for _, test := range []struct {
		set  string
		want job.Settings
	}{
		{"SET tidb_ddl_reorg_priority = 'PRIORITY_LOW'", job.Settings{}},
		{"SET tidb_ddl_reorg_priority = 'PRIORITY_NORMAL'", job.Settings{Priority: config.PriorityNormal}},
		{"SET tidb_ddl_reorg_priority = 'PRIORITY_HIGH'", job.Settings{Priority: config.PriorityHigh}},
		{"SET tidb_ddl_reorg_worker_cnt = 3, tidb_ddl_reorg_batch_size = 64", job.Settings{Threads: 3, BatchSize: 64}},
		{"SET tidb_ddl_reorg_worker_cnt = @@GLOBAL.tidb_ddl_reorg_worker_cnt, tidb_ddl_reorg_batch_size = @@GLOBAL.tidb_ddl_reorg_batch_size", job.Settings{}},
	} {
		var got job.Settings
		e.before("finish", "", func() { got = e.DDL().Unfinished()[0].Settings })
		other := e.client()
		other.run(test.set)
		other.run("ALTER TABLE t ADD INDEX i (b)")
		require.Equal(t, test.want, got, test.set)
		c.run("ALTER TABLE t DROP INDEX i")
	}
}

// TestVerifyOfTheSession: a job is verified as its session says when it is queued, which a change of the variable does not
// change.
func TestVerifyOfTheSession(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	c.fails(1231, "SET %s = 'half'", config.Verify)
	for _, verify := range []string{config.VerifyFull, config.VerifyAuto} {
		var got string
		e.before("finish", "", func() { got = e.DDL().Unfinished()[0].Verify })
		other := e.client()
		other.run("SET %s = '%s'", config.Verify, verify)
		other.run("ALTER TABLE t ADD INDEX i (b)")
		require.Equal(t, verify, got)
		c.run("ALTER TABLE t DROP INDEX i")
	}
	c.run("SET GLOBAL %s = '%s'", config.Verify, config.VerifyFull)
	defer c.run("SET GLOBAL %s = DEFAULT", config.Verify)
	require.Equal(t, config.VerifyAuto, c.one("SELECT @@%s", config.Verify))
	require.Equal(t, config.VerifyFull, e.client().one("SELECT @@%s", config.Verify))
}

// TestBrokenSessions: a session of the pool in which something has failed, or panicked, is not used again. The pool
// hands its sessions out in turn.
func TestBrokenSessions(t *testing.T) {
	e := newEnv(t)
	broken := make(map[sessionctx.Context]bool)
	failure := errors.New("broken")
	require.ErrorIs(t, e.DDL().WithSystemSession(func(sctx sessionctx.Context) error {
		broken[sctx] = true
		return failure
	}), failure)
	require.PanicsWithValue(t, "broken", func() {
		_ = e.DDL().WithSystemSession(func(sctx sessionctx.Context) error {
			broken[sctx] = true
			panic("broken")
		})
	})
	seen := make(map[sessionctx.Context]bool)
	for range 1000 {
		require.NoError(t, e.DDL().WithSystemSession(func(sctx sessionctx.Context) error {
			require.False(t, broken[sctx])
			seen[sctx] = true
			return nil
		}))
	}
	require.Less(t, len(seen), 500, "the others are used again")
}

// TestQueueRowOfAPausedJob: a job that waits, for a request or for its turn, sees too that its
// row was taken. A tidb-server shows it as paused, and may be asked to resume or cancel it.
func TestQueueRowOfAPausedJob(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	table(c, 100)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "change-schema", Step: "drained"})
	result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	reach(t, arrived)
	id := e.DDL().Unfinished()[0].ID
	paused := e.start(fmt.Sprintf("ADMIN PAUSE DDL JOBS %d", id))
	asked(t, has(paused))
	close(leave)
	require.NoError(t, wait(t, paused))
	require.Eventually(t, func() bool {
		jobs := e.DDL().Unfinished()
		return len(jobs) == 1 && jobs[0].State == "paused"
	}, hangTimeout, 5*time.Millisecond)
	behind := e.start("ALTER TABLE t ADD INDEX i (b)")
	require.Eventually(t, func() bool { return len(e.DDL().Unfinished()) == 2 }, hangTimeout, 5*time.Millisecond)
	c.run("DELETE FROM mysql.tidb_ddl_job")
	require.Equal(t, 8214, errorCode(wait(t, result)))
	require.Equal(t, 8214, errorCode(wait(t, behind)))
	e.leavesNothing(c, "t")
}
