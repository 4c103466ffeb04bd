package sql

import (
	"context"
	"errors"
	"fmt"
	"io"

	sqle "github.com/dolthub/go-mysql-server"
	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/rowexec"

	"fastddl/catalog"
	"fastddl/config"
	"fastddl/ddl/mdl"
	"fastddl/sql/sqlerr"
	"fastddl/sql/stmt"
	"fastddl/sql/sysvar"
)

// Options configures an Engine.
type Options struct {
	// Catalog holds the schemas, and the store the data. Required.
	Catalog *catalog.Catalog
	// Locks is the metadata lock that the DDL owner waits for. Required.
	Locks *mdl.Manager
	// Globals are the global system variables in force. Required.
	Globals *config.Globals
	// DDL executes data definition statements. Required.
	DDL stmt.DDL
	// Checker executes ADMIN CHECK and CHECKSUM. Required.
	Checker stmt.Checker
	// Version is the version of fastddl. Default "dev".
	Version string
	// SecureFilePriv is the folder in which statements may read and write files
	// of the server. Default: they must not.
	SecureFilePriv string
}

// EnsureDefaults fills in what is zero.
func (o *Options) EnsureDefaults() {
	if o.Version == "" {
		o.Version = "dev"
	}
}

// Validate lists every problem with the options.
func (o *Options) Validate() error {
	var errs []error
	if o.Catalog == nil {
		errs = append(errs, errors.New("sql: Catalog is missing"))
	}
	if o.Locks == nil {
		errs = append(errs, errors.New("sql: Locks is missing"))
	}
	if o.Globals == nil {
		errs = append(errs, errors.New("sql: Globals is missing"))
	}
	if o.DDL == nil {
		errs = append(errs, errors.New("sql: DDL is missing"))
	}
	if o.Checker == nil {
		errs = append(errs, errors.New("sql: Checker is missing"))
	}
	return errors.Join(errs...)
}

// Engine executes SQL over one store.
type Engine struct {
	catalog *catalog.Catalog
	locks   *mdl.Manager
	globals *config.Globals
	ddl     stmt.DDL
	gms     *sqle.Engine
	vars    *sysvar.Vars
	stats   *statistics
	files   serverFiles
}

// New returns an engine. It must be closed.
func New(ctx context.Context, opts Options) (*Engine, error) {
	opts.EnsureDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	vars, err := sysvar.Register(sysvar.Options{Globals: opts.Globals, Store: opts.Catalog, Version: opts.Version, SecureFilePriv: opts.SecureFilePriv})
	if err != nil {
		return nil, err
	}
	parser, err := stmt.NewParser(stmt.Options{DDL: opts.DDL, Checker: opts.Checker})
	if err != nil {
		return nil, err
	}
	e := &Engine{
		catalog: opts.Catalog,
		locks:   opts.Locks,
		globals: opts.Globals,
		ddl:     opts.DDL,
		vars:    vars,
		stats:   newStatistics(opts.Catalog.Store()),
	}
	e.files = serverFiles{engine: e, dir: opts.SecureFilePriv}
	overrides := gms.EngineOverrides{
		Builder:                         gms.BuilderOverrides{Parser: &observingParser{Parser: parser}},
		CostedIndexScanExpressionFilter: indexedExprMarker{},
	}
	a := analyzer.NewBuilder(&provider{e}).AddOverrides(overrides).Build()
	exec := &execBuilder{files: e.files}
	exec.base = rowexec.NewBuilder(exec, overrides)
	a.ExecBuilder = exec.base
	e.gms = sqle.New(a, &sqle.Config{})
	a.Catalog.InfoSchema = e.informationSchema(a.Catalog.InfoSchema)
	if err := e.loadUsers(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// GMS returns go-mysql-server's engine, for the protocol server.
func (e *Engine) GMS() *sqle.Engine { return e.gms }

// Close ends running statements and background work. The store stays open.
func (e *Engine) Close() error {
	e.stats.close()
	return e.gms.Close()
}

// Query runs one statement in a session without a connection and returns all its
// rows. Like a connection it runs a statement again that failed for a passing
// reason.
func (e *Engine) Query(ctx context.Context, s *Session, query string) (gms.Schema, []gms.Row, error) {
	var schema gms.Schema
	var rows []gms.Row
	err := e.retrying(ctx, func() *Session { return s }, func() (bool, error) {
		var err error
		schema, rows, err = e.queryOnce(ctx, s, query)
		return false, err
	})
	if err != nil {
		return nil, nil, sqlerr.Statement{DB: s.GetCurrentDatabase(), Text: query}.Translate(err)
	}
	return schema, rows, nil
}

func (e *Engine) queryOnce(ctx context.Context, s *Session, query string) (_ gms.Schema, rows []gms.Row, err error) {
	if err := s.CommandBegin(); err != nil {
		return nil, nil, err
	}
	defer s.CommandEnd()
	c := gms.NewContext(ctx, gms.WithSession(s), gms.WithQuery(query))
	schema, iter, _, err := e.gms.Query(c, query)
	if err != nil {
		return nil, nil, err
	}
	for {
		row, err := iter.Next(c)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, nil, errors.Join(err, iter.Close(c))
		}
		rows = append(rows, row)
	}
	if err := iter.Close(c); err != nil {
		return nil, nil, fmt.Errorf("end statement: %w", err)
	}
	return schema, rows, nil
}
