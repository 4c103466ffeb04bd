package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"fastddl/backfill"
	"fastddl/config"
	"fastddl/ctl/connect"
	"fastddl/event"
	"fastddl/server"
)

// cleanupTime bounds how long Server.Close waits for a cluster.
const cleanupTime = time.Minute

// ServerOptions say what server to start.
type ServerOptions struct {
	Target Target
	// Dir is an existing folder for the server's files. StorePath is the folder of an
	// embedded store; default is one in Dir.
	Dir, StorePath string
	// Files is the folder whose files statements may read; empty for none.
	Files string
	// Database is created.
	Database string
	// Conns is the most connections that there may be.
	Conns int
	// MemoryLimit bounds the process' memory in bytes; 0 is the server's default.
	MemoryLimit config.ByteSize
	// Version of the build, which clients are shown.
	Version string
	// Log receives the server's log; nil shows errors on standard error.
	Log *server.Log
}

// Server is a server on a free port of this machine: over a new embedded store, or one
// more node of a TiKV cluster that is in use. It must be closed.
//
// It works in a database of its own, which must not exist before. In a cluster Close drops
// that database and sets the global variables back that SetGlobal has changed; its error
// says what is left. A process that is killed leaves both; a later one refuses the database.
type Server struct {
	*server.Server
	// DB connects to the database.
	DB *sql.DB

	opts    ServerOptions
	created bool
	changed []setting

	mu   sync.Mutex
	last backfill.Result
}

// setting is a global variable and the value that it had.
type setting struct{ name, value string }

// StartServer starts a server and creates the database.
func StartServer(ctx context.Context, opts ServerOptions) (_ *Server, err error) {
	if opts.StorePath == "" {
		opts.StorePath = filepath.Join(opts.Dir, "data")
	}
	cfg, err := opts.Target.config(opts.Dir, opts.StorePath)
	if err != nil {
		return nil, err
	}
	cfg.MemoryLimit, cfg.Security.SecureFilePriv = opts.MemoryLimit, opts.Files
	cfg.EnsureDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{opts: opts}
	if s.Server, err = server.Start(ctx, server.Options{Config: cfg, Log: opts.Log, Version: opts.Version, Events: s.observe}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.create(ctx); err != nil {
		return nil, err
	}
	s.DB, err = s.open(opts.Database, opts.Conns)
	return s, err
}

// observe is the event listener.
func (s *Server) observe(e event.Event) {
	if e, ok := e.(backfill.Finished); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.last = e.Result
	}
}

// LastBuild returns the result of the index build that this server has ended last.
func (s *Server) LastBuild() backfill.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *Server) create(ctx context.Context) error {
	db, err := s.open("", 1)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+s.opts.Database); err != nil {
		return fmt.Errorf("create database %s: %w", s.opts.Database, err)
	}
	s.created = true
	return nil
}

func (s *Server) open(database string, conns int) (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName = "tcp", s.Addr().String(), "root", s.opts.Target.Password, database
	cfg.InterpolateParams = true // one round trip for a statement
	return connect.Pool(cfg, conns)
}

// SetGlobal sets a global variable until Close.
func (s *Server) SetGlobal(ctx context.Context, name, value string) error {
	var before string
	if err := s.DB.QueryRowContext(ctx, "SELECT @@GLOBAL."+name).Scan(&before); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	s.changed = append(s.changed, setting{name, before})
	return setGlobal(ctx, s.DB, setting{name, value})
}

func setGlobal(ctx context.Context, db *sql.DB, v setting) error {
	if _, err := db.ExecContext(ctx, fmt.Sprintf("SET GLOBAL %s = ?", v.name), v.value); err != nil {
		return fmt.Errorf("set %s to %s: %w", v.name, v.value, err)
	}
	return nil
}

// Close cleans up in a cluster and stops the server. An embedded store stays as it is.
func (s *Server) Close() error {
	var problems []error
	if s.DB != nil {
		problems = append(problems, s.DB.Close())
	}
	if s.opts.Target.Cluster() && s.created {
		problems = append(problems, s.cleanUp())
	}
	return errors.Join(append(problems, s.Shutdown(context.Background()))...)
}

// cleanUp removes from the cluster what the server has left. Its own connections have
// ended, also if it was interrupted.
func (s *Server) cleanUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTime)
	defer cancel()
	db, err := s.open("", 1)
	if err != nil {
		return err
	}
	defer db.Close()
	var problems []error
	for _, v := range s.changed { // in their order: some need others
		problems = append(problems, setGlobal(ctx, db, v))
	}
	if err := s.cancelJobs(ctx, db); err != nil {
		problems = append(problems, err)
	}
	if _, err := db.ExecContext(ctx, "DROP DATABASE "+s.opts.Database); err != nil {
		problems = append(problems, fmt.Errorf("database %s is left in the cluster: %w", s.opts.Database, err))
	}
	return errors.Join(problems...)
}

// cancelJobs cancels index builds on the database that have not ended, for which dropping
// it would wait.
func (s *Server) cancelJobs(ctx context.Context, db *sql.DB) error {
	var ids []string
	for _, j := range s.Node().UnfinishedJobs() {
		if strings.EqualFold(j.DB, s.opts.Database) {
			ids = append(ids, fmt.Sprint(j.ID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if _, err := db.ExecContext(ctx, "ADMIN CANCEL DDL JOBS "+strings.Join(ids, ", ")); err != nil {
		return fmt.Errorf("cancel the build: %w", err)
	}
	return nil
}
