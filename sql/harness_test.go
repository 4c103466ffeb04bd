package sql_test

import (
	"context"
	dbsql "database/sql"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/dolthub/go-mysql-server/server"
	gms "github.com/dolthub/go-mysql-server/sql"
	_ "github.com/go-sql-driver/mysql"
	"github.com/pingcap/tidb/pkg/meta/model"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fastddl/catalog"
	"fastddl/config"
	"fastddl/ddl/builder"
	"fastddl/ddl/mdl"
	"fastddl/kv"
	"fastddl/kv/pebblekv"
	"fastddl/sql"
	"fastddl/sql/genexpr"
	"fastddl/sql/sqlerr"
	"fastddl/sql/stmt"
)

func TestMain(m *testing.M) {
	logrus.SetLevel(logrus.PanicLevel)
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"),
	)
}

// node is an engine over a store in memory, with a listening server.
type node struct {
	t       testing.TB
	fs      vfs.FS
	store   kv.Store
	catalog *catalog.Catalog
	globals *config.Globals
	locks   *mdl.Manager
	ddl     *directDDL
	engine  *sql.Engine
	server  *server.Server
	served  chan struct{}
	addr    string
	clients []io.Closer
}

func newNode(t testing.TB) *node { return openNode(t, vfs.NewMem()) }

func openNode(t testing.TB, fs vfs.FS) *node {
	t.Helper()
	return openNodeWith(t, fs, (*node).directParts)
}

// directParts are the parts of a node that changes schemas at once.
func (n *node) directParts() (stmt.DDL, stmt.Checker) {
	n.ddl = &directDDL{catalog: n.catalog}
	return n.ddl, noChecker{}
}

func openNodeWith(t testing.TB, fs vfs.FS, parts func(n *node) (stmt.DDL, stmt.Checker)) *node {
	t.Helper()
	n := &node{t: t, fs: fs, store: openStore(t, fs)}
	n.start(parts)
	return n
}

func openStore(t testing.TB, fs vfs.FS) kv.Store {
	t.Helper()
	store, err := pebblekv.Open("db", pebblekv.Options{FS: fs, CacheBytes: 16 << 20})
	require.NoError(t, err)
	return store
}

// start starts the engine and its server over the node's store.
func (n *node) start(parts func(n *node) (stmt.DDL, stmt.Checker)) {
	t, ctx := n.t, context.Background()
	t.Helper()
	n.globals, n.served = config.NewGlobals(), make(chan struct{})
	var err error
	n.catalog, err = catalog.Open(ctx, n.store, catalog.WithExpressions(genexpr.New()))
	require.NoError(t, err)
	n.locks = mdl.NewManager(n.catalog, mdl.Options{Enabled: func() bool { return n.globals.Bool(config.EnableMetadataLock) }})
	ddl, checker := parts(n)
	n.engine, err = sql.New(ctx, sql.Options{
		Catalog: n.catalog, Locks: n.locks, Globals: n.globals, DDL: ddl, Checker: checker,
	})
	require.NoError(t, err)
	n.listen()
}

func (n *node) listen() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(n.t, err)
	n.addr = l.Addr().String()
	cfg := server.Config{Protocol: "tcp", Address: n.addr, Listener: l}
	cfg.Options = append(n.engine.ServerOptions(), sqlerr.ServerOption())
	n.server, err = server.NewServer(cfg, n.engine.GMS(), gms.NewContext, n.engine.SessionBuilder, nil)
	require.NoError(n.t, err)
	go func() {
		defer close(n.served)
		_ = n.server.Start()
	}()
	n.t.Cleanup(n.close)
}

func (n *node) close() {
	if n.server == nil {
		return
	}
	for _, c := range slices.Backward(n.clients) {
		_ = c.Close()
	}
	require.NoError(n.t, n.server.Close())
	<-n.served
	n.server.SessionManager().WaitForClosedConnections()
	n.server = nil
	require.NoError(n.t, n.engine.Close())
	require.NoError(n.t, n.store.Close())
}

// open returns a database handle; params is the driver's query string.
func (n *node) open(user, params string) *dbsql.DB {
	n.t.Helper()
	db, err := dbsql.Open("mysql", fmt.Sprintf("%s@tcp(%s)/test?%s", user, n.addr, params))
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = db.Close() })
	n.clients = append(n.clients, db)
	return db
}

// conn returns one connection of root.
func (n *node) conn() *conn { return n.connWith("") }

func (n *node) connWith(params string) *conn {
	n.t.Helper()
	return n.connOf("root", params)
}

func (n *node) connOf(user, params string) *conn {
	n.t.Helper()
	db := n.open(user, params)
	c, err := db.Conn(context.Background())
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = c.Close() })
	n.clients = append(n.clients, c)
	return &conn{n.t, c, db}
}

// session returns a session without a connection.
func (n *node) session() *sql.Session {
	base := gms.NewBaseSessionWithClientServer("", gms.Client{User: "root", Address: "localhost"}, 1<<30)
	s := n.engine.NewSession(base)
	s.SetCurrentDatabase("test")
	return s
}

type conn struct {
	t testing.TB
	*dbsql.Conn
	db *dbsql.DB
}

func (c *conn) exec(query string, args ...any) dbsql.Result {
	c.t.Helper()
	r, err := c.ExecContext(context.Background(), query, args...)
	require.NoError(c.t, err, query)
	return r
}

func (c *conn) try(query string, args ...any) error {
	_, err := c.ExecContext(context.Background(), query, args...)
	return err
}

// query returns the rows as text, NULL as <nil>.
func (c *conn) query(query string, args ...any) [][]string {
	c.t.Helper()
	rows, err := c.tryQuery(query, args...)
	require.NoError(c.t, err, query)
	return rows
}

func (c *conn) tryQuery(query string, args ...any) (_ [][]string, err error) {
	rows, err := c.QueryContext(context.Background(), query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	out := [][]string{}
	for rows.Next() {
		vals := make([]dbsql.NullString, len(cols))
		ptrs := make([]any, len(cols))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			return nil, err
		}
		row := make([]string, len(cols))
		for i, v := range vals {
			row[i] = "<nil>"
			if v.Valid {
				row[i] = v.String
			}
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// queryFlat returns the only column.
func (c *conn) queryFlat(query string, args ...any) []string {
	c.t.Helper()
	out := []string{}
	for _, r := range c.query(query, args...) {
		require.Len(c.t, r, 1)
		out = append(out, r[0])
	}
	return out
}

// directDDL changes schemas at once, without jobs; indexes it adds are not
// filled.
type directDDL struct{ catalog *catalog.Catalog }

func (d *directDDL) Execute(ctx context.Context, req stmt.Request) ([]stmt.Warning, error) {
	_, err := d.catalog.Update(ctx, func(_ context.Context, m *catalog.Mutation) error {
		switch s := req.Stmt.(type) {
		case *ast.CreateDatabaseStmt:
			return d.createDatabase(m, s)
		case *ast.CreateTableStmt:
			return d.createTable(m, s, req)
		case *ast.DropTableStmt:
			return d.dropTables(m, s, req)
		default:
			return fmt.Errorf("no such DDL here: %T", s)
		}
	})
	return nil, err
}

func (d *directDDL) createDatabase(m *catalog.Mutation, s *ast.CreateDatabaseStmt) error {
	id, err := m.GenGlobalID()
	if err != nil {
		return err
	}
	m.SetDiff(&model.SchemaDiff{Type: model.ActionCreateSchema, SchemaID: id})
	return m.CreateDatabase(&model.DBInfo{
		ID: id, Name: s.Name, Charset: mysql.UTF8MB4Charset, Collate: mysql.UTF8MB4DefaultCollation, State: model.StatePublic,
	})
}

func dbName(name *ast.TableName, req stmt.Request) string {
	if name.Schema.L != "" {
		return name.Schema.L
	}
	return req.CurrentDB
}

func (d *directDDL) createTable(m *catalog.Mutation, s *ast.CreateTableStmt, req stmt.Request) error {
	db, ok := d.catalog.Current().Schema(dbName(s.Table, req))
	if !ok {
		return sqlerr.New(1049, dbName(s.Table, req))
	}
	if _, ok := d.catalog.Current().Table(db.Name.L, s.Table.Name.L); ok {
		if s.IfNotExists {
			return nil
		}
		return sqlerr.New(1050, s.Table.Name.O)
	}
	info, err := builder.NewTable(&builder.Env{
		SQLMode: req.SQLMode, Loc: req.Loc, Now: time.Now(), ClusteredIndex: true,
		Expressions: d.catalog.Current().Expressions(), Collation: req.Collation,
	}, s, db)
	if err != nil {
		return err
	}
	if info.ID, err = m.GenGlobalID(); err != nil {
		return err
	}
	m.SetDiff(&model.SchemaDiff{Type: model.ActionCreateTable, SchemaID: db.ID, TableID: info.ID})
	if err := m.CreateTableOrView(db.ID, info); err != nil {
		return err
	}
	if info.AutoIncID > 1 {
		return m.GetAutoIDAccessors(db.ID, info.ID).RowID().Put(info.AutoIncID - 1)
	}
	return nil
}

func (d *directDDL) dropTables(m *catalog.Mutation, s *ast.DropTableStmt, req stmt.Request) error {
	diff := &model.SchemaDiff{Type: model.ActionDropTable}
	for _, name := range s.Tables {
		t, ok := d.catalog.Current().Table(dbName(name, req), name.Name.L)
		if !ok {
			if s.IfExists {
				continue
			}
			return sqlerr.New(1051, name.Name.O)
		}
		if err := m.DropTableOrView(t.DB.ID, t.Info.ID); err != nil {
			return err
		}
		diff.SchemaID, diff.TableID = t.DB.ID, t.Info.ID
		diff.AffectedOpts = append(diff.AffectedOpts, &model.AffectedOption{SchemaID: t.DB.ID, TableID: t.Info.ID})
	}
	if diff.TableID != 0 {
		m.SetDiff(diff)
	}
	return nil
}

// change changes a table's definition.
func (n *node) change(table string, fn func(*model.TableInfo)) {
	n.t.Helper()
	_, err := n.catalog.Update(context.Background(), func(_ context.Context, m *catalog.Mutation) error {
		t, ok := n.catalog.Current().Table("test", table)
		if !ok {
			return fmt.Errorf("no table %s", table)
		}
		info := t.Info.Clone()
		fn(info)
		m.SetDiff(&model.SchemaDiff{Type: model.ActionAddColumn, SchemaID: t.DB.ID, TableID: info.ID})
		return m.UpdateTable(t.DB.ID, info)
	})
	require.NoError(n.t, err)
}

func (*directDDL) Jobs(context.Context) ([]stmt.JobInfo, error) {
	return []stmt.JobInfo{{
		ID: 7, Schema: "test", Table: "t", Type: "add index", State: "running", Query: "alter table t ...", Percent: 40,
		Duplicates: []stmt.Duplicate{{Index: "u", Entry: []byte("a\xff"), Rows: 3, Handles: [][]byte{[]byte("1"), []byte("7")}}},
	}}, nil
}

func (*directDDL) Cancel(_ context.Context, ids []int64) []error       { return make([]error, len(ids)) }
func (*directDDL) Pause(_ context.Context, ids []int64) []error        { return make([]error, len(ids)) }
func (*directDDL) Resume(_ context.Context, ids []int64) []error       { return make([]error, len(ids)) }
func (*directDDL) Alter(context.Context, int64, stmt.Alteration) error { return nil }

func (*directDDL) Owner(context.Context) (stmt.OwnerInfo, error) { return stmt.OwnerInfo{}, nil }

type noChecker struct{}

func (noChecker) CheckTable(context.Context, string, string, string) error { return nil }
func (noChecker) Checksum(context.Context, string, string) (stmt.Checksum, error) {
	return stmt.Checksum{}, nil
}

var shared struct {
	sync.Mutex
	node *node
	uses int
}

// sharedNode returns a node that parallel tests use together.
func sharedNode(t *testing.T) *node {
	shared.Lock()
	defer shared.Unlock()
	if shared.node == nil {
		shared.node = newNode(noCleanup{t})
	}
	shared.uses++
	t.Cleanup(func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.uses--; shared.uses == 0 {
			shared.node.close()
			shared.node = nil
		}
	})
	n := *shared.node
	n.t = t
	return &n
}

// noCleanup leaves closing to the last of the tests that share a node.
type noCleanup struct{ testing.TB }

func (noCleanup) Cleanup(func()) {}
