package sql_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tidbconfig "github.com/pingcap/tidb/pkg/config"
	"github.com/pingcap/tidb/pkg/parser/auth"
	"github.com/pingcap/tidb/pkg/session"
	sessiontypes "github.com/pingcap/tidb/pkg/session/types"
	"github.com/pingcap/tidb/pkg/util/logutil"
	"github.com/pingcap/tidb/pkg/util/sqlexec"
	"github.com/stretchr/testify/require"

	"fastddl/backfill/worker"
	"fastddl/config"
	"fastddl/ddl"
	"fastddl/event"
	"fastddl/internal/servertest"
	"fastddl/kv/embedded"
	"fastddl/kv/embedded/txn"
	"fastddl/kv/pebblekv"
	"fastddl/sql"
	"fastddl/sql/sqltest"
)

// hangTimeout is how long a test waits for what is bound to happen, so that it bounds only how long a test hangs. Under the
// race detector, beside fifteen others on a core, a single schema change takes half a minute.
const hangTimeout = 5 * time.Minute

func TestMain(m *testing.M) {
	cfg := *tidbconfig.GetGlobalConfig()
	cfg.Instance.EnableSlowLog.Store(false)
	cfg.Performance.RunAutoAnalyze = false
	tidbconfig.StoreGlobalConfig(&cfg)
	if err := logutil.InitLogger(logutil.NewLogConfig("fatal", "text", "", "", logutil.EmptyFileLogConfig, false)); err != nil {
		panic(err)
	}
	session.SetSchemaLease(500 * time.Millisecond)
	code := m.Run()
	if err := bootstrapped.Remove(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// bootstrapped is a store with TiDB's system tables and ours, and openLayers counts the layers that are open. Copies of
// bootstrapped have one UUID, by which TiDB finds the domain of a store: one may be open at a time.
var (
	bootstrapped servertest.Template
	openLayers   atomic.Int32
)

// newStore puts a bootstrapped store into dir if there is none and no other store is open.
func newStore(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(dir + "/store"); err == nil || openLayers.Load() > 0 {
		return
	}
	require.NoError(t, bootstrapped.CopyTo(dir+"/store", func(template string) error {
		store, err := embedded.Open(template, embedded.Options{Pebble: pebblekv.Options{DisableSync: true}})
		if err != nil {
			return err
		}
		layer, err := sql.Open(context.Background(), sql.Options{Storage: store.Storage(), Builds: store.Builds(), TempDir: dir + "/tmp"})
		if err != nil {
			return errors.Join(err, store.Close())
		}
		return errors.Join(layer.Close(), store.Close())
	}))
}

// env is a SQL layer on an embedded store.
type env struct {
	*sql.Layer
	sessions *sqltest.Sessions
	t        *testing.T
	dir      string
	store    *embedded.Store
	bus      *event.Bus
	// globals are what builds follow.
	globals *config.Globals
	// clustered says that there may be other nodes.
	clustered bool

	// hook may be replaced while no job runs.
	hookMu sync.Mutex
	hook   func(ctx context.Context, p ddl.HookPoint) error
}

// open opens the store in dir, which may be new. Changes are made to the options.
func open(t *testing.T, dir string, changes ...func(o *sql.Options)) *env {
	t.Helper()
	return openLimited(t, dir, txn.Options{}, changes...)
}

// openLimited opens the store with options for its transactions.
func openLimited(t *testing.T, dir string, limits txn.Options, changes ...func(o *sql.Options)) *env {
	t.Helper()
	e := &env{t: t, dir: dir, bus: new(event.Bus)}
	newStore(t, dir)
	openLayers.Add(1)
	var err error
	e.store, err = embedded.Open(dir+"/store", embedded.Options{Pebble: pebblekv.Options{DisableSync: true}, Txn: limits})
	require.NoError(t, err)
	opts := sql.Options{
		Storage: e.store.Storage(), Builds: e.store.Builds(), TempDir: dir + "/tmp", Bus: e.bus, Hook: e.callHook, Globals: config.NewGlobals(),
	}
	for _, change := range changes {
		change(&opts)
	}
	e.globals, e.clustered = opts.Globals, opts.Cluster != nil
	e.Layer, err = sql.Open(context.Background(), opts)
	require.NoError(t, err)
	e.sessions = sqltest.NewSessions(e.Layer)
	return e
}

// inWorkers has, by chance, builds be done as by processes of their own.
func inWorkers(t *testing.T, rng *rand.Rand) func(o *sql.Options) {
	return func(o *sql.Options) {
		if rng.IntN(2) == 0 {
			return
		}
		t.Log("index entries are built in workers")
		_, _, err := o.Globals.Set(config.Worker, config.WorkerOn)
		require.NoError(t, err)
		o.Ingester = worker.NewHost(worker.Options{Store: o.Builds.(worker.Store), Globals: o.Globals, Start: worker.Inside(nil)})
	}
}

// newEnv opens a new store, which is closed when the test ends.
func newEnv(t *testing.T, changes ...func(o *sql.Options)) *env {
	t.Helper()
	e := open(t, t.TempDir(), changes...)
	t.Cleanup(e.close)
	return e
}

func (e *env) close() {
	require.NoError(e.t, e.Layer.Close())
	require.NoError(e.t, e.store.Close())
	openLayers.Add(-1)
}

func (e *env) callHook(ctx context.Context, p ddl.HookPoint) error {
	e.hookMu.Lock()
	hook := e.hook
	e.hookMu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx, p)
}

func (e *env) setHook(hook func(ctx context.Context, p ddl.HookPoint) error) {
	e.hookMu.Lock()
	defer e.hookMu.Unlock()
	e.hook = hook
}

// before calls fn the first time that a job is about to do an action.
func (e *env) before(action, step string, fn func()) {
	var once sync.Once
	e.setHook(func(_ context.Context, p ddl.HookPoint) error {
		if p.When == "before" && p.Action == action && (step == "" || p.Step == step) {
			once.Do(fn)
		}
		return nil
	})
}

// client is a session.
type client struct {
	t *testing.T
	sessiontypes.Session
}

// client opens a session in database test, which is closed when the test ends.
func (e *env) client() *client {
	e.t.Helper()
	s, err := e.sessions.Open()
	require.NoError(e.t, err)
	e.t.Cleanup(s.Close)
	c := &client{e.t, s}
	c.run("USE test")
	return c
}

// try runs statements and returns the rows of the last, as text.
func (c *client) try(query string, args ...any) ([]string, error) {
	if len(args) > 0 {
		query = fmt.Sprintf(query, args...)
	}
	ctx := context.Background()
	results, err := c.Execute(ctx, query)
	var out []string
	for _, rs := range results {
		rows, drainErr := sqlexec.DrainRecordSet(ctx, rs, 1024)
		if err == nil {
			err = drainErr
		}
		out = out[:0]
		for _, row := range rows {
			values := make([]string, len(rs.Fields()))
			for i, d := range row.GetDatumRow(fieldTypes(rs)) {
				values[i] = "NULL"
				if !d.IsNull() {
					if values[i], drainErr = d.ToString(); drainErr != nil {
						values[i] = drainErr.Error()
					}
				}
			}
			out = append(out, strings.Join(values, " "))
		}
		_ = rs.Close()
	}
	return out, err
}

func (c *client) run(query string, args ...any) []string {
	c.t.Helper()
	rows, err := c.try(query, args...)
	if err != nil {
		c.t.Fatalf("%s: %s", query, err.Error()) // without its stack
	}
	return rows
}

// of returns the session for a sub-test.
func (c *client) of(t *testing.T) *client { return &client{t, c.Session} }

// one returns the only row of a query.
func (c *client) one(query string, args ...any) string {
	c.t.Helper()
	rows := c.run(query, args...)
	require.Len(c.t, rows, 1, query)
	return rows[0]
}

// fails runs a statement that must fail with a MySQL error number.
func (c *client) fails(code int, query string, args ...any) string {
	c.t.Helper()
	_, err := c.try(query, args...)
	require.Error(c.t, err, query)
	require.Equal(c.t, code, errorCode(err), "%s: %s", query, err.Error())
	return err.Error()
}

// check has TiDB judge a table's indexes, in both its ways. The fast one, its default,
// computes the values of expressions from the rows on both sides: only the other one sees
// what an entry says of them.
func (c *client) check(table string) {
	c.t.Helper()
	for _, fast := range []string{"OFF", "ON"} {
		c.run("SET tidb_enable_fast_table_check = " + fast)
		c.run("ADMIN CHECK TABLE " + table)
	}
}

// lastJob returns columns of the newest job's row.
func (c *client) lastJob(columns string) string {
	c.t.Helper()
	return c.one("SELECT %s FROM mysql.fastddl_ddl_jobs ORDER BY job_id DESC LIMIT 1", columns)
}

// start runs a statement in a session of its own.
func (e *env) start(query string) <-chan error {
	c := e.client()
	result := make(chan error, 1)
	go func() {
		_, err := c.try(query)
		result <- err
	}()
	return result
}

func wait(t *testing.T, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(hangTimeout):
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		require.Fail(t, "a statement did not end")
		return nil
	}
}

// clientOf opens a session of a user without a password.
func (e *env) clientOf(user string) *client {
	e.t.Helper()
	c := e.client()
	require.True(e.t, c.AuthWithoutVerification(&auth.UserIdentity{Username: user, Hostname: "localhost"}))
	return c
}
