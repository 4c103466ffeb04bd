package stmt_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/memory"
	"github.com/dolthub/go-mysql-server/server"
	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/types"
	vitess "github.com/dolthub/vitess/go/mysql"
	"github.com/pingcap/tidb/pkg/errno"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/format"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"fastddl/config"
	"fastddl/sql/sqlerr"
	"fastddl/sql/stmt"
)

// fakeDDL records what it is asked to do.
type fakeDDL struct {
	mu       sync.Mutex
	log      []string
	warnings []stmt.Warning
	err      error
	// running, if set, receives a value when a statement has begun, which then
	// lasts until its context ends.
	running chan struct{}
	jobs    []stmt.JobInfo
}

func (d *fakeDDL) logf(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, fmt.Sprintf(format, args...))
}

func (d *fakeDDL) takeLog() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := strings.Join(d.log, "")
	d.log = nil
	return out
}

func restore(n ast.Node) string {
	var sb strings.Builder
	if err := n.Restore(format.NewRestoreCtx(format.DefaultRestoreFlags|format.SkipPlacementRuleForRestore, &sb)); err != nil {
		return err.Error()
	}
	return sb.String()
}

func (d *fakeDDL) Execute(ctx context.Context, req stmt.Request) ([]stmt.Warning, error) {
	d.logf("ddl: %T %s (db=%s conn=%t loc=%s)\n", req.Stmt, restore(req.Stmt), req.CurrentDB, req.ConnID > 0, req.Loc)
	if d.running != nil {
		d.running <- struct{}{}
		<-ctx.Done()
		d.logf("ddl: cancelled\n")
		return nil, ctx.Err()
	}
	if create, ok := req.Stmt.(*ast.CreateTableStmt); ok && d.err == nil {
		create.Table.Name.O = "mutated" // whoever executes the tree may change it
	}
	return d.warnings, d.err
}

func (d *fakeDDL) Jobs(context.Context) ([]stmt.JobInfo, error) { return d.jobs, d.err }

func (d *fakeDDL) control(what string, ids []int64) []error {
	d.logf("%s %v\n", what, ids)
	errs := make([]error, len(ids))
	for i, id := range ids {
		if id > 100 {
			errs[i] = sqlerr.Newf(errno.ErrDDLJobNotFound, "DDL Job:%d not found", id)
		}
	}
	return errs
}

func (d *fakeDDL) Cancel(_ context.Context, ids []int64) []error { return d.control("cancel", ids) }
func (d *fakeDDL) Pause(_ context.Context, ids []int64) []error  { return d.control("pause", ids) }
func (d *fakeDDL) Resume(_ context.Context, ids []int64) []error { return d.control("resume", ids) }

func (d *fakeDDL) Alter(_ context.Context, id int64, a stmt.Alteration) error {
	d.logf("alter %d", id)
	for _, v := range []struct {
		name string
		set  bool
		get  func() int64
	}{
		{"threads", a.Threads != nil, func() int64 { return int64(*a.Threads) }},
		{"batch size", a.BatchSize != nil, func() int64 { return int64(*a.BatchSize) }},
		{"max write speed", a.MaxWriteSpeed != nil, func() int64 { return *a.MaxWriteSpeed }},
	} {
		if v.set {
			d.logf(" %s=%d", v.name, v.get())
		}
	}
	d.logf("\n")
	if id > 100 {
		return fmt.Errorf("ddl job %d is not running", id)
	}
	return nil
}

func (d *fakeDDL) Owner(context.Context) (stmt.OwnerInfo, error) {
	return stmt.OwnerInfo{SchemaVersion: 42, OwnerID: "n1", OwnerAddress: "127.0.0.1:4000", SelfID: "n1"}, nil
}

// fakeChecker finds table "bad" to be wrong.
type fakeChecker struct{ ddl *fakeDDL }

func (c fakeChecker) CheckTable(_ context.Context, db, table, index string) error {
	c.ddl.logf("check %s.%s %s\n", db, table, index)
	if table == "bad" {
		return sqlerr.Newf(errno.ErrDataInconsistent, "data inconsistency in table: bad, index: i, handle: 1")
	}
	return nil
}

func (c fakeChecker) Checksum(_ context.Context, db, table string) (stmt.Checksum, error) {
	return stmt.Checksum{CRC64Xor: 1<<64 - 1, TotalKVs: 3, TotalBytes: uint64(len(db + table))}, nil
}

// session is a session without storage; it records commits and locking reads.
type session struct {
	*gms.BaseSession
	ddl *fakeDDL
}

var _ stmt.Session = (*session)(nil)

func (s *session) CommitImplicitly(*gms.Context) error {
	s.ddl.logf("commit\n")
	return nil
}

func (s *session) SetLocking(locking bool) { s.ddl.logf("locking=%t\n", locking) }

func (s *session) Location() *time.Location { return time.UTC }

func (s *session) ReorgPriority() string { return config.PriorityNormal }

// schemas is a database "test" with the tables t, bad and check, which hold
// nothing.
type schemas struct{}

func (schemas) Name() string { return "test" }

func (s schemas) Database(_ *gms.Context, name string) (gms.Database, error) {
	if !s.HasDatabase(nil, name) {
		return nil, gms.ErrDatabaseNotFound.New(name)
	}
	return s, nil
}

func (schemas) HasDatabase(_ *gms.Context, name string) bool { return strings.EqualFold(name, "test") }

func (s schemas) AllDatabases(*gms.Context) []gms.Database { return []gms.Database{s} }

func (s schemas) GetTableNames(*gms.Context) ([]string, error) {
	return []string{"t", "bad", "check"}, nil
}

func (s schemas) GetTableInsensitive(ctx *gms.Context, name string) (gms.Table, bool, error) {
	names, err := s.GetTableNames(ctx)
	if err != nil || !slices.Contains(names, strings.ToLower(name)) {
		return nil, false, err
	}
	schema := gms.NewPrimaryKeySchema(gms.Schema{{Name: "id", Source: name, Type: types.Int64, PrimaryKey: true}})
	return memory.NewTable(ctx, memory.NewDatabase("test"), name, schema, nil), true, nil
}

type fixture struct {
	ddl    *fakeDDL
	engine *sqle.Engine
	parser *stmt.Parser
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	logrus.SetLevel(logrus.PanicLevel)
	f := &fixture{ddl: &fakeDDL{}}
	var err error
	f.parser, err = stmt.NewParser(stmt.Options{DDL: f.ddl, Checker: fakeChecker{f.ddl}})
	require.NoError(t, err)
	overrides := gms.EngineOverrides{Builder: gms.BuilderOverrides{Parser: f.parser}}
	f.engine = sqle.New(analyzer.NewBuilder(schemas{}).AddOverrides(overrides).Build(), nil)
	t.Cleanup(func() { require.NoError(t, f.engine.Close()) })
	return f
}

func (f *fixture) newSession(user string) *session {
	return &session{gms.NewBaseSessionWithClientServer("server", gms.Client{User: user, Address: "localhost"}, 7), f.ddl}
}

func (f *fixture) context(s *session, query string) *gms.Context {
	return gms.NewContext(context.Background(), gms.WithSession(s), gms.WithQuery(query))
}

// run executes a statement and prints its rows.
func (f *fixture) run(s *session, query string) (string, error) {
	ctx := f.context(s, query)
	schema, iter, _, err := f.engine.Query(ctx, query)
	if err != nil {
		return "", err
	}
	var sb strings.Builder
	if !types.IsOkResultSchema(schema) {
		for i, c := range schema {
			sb.WriteString(strings.Repeat("|", min(i, 1)) + c.Name)
		}
		sb.WriteString("\n")
	}
	for {
		row, err := iter.Next(ctx)
		if err == io.EOF {
			return sb.String(), iter.Close(ctx)
		}
		if err != nil {
			return "", errors.Join(err, iter.Close(ctx))
		}
		if types.IsOkResultSchema(schema) {
			sb.WriteString("ok\n")
			continue
		}
		for i, v := range row {
			if tm, ok := v.(time.Time); ok {
				v = tm.Format(time.DateTime)
			}
			fmt.Fprintf(&sb, "%s%v", strings.Repeat("|", min(i, 1)), v)
		}
		sb.WriteString("\n")
	}
}

// serve starts a protocol server over the engine.
func (f *fixture) serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv, err := server.NewServer(server.Config{
		Protocol: "tcp",
		Listener: listener,
		Options:  []server.Option{sqlerr.ServerOption()},
	}, f.engine, gms.NewContext, func(ctx context.Context, c *vitess.Conn, addr string) (gms.Session, error) {
		base, err := gms.BaseSessionFromConnection(ctx, c, addr)
		if err != nil {
			return nil, err
		}
		return &session{base, f.ddl}, nil
	}, nil)
	require.NoError(t, err)
	go func() { _ = srv.Start() }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		srv.SessionManager().WaitForClosedConnections()
	})
	return listener.Addr().String()
}
