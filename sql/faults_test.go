package sql_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/kv"
	"github.com/pingcap/tidb/pkg/meta"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/backfill/compare"
	"fastddl/config"
	"fastddl/ddl"
	fastkv "fastddl/kv"
	"fastddl/sql"
)

// faulty is a backfiller that fails, or panics, where the test asks for it.
type faulty struct {
	ddl.Backfiller
	backfill, compare func() error
}

func (f *faulty) Backfill(ctx context.Context, t ddl.BackfillTask) (backfill.Result, error) {
	if f.backfill != nil {
		if err := f.backfill(); err != nil {
			return backfill.Result{}, err
		}
	}
	return f.Backfiller.Backfill(ctx, t)
}

func (f *faulty) Compare(ctx context.Context, t ddl.CompareTask) (compare.Result, error) {
	if f.compare != nil {
		if err := f.compare(); err != nil {
			return compare.Result{}, err
		}
	}
	return f.Backfiller.Compare(ctx, t)
}

func withFaults(f *faulty) func(o *sql.Options) {
	return func(o *sql.Options) {
		f.Backfiller = ddl.NewBackfiller(backfill.Options{Store: o.Builds, Globals: o.Globals, Bus: o.Bus})
		o.Backfiller = f
	}
}

// A panic in a job, and an error that no attempt can cure, undo it; one that passes
// is survived.
func TestPermanentFaultsUndoTheJob(t *testing.T) {
	f := &faulty{}
	e := newEnv(t, withFaults(f))
	c := e.client()
	table(c, 50)
	f.backfill = func() error { panic("in the backfill") }
	_, err := c.try("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	require.ErrorContains(t, err, "panic in backfill: in the backfill")
	e.leavesNothing(c, "t")

	var failures atomic.Int64
	f.backfill = func() error {
		if failures.Add(1) <= 3 {
			return errors.New("passes")
		}
		return nil
	}
	f.compare = func() error {
		if failures.Add(1) <= 6 {
			return errors.New("passes too")
		}
		return nil
	}
	c.run("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	require.Equal(t, "5", c.lastJob("error_count"))
	c.run("ALTER TABLE t DROP INDEX u")

	c.run("SET GLOBAL tidb_ddl_error_count_limit = 2")
	defer c.run("SET GLOBAL tidb_ddl_error_count_limit = DEFAULT")
	f.backfill = func() error { return errors.New("does not pass") }
	_, err = c.try("ALTER TABLE t ADD UNIQUE INDEX u (b)")
	require.ErrorContains(t, err, "does not pass")
	e.leavesNothing(c, "t")
}

// lostHold is a store whose hold on garbage collection is lost once.
type lostHold struct {
	fastkv.Store
	lose atomic.Bool
}

func (s *lostHold) Changes(ctx context.Context, r fastkv.KeyRange, after, upTo uint64, fn func(key []byte) error) error {
	return s.Store.(fastkv.ChangeFinder).Changes(ctx, r, after, upTo, fn)
}

func (s *lostHold) HoldGC(ctx context.Context, name string, ts uint64, ttl time.Duration) (fastkv.GCHold, error) {
	if s.lose.Swap(false) {
		return nil, fastkv.ErrSnapshotTooOld
	}
	return s.Store.HoldGC(ctx, name, ts, ttl)
}

// losingHold loses the hold that is taken first.
func losingHold(o *sql.Options) {
	s := &lostHold{Store: o.Builds}
	s.lose.Store(true)
	o.Builds = s
}

// A job whose snapshot was collected while no node ran it takes another one.
func TestLostHold(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	c := e.client()
	table(c, 50)
	died := errors.New("died")
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.When == "after" && p.Action == "take-snapshot" {
			return died
		}
		return nil
	})
	require.ErrorIs(t, wait(t, e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")), died)
	first := c.one("SELECT JSON_EXTRACT(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.snapshot_ts') FROM mysql.fastddl_ddl_record")
	require.NotEqual(t, "NULL", first)
	e.close()
	e = open(t, dir, losingHold)
	defer e.close()
	c = e.client()
	c.awaitNoJob()
	require.Equal(t, "synced", c.lastJob("state"))
	require.NotEqual(t, first, c.lastJob("snapshot_ts"))
	c.check("t")
}

// What was imported at a snapshot that is lost may be an entry of a row that is gone by the
// next one: a transaction that inserts the row's value, deletes the row, and what it has
// inserted, writes no tombstone. Nothing imports over that entry, and the job must not fail
// for it.
func TestLostHoldLeavesEntries(t *testing.T) {
	dir := t.TempDir()
	e := open(t, dir)
	c, w := e.client(), e.client()
	table(c, 50)
	died := errors.New("died")
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		switch {
		case matches(p, hooks[beforeImport]):
			for _, s := range []string{"BEGIN OPTIMISTIC", "INSERT INTO t VALUES (100, 7, '')", "DELETE FROM t WHERE a = 1", "DELETE FROM t WHERE a = 100", "COMMIT"} {
				w.run(s)
			}
		case matches(p, hooks[afterImport]):
			return died
		}
		return nil
	})
	require.ErrorIs(t, wait(t, e.start("ALTER TABLE t ADD UNIQUE INDEX u (b)")), died)
	// As if it had died before the end of the import was recorded.
	c.run(`UPDATE mysql.fastddl_ddl_record SET checkpoint = NULL, record = JSON_SET(CAST(CONVERT(record USING utf8mb4) AS JSON), '$.step', 'snapshot')`)
	e.close()
	e = open(t, dir, losingHold)
	defer e.close()
	c = e.client()
	c.awaitNoJob()
	require.Equal(t, "synced", c.lastJob("state"), c.lastJob("error"))
	require.Equal(t, "1", c.lastJob("repaired_keys"))
	c.check("t")
}

// A schema version must not be taken while TiDB's owner may be about to write the
// diff of the one before; when none can be, it may.
func TestUnwrittenDiff(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	takeVersion := func() {
		ctx := kv.WithInternalSourceType(context.Background(), kv.InternalTxnDDL)
		require.NoError(t, kv.RunInNewTxn(ctx, e.store.Storage(), true, func(_ context.Context, txn kv.Transaction) error {
			_, err := meta.NewMutator(txn).GenSchemaVersion()
			return err
		}))
	}
	takeVersion()
	c.run("ALTER TABLE t ADD INDEX i1 (b)")

	// A job that TiDB could be running: of a table that is not there, and it is not
	// run because the test says to TiDB's owner that it is.
	foreign := &model.Job{ID: 1, Type: model.ActionAddColumn, SchemaName: "test", TableName: "elsewhere", State: model.JobStateRunning, Version: model.JobVersion2}
	foreign.FillArgs(&model.EmptyArgs{})
	data, err := foreign.Encode(true)
	require.NoError(t, err)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "change-schema", Step: "write-only"})
	result := e.start("ALTER TABLE t ADD INDEX i2 (b)")
	reach(t, arrived)
	takeVersion()
	c.run("INSERT INTO mysql.tidb_ddl_job (job_id, reorg, schema_ids, table_ids, job_meta, type, processing) VALUES (1, 0, '2', '9999', x'%x', 3, 1)", data)
	close(leave)
	select {
	case err := <-result:
		require.Fail(t, "the version was passed", "%v", err)
	case <-time.After(300 * time.Millisecond):
	}
	c.run("DELETE FROM mysql.tidb_ddl_job WHERE job_id = 1")
	require.NoError(t, wait(t, result))
	c.check("t")
}

// ADMIN statements about our jobs work prepared, and need TiDB's privileges.
func TestAdminStatements(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	table(c, 10)
	arrived, leave := e.blockAt(ddl.HookPoint{When: "before", Action: "backfill"})
	result := e.start("ALTER TABLE t ADD INDEX u (b)")
	reach(t, arrived)
	id := c.one("SELECT MAX(job_id) FROM mysql.fastddl_ddl_record")
	require.Contains(t, c.run("ADMIN SHOW DDL JOBS 1")[0], "add index write reorganization")
	require.Contains(t, c.run("ADMIN SHOW DDL JOBS 1")[0], " running ingest")
	for where, shown := range map[string]bool{
		"state = 'running'": true, "state = 'paused'": false, "job_id = " + id: true, "comments LIKE 'ingest%%' AND end_time IS NULL": true,
		"state <> 'synced'": true, "job_id < " + id + " OR state = 'paused'": false,
	} {
		rows := c.run("ADMIN SHOW DDL JOBS WHERE " + where)
		require.Equal(t, shown, slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, id+" ") }), "%s: %q", where, rows)
	}
	require.Empty(t, c.run("ADMIN SHOW DDL JOBS WHERE state = 'paused'"))
	require.NotEmpty(t, c.run("ADMIN SHOW DDL JOBS 1000 WHERE state = 'synced'"))
	c.fails(1054, "ADMIN SHOW DDL JOBS WHERE nothing = 1")
	require.Contains(t, c.one("SELECT job_type FROM information_schema.ddl_jobs WHERE job_id = "+id), "add index")
	require.NotEmpty(t, c.run("ADMIN SHOW DDL"))
	require.Contains(t, []string{"queueing", "running"}, c.one("SELECT state FROM mysql.fastddl_ddl_jobs WHERE job_id = "+id), "as of a second ago")

	c.run("CREATE USER 'plain'@'%'")
	require.NoError(t, func() error {
		_, err := c.try("GRANT SELECT ON test.* TO 'plain'@'%'")
		return err
	}())
	plain := e.clientOf("plain")
	for _, statement := range []string{"CANCEL DDL JOBS " + id, "PAUSE DDL JOBS " + id, "RESUME DDL JOBS " + id, "ALTER DDL JOBS " + id + " THREAD = 3"} {
		_, err := plain.try("ADMIN " + statement)
		require.Error(t, err, statement)
		require.Contains(t, []int{1227, 8121}, errorCode(err), err.Error())
	}
	_, err := c.try("ADMIN ALTER DDL JOBS %s THREAD = 100000", id)
	require.Error(t, err)

	stmt, _, _, err := c.PrepareStmt("ADMIN CANCEL DDL JOBS " + id + ", 99999999")
	require.NoError(t, err)
	close(leave)
	rows, err := c.ExecutePreparedStmt(context.Background(), stmt, nil)
	require.NoError(t, err)
	require.Len(t, rows.Fields(), 2)
	if err := wait(t, result); err != nil {
		require.Equal(t, 8214, errorCode(err))
	}
}

// What builds follow is what SET GLOBAL says.
func TestVariables(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	for _, test := range []struct{ name, set, want string }{
		{config.ReorgWorkerCount, "3", "3"},
		{config.ReorgMaxWriteSpeed, "'1MiB'", "1048576"},
		{config.DiskQuota, "33554432", "33554432"},
		{config.ErrorCountLimit, "17", "17"},
		{config.Governor, "OFF", "OFF"},
		{config.MemoryQuota, "'64MiB'", "67108864"},
		{config.IdleBlockerTimeout, "'90s'", "1m30s"},
		{config.BlockerMaxAge, "'1h'", "1h0m0s"},
		{config.BlockerSparedKeys, "1000", "1000"},
		{config.BlockerSparedUsers, "' backup,root '", "backup,root"},
	} {
		c.run("SET GLOBAL %s = %s", test.name, test.set)
		require.Equal(t, test.want, e.globals.Get(test.name))
		require.Equal(t, test.want, c.one("SELECT @@GLOBAL.%s", test.name))
		c.run("SET GLOBAL %s = DEFAULT", test.name)
	}
	c.fails(1231, "SET GLOBAL %s = 'x'", config.DDLEngine)
	c.fails(1231, "SET GLOBAL %s = 'x'", config.IdleBlockerTimeout)
	c.fails(1232, "SET GLOBAL %s = 1.5", config.MemoryQuota)
	c.fails(1229, "SET SESSION %s = 'ON'", config.Governor)
	require.True(t, strings.Contains(c.one("SHOW GLOBAL VARIABLES LIKE '%s'", config.DDLEngine), config.EngineFastddl))
}
