// Package enginetest runs parts of go-mysql-server's own test suite over our
// tables, indexes and transactions.
package enginetest

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/enginetest"
	"github.com/dolthub/go-mysql-server/enginetest/scriptgen/setup"
	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"fastddl/backfill"
	"fastddl/catalog"
	"fastddl/check"
	"fastddl/config"
	"fastddl/ddl"
	"fastddl/ddl/mdl"
	"fastddl/event"
	"fastddl/kv/pebblekv"
	"fastddl/sql"
	"fastddl/sql/genexpr"
	"fastddl/sql/stmt"
)

func TestMain(m *testing.M) {
	logrus.SetLevel(logrus.PanicLevel)
	m.Run()
}

// harness gives every test a node of its own.
type harness struct {
	t      *testing.T
	setup  []setup.SetupScript
	engine *sql.Engine
	last   *gms.Context
	nextID uint32
	skip   func(query string) bool
}

var (
	_ enginetest.TransactionHarness  = (*harness)(nil)
	_ enginetest.SkippingHarness     = (*harness)(nil)
	_ enginetest.KeylessTableHarness = (*harness)(nil)
	_ enginetest.ForeignKeyHarness   = (*harness)(nil)
)

func newHarness(t *testing.T) *harness {
	return &harness{t: t, nextID: 1 << 20, skip: skipped}
}

func (h *harness) Setup(scripts ...[]setup.SetupScript) {
	h.setup = nil
	for _, s := range scripts {
		h.setup = append(h.setup, s...)
	}
}

func (h *harness) SupportsKeylessTables() bool     { return true }
func (h *harness) SupportsForeignKeys() bool       { return false }
func (h *harness) SkipQueryTest(query string) bool { return h.skip(query) }
func (h *harness) NewEngine(t *testing.T) (enginetest.QueryEngine, error) {
	ctx := context.Background()
	store, err := pebblekv.Open("db", pebblekv.Options{FS: vfs.NewMem(), CacheBytes: 16 << 20})
	require.NoError(t, err)
	cat, err := catalog.Open(ctx, store, catalog.WithExpressions(genexpr.New()))
	require.NoError(t, err)
	globals := config.NewGlobals()
	locks := mdl.NewManager(cat, mdl.Options{})
	jobs, err := ddl.New(ddl.Options{
		Catalog: cat, Locks: locks, Globals: globals, TempDir: t.TempDir(),
		Backfiller: ddl.NewBackfiller(backfill.Options{Store: store, Globals: globals, Bus: &event.Bus{}}),
	})
	require.NoError(t, err)
	require.NoError(t, jobs.Start(ctx))
	h.engine, err = sql.New(ctx, sql.Options{
		Catalog: cat, Locks: locks, Globals: globals, DDL: stmt.NewDDL(jobs), Checker: stmt.NewChecker(cat, check.Options{}),
	})
	require.NoError(t, err)
	h.last = nil
	e := &engine{Engine: h.engine.GMS()}
	t.Cleanup(func() {
		e.endCommands()
		require.NoError(t, h.engine.Close())
		require.NoError(t, jobs.Close())
		require.NoError(t, store.Close())
	})
	for _, name := range []string{"mydb", "foo"} {
		h.runSetup(t, e, "create database if not exists "+name)
	}
	for _, script := range h.setup {
		for _, query := range script {
			h.runSetup(t, e, query)
		}
	}
	// Tests look at what a session remembers, such as its last insert ID.
	h.last = nil
	return e, nil
}

// runSetup runs a statement of a setup script. What we do not have (views,
// procedures, spatial columns) is left out; tests that need it are skipped.
func (h *harness) runSetup(t *testing.T, e *engine, query string) {
	ctx := h.NewContext().WithQuery(query)
	if ctx.GetCurrentDatabase() == "" && !strings.HasPrefix(strings.ToLower(query), "create database") {
		ctx.SetCurrentDatabase("mydb")
	}
	_, iter, _, err := e.Query(ctx, query)
	if err == nil {
		_, err = gms.RowIterToRows(ctx, iter)
	}
	if err != nil {
		t.Logf("setup %.80s: %v", query, err)
	}
}

func (h *harness) NewContext() *gms.Context {
	if h.last == nil {
		h.last = h.NewSession()
	}
	return gms.NewContext(context.Background(), gms.WithSession(h.last.Session))
}

func (h *harness) NewSession() *gms.Context {
	h.nextID++
	base := gms.NewBaseSessionWithClientServer("address", gms.Client{Address: "localhost", User: "root"}, h.nextID)
	if h.engine == nil {
		return gms.NewContext(context.Background(), gms.WithSession(base))
	}
	h.last = gms.NewContext(context.Background(), gms.WithSession(h.engine.NewSession(base)))
	return h.last
}

// engine brackets each statement by the calls that the protocol server makes.
type engine struct {
	*sqle.Engine
	open []*sql.Session
}

func (e *engine) Close() error { return nil }

func (e *engine) begin(ctx *gms.Context) error {
	s, ok := ctx.Session.(*sql.Session)
	if !ok {
		return nil
	}
	// The suite does not always close iterators.
	s.CommandEnd()
	e.open = append(e.open, s)
	return s.CommandBegin()
}

func (e *engine) endCommands() {
	for _, s := range e.open {
		s.SessionEnd()
	}
}

func (e *engine) Query(ctx *gms.Context, query string) (gms.Schema, gms.RowIter, *gms.QueryFlags, error) {
	return e.QueryWithBindings(ctx, query, nil, nil, nil)
}

func (e *engine) QueryWithBindings(ctx *gms.Context, query string, parsed sqlparser.Statement, bindings map[string]sqlparser.Expr, flags *gms.QueryFlags) (gms.Schema, gms.RowIter, *gms.QueryFlags, error) {
	if err := e.begin(ctx); err != nil {
		return nil, nil, nil, err
	}
	schema, iter, flags, err := e.Engine.QueryWithBindings(ctx, query, parsed, bindings, flags)
	if err != nil {
		if s, ok := ctx.Session.(*sql.Session); ok {
			s.CommandEnd()
		}
	}
	return schema, iter, flags, err
}
