package sql_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/tidb/pkg/parser/terror"
	"github.com/pingcap/tidb/pkg/sessionctx"
	"github.com/pingcap/tidb/pkg/tablecodec"
	"github.com/stretchr/testify/require"
	tikvconfig "github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/tikvrpc/interceptor"

	"fastddl/ddl"
	"fastddl/internal/randtest"
	"fastddl/sql"
	"fastddl/sql/sqltest"
)

// untilOpen blocks a statement until the lock 'gate' is free. That it does can be seen by another lock. TiDB does not
// evaluate the functions while it plans the statement.
const (
	arrives   = "GET_LOCK(CONCAT('arrived', LEFT(RAND(), 0)), 600)"
	untilOpen = "GET_LOCK(CONCAT('gate', LEFT(RAND(), 0)), 600)"
)

// Statements that use a table under an older schema without TiDB's metadata lock knowing, since they run as internal
// SQL or in batches, are waited for like all others.
func TestStatementsOutsideTheMetadataLock(t *testing.T) {
	randtest.SkipShort(t)
	e := newEnv(t)
	c, gate, builder := e.client(), e.client(), e.client()
	c.run("SET GLOBAL tidb_enable_batch_dml = ON")
	t.Cleanup(func() { c.run("SET GLOBAL tidb_enable_batch_dml = OFF") })
	db := e.serve()
	const (
		rows      = "t VALUES (1000, 1, ''), (1001, " + arrives + ", " + untilOpen + ")"
		inBatches = "SET tidb_batch_insert = ON, tidb_batch_delete = ON, tidb_dml_batch_size = 1"
		deleted   = "a < 100 AND IF(a = 60, " + arrives + " + " + untilOpen + ", 1) > 0"
		smallest  = ", tidb_max_chunk_size = 32, tidb_init_chunk_size = 1, tidb_executor_concurrency = 1"
	)
	for name, test := range map[string]struct{ before, statement, after string }{
		"transaction that traces": {"BEGIN; INSERT INTO t VALUES (1000, 1, '')", "TRACE SELECT " + arrives + ", " + untilOpen, "COMMIT"},
		"traced insert":           {"DO 0", "TRACE INSERT INTO " + rows, "DO 0"},
		"insert in batches":       {inBatches, "INSERT INTO " + rows, "DO 0"},
		"replace in batches":      {inBatches, "REPLACE INTO " + rows, "DO 0"},
		"delete in batches":       {inBatches + smallest, "DELETE FROM t WHERE " + deleted, "DO 0"},
		"insert batched by hints": {"DO 0", "INSERT /*+ SET_VAR(tidb_batch_insert = 1) SET_VAR(tidb_dml_batch_size = 1) */ INTO " + rows, "DO 0"},
		"size by hint":            {"SET tidb_batch_insert = ON, tidb_dml_batch_size = 0", "INSERT /*+ SET_VAR(tidb_dml_batch_size = 1) */ INTO " + rows, "DO 0"},
		"delete batched by hints": {"DO 0" + strings.Replace(smallest, ",", "; SET", 1), "DELETE /*+ SET_VAR(tidb_batch_delete = 1) SET_VAR(tidb_dml_batch_size = 1) */ FROM t WHERE " +
			deleted, "DO 0"},
		"select that is hinted": {"SET tidb_batch_insert = ON, tidb_dml_batch_size = 0", "INSERT INTO t SELECT /*+ SET_VAR(tidb_dml_batch_size = 1) */ 1000, 1, ''" +
			" UNION ALL SELECT 1001, " + arrives + ", " + untilOpen, "DO 0"},
		"prepared with hints": {`PREPARE p FROM "INSERT /*+ SET_VAR(tidb_batch_insert = 1) SET_VAR(tidb_dml_batch_size = 1) */ INTO ` + rows + `"`, "EXECUTE p", "DO 0"},
		"bound batches": {"CREATE SESSION BINDING FOR INSERT INTO t SELECT 1000 + a, " + arrives + ", " + untilOpen + " FROM t WHERE a < 2 USING" +
			" INSERT INTO t SELECT /*+ SET_VAR(tidb_batch_insert = 1) SET_VAR(tidb_dml_batch_size = 1) */ 1000 + a, " + arrives + ", " + untilOpen + " FROM t WHERE a < 2",
			"INSERT INTO t SELECT 1000 + a, " + arrives + ", " + untilOpen + " FROM t WHERE a < 2", "DO 0"},
		"batches that are explained": {inBatches, "EXPLAIN ANALYZE INSERT INTO " + rows, "DO 0"},
		"batches that are prepared":  {inBatches + `; PREPARE p FROM "INSERT INTO ` + rows + `"`, "EXECUTE p", "DO 0"},
	} {
		t.Run(name, func(t *testing.T) {
			c := c.of(t)
			table(c, 200)
			require.Equal(t, "1", gate.of(t).one("SELECT GET_LOCK('gate', 60)"))
			writer, err := db.Conn(context.Background())
			require.NoError(t, err)
			exec := func(query string) error {
				_, err := writer.ExecContext(context.Background(), query)
				return err
			}
			require.NoError(t, exec(test.before))
			written := make(chan error, 1)
			go func() { written <- exec(test.statement) }()
			require.Eventually(t, func() bool {
				return len(written) > 0 || c.one("SELECT IS_FREE_LOCK('arrived')") == "0"
			}, hangTimeout, time.Millisecond)
			require.Empty(t, written)
			require.Empty(t, e.reported(c, "t"))

			var ended, early atomic.Bool
			e.setHook(func(_ context.Context, p ddl.HookPoint) error {
				if matches(p, ddl.HookPoint{When: "before", Action: "change-schema", Step: "write-only"}) && !ended.Load() {
					early.Store(true)
				}
				return nil
			})
			built := make(chan error, 1)
			go func() {
				_, err := builder.try("ALTER TABLE t ADD INDEX i (b)")
				built <- err
			}()
			require.Eventually(t, func() bool {
				jobs := e.DDL().Unfinished()
				return early.Load() || len(jobs) == 1 && jobs[0].WaitReason != ""
			}, hangTimeout, time.Millisecond)
			ended.Store(true)
			gate.of(t).run("SELECT RELEASE_LOCK('gate')")
			require.NoError(t, wait(t, written))
			require.NoError(t, exec(test.after))
			require.NoError(t, wait(t, built))
			require.False(t, early.Load(), "the job did not wait")
			c.check("t")
			require.ErrorIs(t, writer.Raw(func(any) error { return driver.ErrBadConn }), driver.ErrBadConn) // which closes it
			require.Eventually(t, func() bool { return len(e.reported(c, "t")) == 1 }, hangTimeout, time.Millisecond)
		})
	}
}

// unanswering is a client of the store that leaves a prewrite without an answer, and delivers it later.
type unanswering struct {
	tikv.Client
	// table is that of whose rows the next prewrite is left so.
	table   atomic.Int64
	panics  bool
	deliver func()
}

// SendRequest implements tikv.Client.
func (u *unanswering) SendRequest(ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration) (*tikvrpc.Response, error) {
	id := u.table.Load()
	if id == 0 || req.Type != tikvrpc.CmdPrewrite || tablecodec.DecodeTableID(req.Prewrite().Mutations[0].Key) != id || !u.table.CompareAndSwap(id, 0) {
		return u.Client.SendRequest(ctx, addr, req, timeout)
	}
	send := func(string, *tikvrpc.Request) (*tikvrpc.Response, error) {
		u.deliver = func() { _, _ = u.Client.SendRequest(context.WithoutCancel(ctx), addr, req, timeout) } // whether it is refused is the store's
		if u.panics {
			panic("killed")
		}
		return nil, context.Canceled
	}
	// What client-go has around the client that it was given does this.
	if watch := interceptor.GetRPCInterceptorFromCtx(ctx); watch != nil {
		send = watch.Wrap(send)
	}
	return send(addr, req)
}

// A transaction that may still commit when its client has given it up is waited for until the store would refuse it, regardless of the
// statement that commits it, and of whether that reports it.
func TestCommitOfUnknownOutcomeIsWaitedFor(t *testing.T) {
	randtest.SkipShort(t)
	u := new(unanswering)
	// The store must take the prewrite that it gets late, however slow the machine is.
	t.Cleanup(tikvconfig.UpdateGlobal(func(c *tikvconfig.Config) { c.TiKVClient.AsyncCommit.SafeWindow = 50 * time.Second }))
	e := newEnv(t, func(o *sql.Options) {
		storage := o.Storage.(interface {
			GetTiKVClient() tikv.Client
			SetTiKVClient(tikv.Client)
		})
		u.Client = storage.GetTiKVClient()
		storage.SetTiKVClient(u)
	})
	c := e.client()
	const row = "INSERT INTO t VALUES (1000, 1000, '')"
	for name, test := range map[string]struct {
		before, statement string
		// says that the client gets an answer.
		says bool
	}{
		"commit":        {"BEGIN; " + row, "COMMIT", true},
		"prepared":      {"BEGIN; " + row + "; PREPARE p FROM 'COMMIT'", "EXECUTE p", true},
		"begin":         {"BEGIN; " + row, "BEGIN", true},
		"set":           {"SET autocommit = 0; " + row, "SET autocommit = 1", true},
		"create":        {"BEGIN; " + row, "CREATE TABLE other (a INT)", true},
		"insert":        {"DO 0", row, true},
		"explained":     {"DO 0", "EXPLAIN ANALYZE " + row, true},
		"traced":        {"DO 0", "TRACE " + row, false},
		"traced commit": {"BEGIN; " + row, "TRACE COMMIT", false},
		"panic":         {"BEGIN; " + row, "COMMIT", true},
	} {
		t.Run(name, func(t *testing.T) {
			c := c.of(t)
			table(c, 10)
			c.run("DROP TABLE IF EXISTS other")
			w := e.client().of(t)
			t.Cleanup(func() { w.run("ROLLBACK") })
			w.run("SET tidb_enable_1pc = ON")
			w.run(test.before)
			now := time.Now()
			e.SetClock(func() time.Time { return now })
			u.panics, u.deliver = name == "panic", nil
			u.table.Store(e.tableID(c, "t"))
			func() {
				defer func() { require.Equal(t, name == "panic", recover() != nil) }()
				_, err := w.try(test.statement)
				require.Equal(t, test.says, terror.ErrResultUndetermined.Equal(err), "%v", err)
			}()
			require.NotNil(t, u.deliver)
			if u.panics {
				w.run("ROLLBACK") // TiDB forgets the tables when the connection ends
			}
			require.Empty(t, e.reported(c, "t"), "a job would go on, and its row come behind S without an entry")
			if !u.panics { // what has been rolled back is refused
				u.deliver()
				require.Equal(t, "1000", c.one("SELECT a FROM t WHERE b = 1000"), "it has committed")
			}
			e.SetClock(func() time.Time { return now.Add(time.Minute) })
			w.run("ROLLBACK")
			require.Len(t, e.reported(c, "t"), 1)
		})
	}
}

// TiDB's IMPORT INTO ... FROM SELECT would be waited for on its table.
func TestImportFromSelectIsWaitedFor(t *testing.T) {
	e := newEnv(t)
	c, importer := e.client(), e.client()
	c.run("CREATE TABLE s (a INT PRIMARY KEY); CREATE TABLE t LIKE s")
	for query, waits := range map[string]bool{
		"IMPORT INTO t FROM SELECT * FROM s": true, "IMPORT INTO test.t FROM SELECT * FROM s": true, "IMPORT INTO t FROM '/a.csv'": false,
	} {
		stmts, err := importer.Parse(t.Context(), query)
		require.NoError(t, err)
		end := sql.BeginStatement(importer.Session.(*sqltest.Session).Session, stmts[0])
		require.Equal(t, waits, len(e.reported(c, "t")) == 0, query)
		require.Len(t, e.reported(c, "s"), 1, query)
		end()
		require.Len(t, e.reported(c, "t"), 1, query)
	}
}

// A deletion of expired rows, which TiDB does in an internal session, is waited for before S and before the comparison
// with the rows: what it does after that would stay unseen.
func TestDeletionOfExpiredRowsIsWaitedFor(t *testing.T) {
	e := newEnv(t)
	c := e.client()
	c.run("CREATE TABLE t (a INT PRIMARY KEY, b INT, at DATETIME) TTL = at + INTERVAL 1 DAY TTL_ENABLE = 'OFF'")
	c.run("INSERT INTO t VALUES (1, 10, '2020-01-01'), (2, 20, NOW())")
	deleter, err := e.Domain().SysSessionPool().Get()
	require.NoError(t, err)
	exec := func(query string) {
		_, err := deleter.(sessionctx.Context).GetSQLExecutor().ExecuteInternal(asServer(), query)
		require.NoError(t, err)
	}
	exec("BEGIN OPTIMISTIC")
	exec("DELETE FROM test.t WHERE a = 1")
	require.Len(t, e.reported(c, "t"), 1)
	var ended, early atomic.Bool
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if matches(p, ddl.HookPoint{When: "before", Action: "take-snapshot"}) && !ended.Load() {
			early.Store(true)
		}
		return nil
	})
	result := e.start("ALTER TABLE t ADD INDEX i (b)")
	require.Eventually(t, func() bool { return early.Load() || len(e.reported(c, "t")) == 0 }, hangTimeout, time.Millisecond)
	ended.Store(true)
	exec("COMMIT")
	e.Domain().SysSessionPool().Put(deleter)
	require.NoError(t, wait(t, result))
	require.False(t, early.Load(), "the job did not wait for an internal session")
	c.check("t")
}

// reported are the jobs for which the server would report that no session uses a table under an older version: one, or none.
func (e *env) reported(c *client, table string) map[int64]int64 {
	e.t.Helper()
	jobs := map[int64]int64{1: e.Domain().InfoSchema().SchemaMetaVersion() + 1}
	e.Domain().InfoSyncer().GetSessionManager().CheckOldRunningTxn(jobs, map[int64]string{1: fmt.Sprint(e.tableID(c, table))})
	return jobs
}

// tableID is the ID of a table in database test.
func (e *env) tableID(c *client, table string) int64 {
	e.t.Helper()
	id, err := strconv.ParseInt(c.one("SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = 'test' AND table_name = '%s'", table), 10, 64)
	require.NoError(e.t, err)
	return id
}
