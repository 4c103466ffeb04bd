package sql_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/sessionctx/variable"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/tikvrpc/interceptor"

	"fastddl/backfill"
	"fastddl/ddl"
	"fastddl/ingest"
	"fastddl/internal/randtest"
	"fastddl/sql"
)

// A job goes on from a step only when no transaction is left that uses the table
// under the state before: neither to the next state, nor to S, nor to the
// comparison.
func TestStepsWaitForTransactions(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	for _, test := range []struct{ begins, waits ddl.HookPoint }{
		{ddl.HookPoint{Action: "change-schema", Step: "delete-only"}, ddl.HookPoint{Action: "change-schema", Step: "write-only"}},
		{ddl.HookPoint{Action: "change-schema", Step: "write-only"}, ddl.HookPoint{Action: "change-schema", Step: "write-reorg"}},
		{ddl.HookPoint{Action: "change-schema", Step: "write-reorg"}, ddl.HookPoint{Action: "take-snapshot"}},
		{ddl.HookPoint{Action: "change-schema", Step: "drained"}, ddl.HookPoint{Action: "compare"}},
		{ddl.HookPoint{Action: "change-schema", Step: "public"}, ddl.HookPoint{Action: "finish"}},
	} {
		test.begins.When, test.waits.When = "before", "before"
		t.Run(test.waits.Action+" "+test.waits.Step, func(t *testing.T) {
			c := c.of(t)
			table(c, 10)
			writer := e.client().of(t)
			var ended, early atomic.Bool
			var begin sync.Once
			e.setHook(func(_ context.Context, p ddl.HookPoint) error {
				if matches(p, test.begins) {
					begin.Do(func() { writer.run("BEGIN; INSERT INTO t VALUES (1000, 1000, '')") })
				}
				if matches(p, test.waits) && !ended.Load() {
					early.Store(true)
				}
				return nil
			})
			result := e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")
			require.Eventually(t, func() bool {
				jobs := e.DDL().Unfinished()
				return early.Load() || len(jobs) == 1 && strings.Contains(jobs[0].WaitReason, "held by 1 transaction")
			}, hangTimeout, 5*time.Millisecond)
			ended.Store(true)
			writer.run("COMMIT")
			require.NoError(t, wait(t, result))
			require.False(t, early.Load(), "the job did not wait for a transaction of the state before")
			c.check("t")
		})
	}
}

// A build whose metadata lock is switched off after all ends: TiDB's wait for a schema version
// is then for servers, and not for transactions. TiDB refuses to switch it while its queue has
// a job, but may have looked at the queue before.
func TestMetadataLockIsSwitchedOff(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	t.Cleanup(func() { variable.EnableMDL.Store(true) })
	for _, step := range []string{"delete-only", "write-only", "write-reorg"} {
		t.Run(step, func(t *testing.T) {
			c := c.of(t)
			variable.EnableMDL.Store(true)
			table(c, 10)
			var built atomic.Bool
			e.setHook(func(_ context.Context, p ddl.HookPoint) error {
				if p.When == "before" && p.Action == "change-schema" && p.Step == step {
					variable.EnableMDL.Store(false)
				}
				if p.Action == "backfill" {
					built.Store(true)
				}
				return nil
			})
			result := e.start("ALTER TABLE t ADD INDEX i (b)")
			require.ErrorContains(t, wait(t, result), "tidb_enable_metadata_lock was switched OFF")
			require.False(t, built.Load(), "it was built all the same")
			require.NotContains(t, c.one("SHOW CREATE TABLE t"), "KEY `i`")
			c.check("t")
		})
	}
}

// S is not taken while IMPORT INTO brings rows in, which the metadata lock does not know of. The job can be cancelled
// meanwhile.
func TestSnapshotWaitsForImportInto(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	for _, cancelled := range []bool{false, true} {
		table(c, 10)
		c.run(`INSERT INTO mysql.tidb_import_jobs (id, table_schema, table_name, table_id, created_by, parameters, source_file_size, status, step)
			SELECT 7, table_schema, table_name, tidb_table_id, '', '', 0, 'running', 'importing' FROM information_schema.tables
			WHERE table_schema = 'test' AND table_name = 't'`)
		var ended, early atomic.Bool
		e.setHook(func(_ context.Context, p ddl.HookPoint) error {
			if p.When == "after" && p.Action == "take-snapshot" && !ended.Load() {
				early.Store(true)
			}
			return nil
		})
		result := e.start("ALTER TABLE t ADD INDEX i (b)")
		require.Eventually(t, func() bool {
			jobs := e.DDL().Unfinished()
			return early.Load() || len(jobs) == 1 && jobs[0].WaitReason == "IMPORT INTO the table, import job 7"
		}, hangTimeout, 5*time.Millisecond)
		require.False(t, early.Load(), "S was taken beside the import")
		if cancelled {
			c.run("ADMIN CANCEL DDL JOBS " + c.lastJob("job_id"))
			require.Equal(t, 8214, errorCode(wait(t, result)))
		} else {
			ended.Store(true)
			c.run("UPDATE mysql.tidb_import_jobs SET status = 'finished'")
			require.NoError(t, wait(t, result))
		}
		c.run("DELETE FROM mysql.tidb_import_jobs")
		c.check("t")
	}
}

// Nor is S taken while a statement IMPORT INTO has made its plan, and there is no job of it yet: it lists its files first. It
// may have ended when there is one.
func TestSnapshotWaitsForStatementsThatImport(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c, importer := e.client(), e.client()
	table(c, 10)
	c.run("CREATE TABLE other (a INT PRIMARY KEY, b INT)")
	var ended, early atomic.Bool
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.When == "after" && p.Action == "take-snapshot" && !ended.Load() {
			early.Store(true)
		}
		return nil
	})
	waits := func(what string) {
		t.Helper()
		require.Eventually(t, func() bool {
			jobs := e.DDL().Unfinished()
			return early.Load() || len(jobs) == 1 && jobs[0].WaitReason == "IMPORT INTO the table, "+what
		}, hangTimeout, 5*time.Millisecond)
		require.False(t, early.Load(), "S was taken beside the import")
	}
	importer.SetProcessInfo("IMPORT INTO t FROM '/rows*.csv' WITH detached", time.Now(), mysql.ComQuery, 0)
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	waits(fmt.Sprintf("a statement of connection %d", importer.GetSessionVars().ConnectionID))
	c.run(`INSERT INTO mysql.tidb_import_jobs (id, table_schema, table_name, table_id, created_by, parameters, source_file_size, status, step)
		VALUES (7, 'test', 't', %d, '', '', 0, 'pending', '')`, e.tableID(c, "t"))
	importer.SetProcessInfo("", time.Now(), mysql.ComSleep, 0)
	waits("import job 7")
	ended.Store(true)
	c.run("UPDATE mysql.tidb_import_jobs SET status = 'finished'")
	require.NoError(t, wait(t, result))
	c.check("t")

	for _, other := range []string{
		"IMPORT INTO other FROM '/rows*.csv'", "SELECT 'IMPORT INTO t'", `ALTER TABLE "imports" ADD INDEX into_ (b)`, `SELECT * FROM import_log JOIN "into`,
		"EXPLAIN ANALYZE IMPORT INTO other FROM SELECT 1",
	} {
		importer.SetProcessInfo(other, time.Now(), mysql.ComQuery, 0)
		c.run("ALTER TABLE t ADD INDEX k (b)")
		c.run("ALTER TABLE t DROP INDEX k")
	}
	// A text that is shown without its end may be of any table.
	for _, unread := range []string{"IMPORT INTO t FROM '", "/* nightly */ import into", `explain analyze import into "t" from select`, "EXPLAIN ANALYZE IMPORT INTO t FROM SELECT 1"} {
		ended.Store(false)
		importer.SetProcessInfo(unread, time.Now(), mysql.ComQuery, 0)
		result := e.start("ALTER TABLE t ADD INDEX k (b)")
		waits(fmt.Sprintf("a statement of connection %d", importer.GetSessionVars().ConnectionID))
		ended.Store(true)
		importer.SetProcessInfo("", time.Now(), mysql.ComSleep, 0)
		require.NoError(t, wait(t, result))
		c.run("ALTER TABLE t DROP INDEX k")
	}
}

// An import waits for a transaction that began before S, but not for ever: then an
// optimistic one has a conflict.
func TestImportWaitsForOlderTransactions(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c := e.client()
	for _, waits := range []bool{true, false} {
		if !waits && testing.Short() {
			t.Skip("waits for the end of the wait for transactions from before S")
		}
		// On a slow machine the wait may be over before the transaction is: once more then.
		for prompt := false; !prompt; {
			prompt = importBesideAnOlderTransaction(t, e, c, waits)
		}
	}
}

// importBesideAnOlderTransaction commits the transaction while the import waits for it, or else when it is imported. It returns false
// if it did not in time.
func importBesideAnOlderTransaction(t *testing.T, e *env, c *client, waits bool) bool {
	const olderWait = 5 * time.Second // as in ddl
	table(c, 10)
	writer := e.client()
	var begin sync.Once
	var began time.Time
	var ended atomic.Bool
	imported := make(chan bool, 1)
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		switch {
		case matches(p, hooks[beforeS]):
			begin.Do(func() {
				writer.run("BEGIN OPTIMISTIC; UPDATE t SET b = 1000 WHERE a = 1")
				began = time.Now()
			})
		case p.When == "after" && p.Action == "backfill":
			imported <- ended.Load()
		}
		return nil
	})
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	require.Eventually(t, func() bool {
		jobs := e.DDL().Unfinished()
		return len(imported) > 0 || len(jobs) == 1 && jobs[0].Step == "snapshot" && strings.Contains(jobs[0].WaitReason, "held by 1 transaction")
	}, hangTimeout, 5*time.Millisecond)
	code := 9007
	if waits {
		code = 0
		ended.Store(true)
	} else {
		require.False(t, <-imported)
	}
	_, err := writer.try("COMMIT")
	prompt := !waits || time.Since(began) < olderWait
	if prompt && (code != 0 || err != nil) {
		require.Equal(t, code, errorCode(err), "%v", err)
	}
	require.NoError(t, wait(t, result))
	if waits && prompt {
		require.True(t, <-imported, "imported beside a transaction from before S")
		require.Equal(t, "1", c.one("SELECT a FROM t USE INDEX (i) WHERE b = 1000"))
	}
	c.check("t")
	return prompt
}

// What is written to a plain index between S and the import shadows the import.
func TestPlainIndexUnderWrites(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 20)
	writer := e.client()
	e.before("backfill", "", func() {
		writer.run("INSERT INTO t VALUES (100, 7, ''), (101, 700, '')")
		writer.run("DELETE FROM t WHERE a IN (1, 2, 101)")
		writer.run("UPDATE t SET b = b + 1 WHERE a BETWEEN 3 AND 9")
		writer.run("UPDATE t SET a = a + 1000 WHERE a BETWEEN 8 AND 12")
	})
	c.run("ALTER TABLE t ADD INDEX i (b)")
	c.check("t")
	require.Equal(t, "19", c.one("SELECT COUNT(*) FROM t USE INDEX (i) WHERE b >= 0"))
	require.Equal(t, "100", c.one("SELECT a FROM t USE INDEX (i) WHERE b = 7"))
	require.Equal(t, "0", c.lastJob("repaired_keys"), "only the comparison has found what was written")
}

// An index is read from its publication on, and not before.
func TestIndexIsReadFromItsPublication(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	const query = "SELECT a FROM t USE INDEX (u) WHERE b = 7"
	reader := e.client()
	var codes []int
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.When == "after" && p.Action == "change-schema" && p.Step != "public" {
			_, err := reader.try(query)
			codes = append(codes, errorCode(err))
		}
		return nil
	})
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	require.Equal(t, []int{1176, 1176, 1176, 1176}, codes)
	require.Equal(t, "1", c.one(query))
}

// A primary key takes no new NULLs while it is built.
func TestPrimaryKeyTakesNoNewNulls(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE p (a INT, b INT)")
	c.run("INSERT INTO p VALUES (1,1)")
	writer := e.client()
	var codes []int
	e.before("backfill", "", func() {
		for _, dml := range []string{"INSERT INTO p VALUES (NULL, 2)", "UPDATE p SET a = NULL WHERE b = 1"} {
			_, err := writer.try(dml)
			codes = append(codes, errorCode(err))
		}
	})
	c.run("ALTER TABLE p ADD PRIMARY KEY (a)")
	require.Equal(t, []int{1048, 1048}, codes)
	c.check("p")
}

// All that a job that failed still has when it ends goes with it, and an index ID
// is not used again.
func TestNothingIsLeftOfAFailedJob(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT)")
	c.run("INSERT INTO t VALUES (1,1),(2,1)")
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.When == "before" && p.Action == "finish" {
			return os.MkdirAll(ingest.JobDir(e.dir+"/tmp", p.JobID), 0o700)
		}
		return nil
	})
	c.fails(1062, "ALTER TABLE t ADD UNIQUE INDEX u (b)")
	e.leavesNothing(c, "t")
	require.NotEqual(t, "0", c.one("SELECT COUNT(*) FROM mysql.gc_delete_range"), "the entries are not handed to garbage collection")
	c.run("ALTER TABLE t ADD INDEX i (b)")
	require.Equal(t, "2", c.one("SELECT index_id FROM information_schema.tidb_indexes WHERE table_name = 't' AND key_name = 'i'"))
}

// What jobs that have ended left behind in a crash is removed when the layer opens;
// what is not theirs stays.
func TestLeftoversAreRemoved(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	require.NoError(t, os.MkdirAll(ingest.JobDir(dir+"/tmp", 4711), 0o700))
	require.NoError(t, os.WriteFile(dir+"/tmp/notes.txt", nil, 0o600))
	ctx := t.Context()
	ts, err := e.store.Builds().CurrentTS(ctx)
	require.NoError(t, err)
	for _, name := range []string{"fastddl-job-4711", "backup"} {
		_, err = e.store.Builds().HoldGC(ctx, name, ts, time.Hour)
		require.NoError(t, err)
	}
	e.close()
	e = open(t, dir)
	defer e.close()
	holds, err := e.store.Builds().GCHolds(ctx)
	require.NoError(t, err)
	require.NotContains(t, holds, "fastddl-job-4711")
	require.Contains(t, holds, "backup")
	entries, err := os.ReadDir(dir + "/tmp")
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, "notes.txt", entries[0].Name())
}

// A job whose record another node has written stops where it is.
func TestJobStopsWhenItsRecordIsTaken(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	other := e.client()
	e.before("change-schema", "drained", func() {
		other.run("UPDATE mysql.fastddl_ddl_record SET record = JSON_SET(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.revision', 1000)")
	})
	require.ErrorContains(t, wait(t, e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")), "changed by somebody else")
	require.Contains(t, c.one("SELECT CONVERT(record USING utf8mb4) FROM mysql.fastddl_ddl_record"), `"step": "backfilled"`)
}

// endless is a backfiller whose builds end only with their context.
type endless struct {
	ddl.Backfiller
	entered chan struct{}
	told    atomic.Bool
}

func (b *endless) Backfill(ctx context.Context, _ ddl.BackfillTask) (backfill.Result, error) {
	close(b.entered)
	select {
	case <-ctx.Done():
		b.told.Store(true)
		return backfill.Result{}, context.Cause(ctx)
	case <-time.After(2 * hangTimeout): // longer than the test waits
		return backfill.Result{}, nil
	}
}

// An import ends when another session takes the job's row in TiDB's queue.
func TestTakenRowEndsTheImport(t *testing.T) {
	randtest.SkipShort(t)
	b := &endless{entered: make(chan struct{})}
	e := newEnv(t, func(o *sql.Options) {
		withFaults(&faulty{})(o)
		b.Backfiller, o.Backfiller = o.Backfiller, b
	})
	c := e.client()
	table(c, 10)
	result := e.start("ALTER TABLE t ADD INDEX u (b)")
	reach(t, b.entered)
	c.run("DELETE FROM mysql.tidb_ddl_job")
	err := wait(t, result)
	require.True(t, b.told.Load(), "the import went on")
	require.Equal(t, 8214, errorCode(err))
	e.leavesNothing(c, "t")
}

// A transaction that inserts a row and deletes it again checks that there is none, locks
// nothing for that, and writes a tombstone of the entry. If another session inserts the row
// under delete-only, without an entry, between the check and the commit, the tombstone is
// that of a row: S must not come before it.
func TestUncheckedTombstoneIsBeforeS(t *testing.T) {
	e := newEnv(t)
	c, inserts, deletes := e.client(), e.client(), e.client()
	table(c, 10)
	deletes.run("SET tidb_enable_1pc = OFF, tidb_enable_async_commit = OFF")
	prewritten, release := make(chan struct{}), make(chan struct{})
	late := interceptor.NewRPCInterceptor("late", func(next interceptor.RPCInterceptorFunc) interceptor.RPCInterceptorFunc {
		return func(target string, req *tikvrpc.Request) (*tikvrpc.Response, error) {
			resp, err := next(target, req)
			if req.Type == tikvrpc.CmdPrewrite { // its commit timestamp is taken when it is answered
				close(prewritten)
				<-release
			}
			return resp, err
		}
	})
	committed := make(chan error, 1)
	var tooEarly atomic.Bool
	commit := sync.OnceFunc(func() {
		close(release)
		require.NoError(t, <-committed)
	})
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		switch {
		case matches(p, hooks[inDeleteOnly]):
			inserts.run("BEGIN OPTIMISTIC; INSERT INTO t VALUES (100, 7, 'x')")
		case p.When == "after" && p.Action == "take-snapshot":
			tooEarly.Store(true)
			commit()
		}
		return nil
	})
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	held := func(step string) bool {
		jobs := e.DDL().Unfinished()
		return len(jobs) == 1 && jobs[0].Step == step && strings.Contains(jobs[0].WaitReason, "held by 1 transaction")
	}
	require.Eventually(t, func() bool { return held("write-only") }, hangTimeout, 5*time.Millisecond)
	deletes.run("BEGIN OPTIMISTIC; INSERT INTO t VALUES (100, 7, 'x'); DELETE FROM t WHERE a = 100")
	go func() {
		_, err := deletes.Execute(interceptor.WithRPCInterceptor(context.Background(), late), "COMMIT")
		committed <- err
	}()
	<-prewritten
	inserts.run("COMMIT")
	require.Eventually(t, func() bool { return tooEarly.Load() || held("write-reorg") }, hangTimeout, 5*time.Millisecond)
	require.False(t, tooEarly.Load(), "S is taken beside a transaction that was open in delete-only")
	commit()
	require.NoError(t, wait(t, result))
	require.Equal(t, []string{"1", "100"}, c.run("SELECT a FROM t FORCE INDEX (i) WHERE b = 7 ORDER BY a"))
	c.check("t")
}
