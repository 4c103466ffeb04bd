package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"fastddl/sbtest"
)

// postgres is PostgreSQL.
type postgres struct {
	Options
	dir     string
	account account
	url     string
	process *process
	conn    *pgx.Conn // for everything but sessions and loading
}

func newPostgres(opts Options) *postgres {
	return &postgres{Options: opts, dir: filepath.Join(opts.Dir, "postgres")}
}

func (p *postgres) Name() string { return "postgres" }

// Debian keeps the programs of each major version in a folder of its own.
const postgresFolders = "/usr/lib/postgresql/*/bin"

func (p *postgres) server() (string, error)    { return findProgram("postgres", postgresFolders) }
func (p *postgres) installer() (string, error) { return findProgram("initdb", postgresFolders) }

func (p *postgres) Available() error {
	if _, err := p.server(); err != nil {
		return fmt.Errorf("%w (Debian: postgresql)", err)
	}
	_, err := p.installer()
	return err
}

func (p *postgres) Settings() []string {
	return []string{
		fmt.Sprintf("shared_buffers=%dMB", p.buffers(2, 0.4)),
		"maintenance_work_mem=1GB",
		fmt.Sprintf("max_parallel_maintenance_workers=%d", p.Cores),
		fmt.Sprintf("max_parallel_workers=%d", max(8, 2*p.Cores)),
		fmt.Sprintf("max_worker_processes=%d", max(8, 2*p.Cores)),
		"max_wal_size=16GB",
		"checkpoint_timeout=15min",
		"wal_buffers=64MB",
		// Without a standby a new index need not go through the log; neither do
		// the other systems ship a log.
		"wal_level=minimal",
		"max_wal_senders=0",
		"fsync=on",
		"synchronous_commit=on",
		"full_page_writes=on",
	}
}

func (p *postgres) Start(ctx context.Context) error {
	program, err := p.server()
	if err != nil {
		return err
	}
	dataDir := filepath.Join(p.dir, "data")
	if _, err := os.Stat(dataDir); err != nil {
		if err := p.initialise(ctx, dataDir); err != nil {
			return err
		}
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	args := []string{"-D", dataDir}
	for _, s := range append(p.Settings(), "listen_addresses=127.0.0.1", fmt.Sprintf("port=%d", port), "unix_socket_directories=") {
		args = append(args, "-c", s)
	}
	// SIGINT is PostgreSQL's fast shutdown, SIGQUIT the immediate one, which
	// still frees the shared memory.
	if p.process, err = startProcess(p.account.command(p.dir, program, args...), p.dir+".log", syscall.SIGINT, syscall.SIGQUIT); err != nil {
		return err
	}
	p.url = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	return p.process.awaitAnswer(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, p.url)
		if err == nil {
			p.conn = conn
		}
		return err
	})
}

// initialise makes a store whose keys compare as bytes.
func (p *postgres) initialise(ctx context.Context, dataDir string) (err error) {
	installer, err := p.installer()
	if err != nil {
		return err
	}
	if p.account, err = accountFor("postgres"); err != nil {
		return err
	}
	if err := p.account.own(p.dir); err != nil {
		return err
	}
	making := dataDir + ".new"
	if err := os.RemoveAll(making); err != nil {
		return err
	}
	if err := p.account.run(ctx, p.dir, installer, "-D", making, "-U", "postgres", "-A", "trust", "--encoding=UTF8", "--locale=C"); err != nil {
		return err
	}
	return os.Rename(making, dataDir)
}

func (p *postgres) PID() int { return p.process.cmd.Process.Pid }

func (p *postgres) Version(ctx context.Context) (v string, err error) {
	err = p.conn.QueryRow(ctx, "SHOW server_version").Scan(&v)
	return v, err
}

// exec connects again where a statement was broken off, which costs the driver
// its connection.
func (p *postgres) exec(ctx context.Context, statements ...string) error {
	if p.conn.IsClosed() {
		conn, err := pgx.Connect(ctx, p.url)
		if err != nil {
			return err
		}
		p.conn = conn
	}
	for _, s := range statements {
		if _, err := p.conn.Exec(ctx, s, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// postgresLoadBlocks are the blocks of rows of one COPY.
const postgresLoadBlocks = 20

// Load leaves the table as it is in use: with its primary key, vacuumed, and
// on disk. As many workers as there are cores may scan it, however small it is.
func (p *postgres) Load(ctx context.Context, g sbtest.Generator, loaded func(rows int)) error {
	if err := p.exec(ctx, "CREATE TABLE "+sbtest.Table+" ("+sbtest.Columns+")"); err != nil {
		return err
	}
	err := loadInChunks(ctx, g, postgresLoadBlocks, 1, loaded, func(ctx context.Context, rows io.Reader) error {
		_, err := p.conn.PgConn().CopyFrom(ctx, rows, "COPY "+sbtest.Table+" (id, k, c, pad) FROM STDIN")
		return err
	})
	if err != nil {
		return err
	}
	return p.exec(ctx,
		"ALTER TABLE "+sbtest.Table+" ADD PRIMARY KEY (id)",
		fmt.Sprintf("ALTER TABLE %s SET (parallel_workers = %d)", sbtest.Table, p.Cores),
		"VACUUM (FREEZE, ANALYZE) "+sbtest.Table,
		"CHECKPOINT",
	)
}

// Warm reads the table into the shared buffers, which a plain scan of a big
// table does not do, where the extension for it is installed.
func (p *postgres) Warm(ctx context.Context) error {
	var n int
	if err := p.conn.QueryRow(ctx, "SELECT COUNT(*) FROM pg_available_extensions WHERE name = 'pg_prewarm'").Scan(&n); err != nil {
		return err
	}
	if n == 0 {
		return p.exec(ctx, "SELECT COUNT(*) FROM "+sbtest.Table+" WHERE pad = ''")
	}
	return p.exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_prewarm", "SELECT pg_prewarm('"+sbtest.Table+"')")
}

func (p *postgres) Stop(ctx context.Context) error {
	if p.process == nil {
		return nil
	}
	p.hangUp(ctx)
	if err := p.process.stop(ctx); err != nil {
		return err
	}
	p.process = nil
	return nil
}

func (p *postgres) Kill() {
	if p.process != nil {
		p.hangUp(context.Background())
		p.process.kill()
		p.process = nil
	}
}

func (p *postgres) hangUp(ctx context.Context) {
	if p.conn != nil {
		_ = p.conn.Close(ctx) // the server ends next
		p.conn = nil
	}
}

// dropIndexes drops those that are there, also the invalid ones that a broken
// off CREATE INDEX CONCURRENTLY leaves.
func (p *postgres) dropIndexes(ctx context.Context, indexes []Index) error {
	for _, i := range indexes {
		if err := p.exec(ctx, "DROP INDEX CONCURRENTLY IF EXISTS "+i.Name); err != nil {
			return err
		}
	}
	return nil
}

func (p *postgres) addIndexes(ctx context.Context, c Case, concurrently bool) error {
	for _, i := range c.Indexes {
		if err := p.exec(ctx, i.postgresCreate(sbtest.Table, concurrently)); err != nil {
			return err
		}
	}
	return nil
}

// concurrently is CREATE INDEX CONCURRENTLY.
type concurrently struct{ *postgres }

func (concurrently) Name() string     { return "postgres-concurrently" }
func (concurrently) Title() string    { return "PostgreSQL CONCURRENTLY" }
func (concurrently) Traits() Traits   { return Traits{} }
func (concurrently) Available() error { return nil }
func (concurrently) Statement() string {
	return "CREATE INDEX CONCURRENTLY ..., one statement per index"
}
func (concurrently) Prepare(context.Context) error { return nil }

func (p concurrently) AddIndex(ctx context.Context, c Case) error {
	return p.addIndexes(ctx, c, true)
}

func (p concurrently) DropIndex(ctx context.Context, c Case) error {
	return p.dropIndexes(ctx, c.Indexes)
}

// plain is CREATE INDEX, which blocks writes meanwhile.
type plain struct{ *postgres }

func (plain) Name() string     { return "postgres-plain" }
func (plain) Title() string    { return "PostgreSQL plain, blocks writes" }
func (plain) Traits() Traits   { return Traits{BlocksWrites: true} }
func (plain) Available() error { return nil }
func (plain) Statement() string {
	return "CREATE INDEX ..., one statement per index; blocks writes"
}
func (plain) Prepare(context.Context) error { return nil }

func (p plain) AddIndex(ctx context.Context, c Case) error {
	return p.addIndexes(ctx, c, false)
}

func (p plain) DropIndex(ctx context.Context, c Case) error {
	return p.dropIndexes(ctx, c.Indexes)
}

// Session opens a connection, which prepares each statement when it first runs.
func (p *postgres) Session(ctx context.Context) (sbtest.Session, error) {
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return nil, err
	}
	return &postgresSession{conn: conn}, nil
}

type postgresSession struct {
	conn *pgx.Conn
}

// numbered are the statements' texts as PostgreSQL takes them.
var numbered = func() (texts [sbtest.Statements]string) {
	for s := range sbtest.Statements {
		texts[s] = s.Numbered()
	}
	return texts
}()

func (s *postgresSession) Run(ctx context.Context, stmt sbtest.Statement, args ...any) error {
	rows, err := s.conn.Query(ctx, numbered[stmt], args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		rows.RawValues()
	}
	return rows.Err()
}

// Classes of SQLSTATE by which the server asks to run the transaction again.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	uniqueViolation      = "23505"
)

// Retryable counts a duplicate key as a conflict: at read committed, two
// transactions that delete a row and insert it again can both find it gone.
func (s *postgresSession) Retryable(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case serializationFailure, deadlockDetected, uniqueViolation:
		return true
	}
	return false
}

func (s *postgresSession) Close() error { return s.conn.Close(context.Background()) }
