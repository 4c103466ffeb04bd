package ddl

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/types"
	_ "github.com/pingcap/tidb/pkg/types/parser_driver"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/catalog"
	"fastddl/config"
	"fastddl/ddl/builder"
	"fastddl/ddl/mdl"
	"fastddl/event"
	"fastddl/ingest"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
	"fastddl/table"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is a node without SQL: store, catalog, locks and DDL.
type env struct {
	t       testing.TB
	store   kv.Store
	cat     *catalog.Catalog
	locks   *mdl.Manager
	globals *config.Globals
	bus     *event.Bus
	tempDir string
	fake    *fakeBackfiller
	ddl     *DDL
}

// fakeBackfiller writes the entries of the rows at S by transactions, with
// everything that a test wants to happen in between.
type fakeBackfiller struct {
	store kv.Store
	mu    sync.Mutex
	tasks []BackfillTask
	// during, if set, is called at the start of each build.
	during func(ctx context.Context, t BackfillTask) error
}

func (f *fakeBackfiller) Backfill(ctx context.Context, t BackfillTask) (int64, error) {
	f.mu.Lock()
	f.tasks = append(f.tasks, t)
	during := f.during
	f.mu.Unlock()
	if during != nil {
		if err := during(ctx, t); err != nil {
			return 0, err
		}
	}
	tbl := table.Of(&catalog.Table{DB: &model.DBInfo{}, Info: t.Table})
	snap, err := f.store.Snapshot(ctx, t.TS)
	if err != nil {
		return 0, err
	}
	defer snap.Close()
	all := make([]int, len(tbl.Columns()))
	for i := range all {
		all[i] = i
	}
	it, err := tbl.Reader(snap, all, time.UTC).Scan([]kv.KeyRange{tbl.RecordRange()}, false)
	if err != nil {
		return 0, err
	}
	defer it.Close()
	var rows int64
	err = kv.Retrying(ctx, f.store, func(ctx context.Context, txn kv.Txn) error {
		for {
			h, row, err := it.Next(ctx)
			if err != nil {
				break
			}
			rows++
			for _, idx := range t.Indexes {
				key, value, _, err := tbl.IndexEntry(idx, row, h)
				if err != nil {
					return err
				}
				if err := txn.Set(key, value, kv.NoConflictCheck); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return rows, err
}

func (f *fakeBackfiller) Held(int64) ingest.Held { return ingest.Held{} }

func (f *fakeBackfiller) built() []BackfillTask {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]BackfillTask(nil), f.tasks...)
}

func (f *fakeBackfiller) set(during func(context.Context, BackfillTask) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.during = during
}

func newEnv(t testing.TB) *env {
	t.Helper()
	store, err := pebblekv.Open("db", pebblekv.Options{
		FS: vfs.NewMem(), DisableSync: true, GCRunInterval: func() time.Duration { return 0 },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	e := &env{t: t, store: store, tempDir: t.TempDir()}
	e.start(nil)
	return e
}

// start starts a node on the store, as after a restart of the process.
func (e *env) start(configure func(*Options)) {
	e.t.Helper()
	cat, err := catalog.Open(context.Background(), e.store)
	require.NoError(e.t, err)
	e.cat, e.bus, e.globals = cat, new(event.Bus), config.NewGlobals()
	globals := e.globals
	e.locks = mdl.NewManager(cat, mdl.Options{Enabled: func() bool { return globals.Bool(config.EnableMetadataLock) }})
	e.fake = &fakeBackfiller{store: e.store}
	opts := Options{
		Catalog: cat, Locks: e.locks, Globals: e.globals, Bus: e.bus, Backfiller: e.fake,
		TempDir: e.tempDir, CleanInterval: 10 * time.Millisecond,
	}
	if configure != nil {
		configure(&opts)
	}
	d, err := New(opts)
	require.NoError(e.t, err)
	e.ddl = d
	require.NoError(e.t, d.Start(context.Background()))
	e.t.Cleanup(func() { require.NoError(e.t, d.Close()) })
}

// restart closes the DDL component and starts another one on the same store.
func (e *env) restart(configure func(*Options)) {
	e.t.Helper()
	require.NoError(e.t, e.ddl.Close())
	e.start(configure)
}

func request(t testing.TB, sql string) Request {
	t.Helper()
	stmt, err := parser.New().ParseOneStmt(sql, "", "")
	require.NoError(t, err, sql)
	return Request{Stmt: stmt, SQL: sql, CurrentDB: "test", SQLMode: mysql.ModeStrictTransTables}
}

func (e *env) exec(sql string) error {
	e.t.Helper()
	return e.execCtx(context.Background(), sql)
}

func (e *env) execCtx(ctx context.Context, sql string) error {
	_, err := e.ddl.Execute(ctx, request(e.t, sql))
	return err
}

func (e *env) must(sqls ...string) {
	e.t.Helper()
	for _, sql := range sqls {
		require.NoError(e.t, e.exec(sql), sql)
	}
}

// async executes a statement in the background.
func (e *env) async(ctx context.Context, sql string) <-chan error {
	done := make(chan error, 1)
	req := request(e.t, sql)
	go func() {
		_, err := e.ddl.Execute(ctx, req)
		done <- err
	}()
	return done
}

func (e *env) table(name string) *catalog.Table {
	e.t.Helper()
	tbl, ok := e.cat.Current().Table("test", name)
	require.True(e.t, ok, "table %s", name)
	return tbl
}

func (e *env) index(tbl, idx string) *model.IndexInfo {
	e.t.Helper()
	return e.table(tbl).Info.FindIndexByName(idx)
}

// write runs a transaction that writes a table, under the metadata lock, and
// returns what ends it.
func (e *env) write(name string, fn func(txn kv.Txn, tbl *table.Table)) (commit func() error, rollback func()) {
	e.t.Helper()
	ctx := context.Background()
	id := e.table(name).Info.ID
	txn, err := e.store.Begin(ctx)
	require.NoError(e.t, err)
	lock := e.locks.Begin(mdl.Owner{ConnID: 7, Started: time.Now()})
	bound, err := lock.Bind(id)
	require.NoError(e.t, err)
	txn.SetCommitCheck(lock.CheckCommit)
	fn(txn, table.Of(bound))
	return func() error {
			defer lock.Release()
			return txn.Commit(ctx)
		}, func() {
			require.NoError(e.t, txn.Rollback())
			lock.Release()
		}
}

func (e *env) insert(name string, rows ...[]any) {
	e.t.Helper()
	commit, _ := e.write(name, func(txn kv.Txn, tbl *table.Table) {
		for _, r := range rows {
			_, err := tbl.AddRecord(context.Background(), txn, datums(r...), table.AddOptions{})
			require.NoError(e.t, err)
		}
	})
	require.NoError(e.t, commit())
}

func datums(values ...any) []types.Datum {
	out := make([]types.Datum, len(values))
	for i, v := range values {
		out[i] = types.NewDatum(v)
	}
	return out
}

// entries counts what a snapshot of now sees in a range.
func (e *env) entries(r kv.KeyRange) int {
	e.t.Helper()
	ctx := context.Background()
	ts, err := e.store.CurrentTS(ctx)
	require.NoError(e.t, err)
	snap, err := e.store.Snapshot(ctx, ts)
	require.NoError(e.t, err)
	defer snap.Close()
	it, err := snap.Iter(r)
	require.NoError(e.t, err)
	defer it.Close()
	n := 0
	for ; it.Valid(); require.NoError(e.t, it.Next()) {
		n++
	}
	return n
}

func (e *env) requireCode(err error, code int, text string) {
	e.t.Helper()
	te, ok := builder.AsTerror(err)
	require.True(e.t, ok, "%v", err)
	require.Equal(e.t, code, int(te.Code()), "%v", err)
	if text != "" {
		require.Equal(e.t, text, te.GetMsg())
	}
}

// jobs returns "type state" of all jobs on a table, in the order of Jobs.
func (e *env) jobs() []JobInfo {
	e.t.Helper()
	jobs, err := e.ddl.Jobs(context.Background())
	require.NoError(e.t, err)
	return jobs
}

// requireNoTrace checks I7: no hold, no queued job, nothing in the temp folder.
func (e *env) requireNoTrace() {
	e.t.Helper()
	holds, err := e.store.GCHolds(context.Background())
	require.NoError(e.t, err)
	require.Empty(e.t, holds)
	queue, err := loadQueue(context.Background(), e.cat)
	require.NoError(e.t, err)
	require.Empty(e.t, queue)
	require.Empty(e.t, dirEntries(e.t, e.tempDir))
}

// waitFor polls until cond holds.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.Eventually(t, cond, 30*time.Second, time.Millisecond, what)
}

func (e *env) fill(n int) {
	e.t.Helper()
	e.must("create table t (id bigint primary key, k int, c varchar(20))")
	rows := make([][]any, n)
	for i := range rows {
		rows[i] = []any{int64(i), int64(i % 7), fmt.Sprintf("row %d", i)}
	}
	e.insert("t", rows...)
}
